"""Keyset pagination: a cursor names the last row and is bound to the filters."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from ledger.errors import Refusal

M = TypeVar("M", bound=Model)


class BadCursor(Refusal):
    """The cursor does not belong to this list"""

    code = "bad_cursor"
    hint = "Use 'next_cursor' from the previous page, with the same filters."


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, and the cursor of the next page."""

    rows: list[Any]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


def read_page(
    query: "QuerySet[M]",
    *,
    limit: int,
    cursor: str | None,
    filters: Mapping[str, Any],
    oldest_first: bool = False,
) -> Page:
    """Return one page of `query` by descending or ascending id; raise BadCursor."""

    def fetch(last: UUID | None, most: int) -> list[Any]:
        rows = query
        if last:
            rows = rows.filter(pk__gt=last) if oldest_first else rows.filter(pk__lt=last)
        return list(rows.order_by("pk" if oldest_first else "-pk")[:most])

    return fetch_page(fetch, list=query.model._meta.label, limit=limit, cursor=cursor, **filters)


def fetch_page(
    fetch: Callable[[UUID | None, int], list[Any]],
    *,
    limit: int,
    cursor: str | None,
    **filters: Any,
) -> Page:
    """Return the page after the cursor's row, from a function of that row's id and of a limit."""
    seal = hash_filters(filters)
    # One extra row shows whether there is another page.
    rows = fetch(decode_cursor(cursor, seal) if cursor else None, limit + 1)
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(rows, encode_cursor(row_id(rows[-1]), seal) if more else None)


def row_id(row: Any) -> UUID:
    id: UUID = row.pk if isinstance(row, Model) else row["id"] if isinstance(row, dict) else row.id
    return id


def hash_filters(filters: Mapping[str, Any]) -> str:
    text = json.dumps(filters, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def encode_cursor(last: UUID, seal: str) -> str:
    return base64.urlsafe_b64encode(f"{last.hex}.{seal}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str, seal: str) -> UUID:
    """Return the id of the last row; raise BadCursor if it was encoded with other filters."""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        last, _, cursor_seal = text.partition(".")
        id = UUID(hex=last)
    except (binascii.Error, ValueError) as error:
        raise BadCursor("The cursor is malformed.") from error
    # The decoder ignores characters outside its alphabet, and UUID takes several spellings.
    if encode_cursor(id, cursor_seal) != cursor:
        raise BadCursor("The cursor is malformed.")
    if cursor_seal != seal:
        raise BadCursor("The cursor belongs to other filters.")
    return id
