"""Pages of rows, and one row, as a token sees them."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet
from django.http import HttpResponse

from ledger.api.auth import not_visible
from ledger.api.cursors import read_page
from ledger.api.parameters import filter_by_id
from ledger.api.responses import json_response, page_body
from ledger.schemas.shapes import Part
from ledger.schemas.shared import PageQuery

M = TypeVar("M", bound=Model)


def find_visible(rows: "QuerySet[M]", noun: str, id: UUID) -> M:
    found = rows.filter(pk=id).first()
    if found is None:
        raise not_visible(noun, id)
    return found


def list_response(
    rows: "QuerySet[Any, Any]",
    query: PageQuery,
    write: type[Part] | Callable[[list[Any]], Iterable[Any]],
    *,
    oldest_first: bool = False,
    **of: Any,
) -> HttpResponse:
    """Return the page that `query` asks for, as a shape or a function writes its rows.

    `of` are the filters that are not in the query.
    """
    page = read_page(
        filter_by_id(rows, getattr(query, "id", "")),
        limit=query.limit,
        cursor=query.cursor,
        filters=of | query.model_dump(exclude={"limit", "cursor"}),
        oldest_first=oldest_first,
    )
    if isinstance(write, type):
        write = partial(map, write.write)  # type: ignore[attr-defined]
    return json_response(page_body(page, write(page.rows)))
