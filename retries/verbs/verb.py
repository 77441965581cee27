"""A verb: what people do to rows, declared once for pages, operations and the admin."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from django.db.models import Q, QuerySet

from ledger.access.reasons import VERBS as REASON_VERBS
from ledger.access.reasons import ReasonRequired, require_reason
from ledger.admin_pages.confirmation import list_effects
from ledger.journal import Stamp
from ledger.secrets.notes import clean_note
from ledger.values.text import counted, normalize_newlines
from retries.verbs.matching import matches

# the permission to answer escalations, for which some verbs are another way
MAY_ANSWER = "retries.change_escalation"
CHANGED_MEANWHILE = "Nothing changed, because the state has changed in the meantime."

Options = dict[str, Any]
Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class Left:
    """Why a row was left as it is: a few words that group such rows, and the whole sentence."""

    why: str
    detail: str = ""


Run = Callable[[list[UUID], Options, Stamp], Collection[UUID]]
Effects = Callable[[Rows, Options], list[str] | None]
Apply = Callable[[list[UUID], Options, Stamp], dict[UUID, Left]]
DERIVED = cast("Apply", None)  # from `run` or `each`


def note_of(options: Options) -> str:
    # The reason is journaled with each row.
    return str(options.get("note") or options.get("reason") or "")


def call(
    function: Callable[..., Collection[Any]],
    *names: str,
    note: str = "note",
    load: type[Any] | None = None,
    **fixed: object,
) -> Run:
    """Return the `run` that calls a function with these options and the person's reason.

    With `load`, it takes the rows instead of their ids. `note` is the name of its reason, if any.
    """

    def run(ids: list[UUID], options: Options, stamp: Stamp) -> Collection[UUID]:
        rows = load._default_manager.filter(pk__in=ids).order_by("pk") if load else ids
        given = fixed | {name: options[name] for name in names}
        if note:
            given[note] = note_of(options)
        found = function(rows, stamp=stamp, **given)
        return found if isinstance(found, Mapping) else [getattr(row, "pk", row) for row in found]

    return run


def count_as(noun: str, text: str) -> Effects:
    def describe(rows: Rows, options: Options) -> list[str]:
        number = rows.count()
        return list_effects((number, f"{counted(number, noun)} {text}"))

    return describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """An action of people on rows.

    It changes the rows that match `where` and, for operations, `fit`. `run` changes the rows with
    these ids and returns the ids of those that changed, and `describe` says why others were left;
    verbs that change one row after the other declare `each`. `takes` are the options, each with
    the function that cleans and checks what a person typed.
    """

    name: str
    model: type[Any]
    where: Q | Callable[[Rows], Rows]
    fit: Callable[[Rows, Options], Rows] = lambda rows, options: rows
    takes: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    check_all: Callable[[Mapping[str, Any]], Options] | None = None  # where they depend on another
    run: Run | None = None
    each: Callable[[UUID, Options, Stamp], Left | None] | None = None
    describe: Callable[[list[UUID]], dict[UUID, Left]] = lambda ids: {}
    apply: Apply = DERIVED
    batch: int = 25  # rows that share a transaction
    ends: bool = False  # its tasks are over, so that others may wait for them in vain
    retries: bool = False  # its tasks wait for their agents
    once: bool = False  # the same form sent again changes nothing more
    is_dangerous: bool = False
    is_red: bool = False  # its buttons
    allowed_by: str = ""  # the permission, where it is not the one to change the model

    words: tuple[str, str, str]  # as a command, while it runs, and when it is done
    icon: str = ""
    tail: str = ""  # after the rows
    label: str = ""  # of the button, where it is not the command

    # its button on the page of a row, whose address has the slug
    slug: str = ""
    key: str = ""
    question: str = ""
    confirm: str = ""  # the label of the button that answers the question
    consequence: str = ""
    undo: str = ""  # the slug of the verb that undoes it
    # what happened, after the number of rows
    said: str | Callable[[Any, list[UUID], Options], str] = ""
    unchanged: Callable[[UUID], str] = lambda id: CHANGED_MEANWHILE
    # the row to show afterwards, where it is another one
    find_shown: Callable[[Any, UUID], UUID] | None = None

    # in the admin
    admin: str = ""  # the description of its action
    admin_done: str | Callable[[Any, Options], str] = ""
    # a sentence for each effect; None runs it without a question
    effects: Effects | None = None

    def __post_init__(self) -> None:
        if self.apply is DERIVED:
            object.__setattr__(self, "apply", self.apply_to_all)

    @property
    def do(self) -> str:
        return self.words[0]

    @property
    def doing(self) -> str:
        return self.words[1]

    @property
    def done(self) -> str:
        return self.words[2]

    @property
    def noun(self) -> str:
        return self.name.partition(".")[0]

    @property
    def action(self) -> str:
        return self.name.partition(".")[2]

    @property
    def row(self) -> str:
        return self.noun.replace("_", " ")

    @property
    def may_require_reason(self) -> bool:
        return self.name in REASON_VERBS

    def requires_reason(self, rows: Rows) -> bool:
        try:
            self.check_reason(rows, {})
        except ReasonRequired:
            return True
        return False

    @property
    def button(self) -> str:
        # A button names no rows.
        return self.label or self.do.removesuffix(" of")

    @property
    def permission(self) -> str:
        meta = self.model._meta
        return self.allowed_by or f"{meta.app_label}.change_{meta.model_name}"

    def narrow(self, rows: Rows) -> Rows:
        return rows.filter(self.where) if isinstance(self.where, Q) else self.where(rows)

    def suits(self, row: Any) -> bool:
        assert isinstance(self.where, Q)
        return matches(row, self.where)

    def check(self, options: Mapping[str, Any]) -> Options:
        if self.check_all:
            return self.check_all(options)
        return {
            name: read(normalize_newlines(str(options.get(name, ""))))
            for name, read in self.takes.items()
        }

    def read_form(self, posted: Mapping[str, Any]) -> Options:
        return self.check(posted) | {"reason": clean_note(str(posted.get("reason", "")))}

    def check_reason(self, rows: Rows, options: Options) -> None:
        if self.may_require_reason:
            require_reason(self.name, rows.order_by().values("project_id"), note_of(options))

    def change(self, ids: list[UUID], options: Options, stamp: Stamp) -> Collection[UUID]:
        self.check_reason(self.model._default_manager.filter(pk__in=ids), options)
        if self.run:
            return self.run(ids, options, stamp)
        left = self.apply(ids, options, stamp)
        return [id for id in ids if id not in left]

    def apply_to_all(self, ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
        """Change rows; return the unchanged rows' ids, with the reason."""
        if self.each:
            return {id: left for id in ids if (left := self.each(id, options, stamp))}
        changed = self.run(ids, options, stamp) if self.run else ()
        others = [id for id in ids if id not in changed]
        found = self.describe(others) if others else {}
        return {id: found.get(id, Left("No longer exists")) for id in others}

    def tell(self, changed: Collection[UUID], ids: list[UUID], options: Options) -> str:
        if callable(self.said):
            return self.said(changed, ids, options)
        return f"{counted(len(changed), self.row)} {self.said or self.done}."
