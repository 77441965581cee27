"""Rows that a person has picked in a list, and the question asked before they are acted on."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, QueryDict

from dashboard.actions import Action
from dashboard.pagination import PAGE
from dashboard.query_box import as_id

# what a link of a list must not carry on
ASKING = ("ask", "id", "every")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows by their ids, or every row that the list's query finds up to the one named."""

    ids: list[UUID]
    every: UUID | None = None


def chosen(data: QueryDict) -> Chosen:
    """What a form or an address names; nonsense is left out."""
    ids = [id for id in map(as_id, data.getlist("id")) if id]
    return Chosen(list(dict.fromkeys(ids))[:PAGE], as_id(data.get("every", "")))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about many: the verb, and how many rows it is about."""

    offer: Action
    chosen: Chosen
    count: int

    @property
    def many(self) -> bool:
        return self.count != 1


def asked(request: HttpRequest, offers: Mapping[str, Action]) -> tuple[Action, Chosen] | None:
    """The question in the address, asked without a script as well as with one."""
    offer, rows = offers.get(request.GET.get("ask", "")), chosen(request.GET)
    if offer is None or not offer.question or not (rows.ids or rows.every):
        return None
    return offer, rows


def asking(target: str, verb: str, rows: Chosen) -> str:
    """The address at which that question is asked."""
    path, _, query = target.partition("?")
    params = QueryDict(query, mutable=True)
    for name in ASKING:
        params.pop(name, None)
    params["ask"] = verb
    if rows.every:
        params["every"] = str(rows.every)
    else:
        params.setlist("id", [str(id) for id in rows.ids])
    return f"{path}?{params.urlencode()}"


def without_question(target: str) -> str:
    """The address of the list itself."""
    path, _, query = target.partition("?")
    params = QueryDict(query, mutable=True)
    for name in ASKING:
        params.pop(name, None)
    return f"{path}?{params.urlencode()}" if params else path
