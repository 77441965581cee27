"""The action of an operation: an existing verb, and the rows that it can change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from ledger.errors import Invalid
from ledger.journal import Stamp
from retries.states import Dependents

# the permission to answer escalations, for which some verbs are another way
MAY_ANSWER = "retries.change_escalation"

Options = dict[str, Any]
Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class Left:
    """Why a row was left as it is: a few words that group such rows, and the whole sentence."""

    why: str
    detail: str = ""


def note_of(options: Options) -> str:
    """Return the reason that the person gave for the operation, to journal with each row."""
    return str(options.get("reason", ""))


def accept(options: Options) -> Options:
    """Return no options, for verbs without any."""
    return {}


def keep_all(rows: Rows, options: Options) -> Rows:
    """Return all rows, for verbs whose options leave out none."""
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkVerb:
    """A verb of operations.

    `narrow` keeps the rows that it can change now, and `fit` those of them that it changes with
    its options. `apply` changes the rows with these ids and returns those that it left. `batch` of
    them share a transaction.
    """

    name: str
    permission: str
    model: type[Any]
    narrow: Callable[[Rows], Rows]
    apply: Callable[[list[UUID], Options, Stamp], dict[UUID, Left]]
    check: Callable[[Options], Options] = accept
    fit: Callable[[Rows, Options], Rows] = keep_all
    batch: int = 25

    @property
    def noun(self) -> str:
        return self.name.partition(".")[0]


def check_dependents(options: Options) -> Options:
    """Return what happens to dependents; raises Invalid for an unknown choice."""
    choice = options.get("dependents") or Dependents.CONTINUE
    if choice not in Dependents.values:
        raise Invalid("/dependents", "Set dependents to 'continue', 'block' or 'skip'.")
    return {"dependents": str(choice)}


def explain_left(
    ids: list[UUID], changed: set[UUID], describe: Callable[[list[UUID]], dict[UUID, Left]]
) -> dict[UUID, Left]:
    """Return why the rows that did not change were left; `describe` reads their state now."""
    left = [id for id in ids if id not in changed]
    if not left:
        return {}
    found = describe(left)
    return {id: found.get(id, Left("No longer exists")) for id in left}
