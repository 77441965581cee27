"""Rows selected in a list, and the question to confirm before an action on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, QueryDict

from dashboard.actions import Action
from dashboard.pagination import PAGE
from dashboard.query_box import as_id

# parameters of a question that a list's links must not repeat
QUESTION_PARAMS = ("ask", "id", "every")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected rows by their ids, or all rows of the list's query up to the row `every`."""

    ids: list[UUID]
    every: UUID | None = None


def read_selection(data: QueryDict) -> Selection:
    """Return the selection in a form or an address, without anything that is not an id."""
    ids = [id for id in map(as_id, data.getlist("id")) if id]
    return Selection(list(dict.fromkeys(ids))[:PAGE], as_id(data.get("every", "")))


@dataclass(frozen=True, slots=True)
class BulkQuestion:
    """An action on selected rows that has to be confirmed, and their number."""

    action: Action
    selection: Selection
    count: int

    @property
    def many(self) -> bool:
        return self.count != 1


def find_bulk_question(
    request: HttpRequest, actions: Mapping[str, Action]
) -> tuple[Action, Selection] | None:
    """Return the action and selection in the address if they have to be confirmed."""
    action, rows = actions.get(request.GET.get("ask", "")), read_selection(request.GET)
    if action is None or not action.question or not (rows.ids or rows.every):
        return None
    return action, rows


def question_url(target: str, verb: str, rows: Selection) -> str:
    """Return the address of the list with a question."""
    path, _, query = target.partition("?")
    params = QueryDict(query, mutable=True)
    for name in QUESTION_PARAMS:
        params.pop(name, None)
    params["ask"] = verb
    if rows.every:
        params["every"] = str(rows.every)
    else:
        params.setlist("id", [str(id) for id in rows.ids])
    return f"{path}?{params.urlencode()}"


def list_url(target: str) -> str:
    """Return the address of the list without a question."""
    path, _, query = target.partition("?")
    params = QueryDict(query, mutable=True)
    for name in QUESTION_PARAMS:
        params.pop(name, None)
    return f"{path}?{params.urlencode()}" if params else path
