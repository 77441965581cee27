"""Keyset pages, newest first: a cursor names the last row seen and is bound to the filters."""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from ledger.errors import Refusal

M = TypeVar("M", bound=Model)


class BadCursor(Refusal):
    """This cursor does not belong to this list"""

    code = "bad_cursor"
    hint = "Take the cursor from 'next_cursor' of the page before, with the same filters."


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of one page, and where the next one begins."""

    rows: list[Any]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


def cut(
    query: "QuerySet[M]", *, limit: int, cursor: str | None, filters: Mapping[str, Any]
) -> Page:
    """One page of `query` by descending id; raises BadCursor."""
    seal = sealed(filters)
    if cursor:
        query = query.filter(pk__lt=opened(cursor, seal))
    rows = list(query.order_by("-pk")[: limit + 1])
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(rows, closed(key_of(rows[-1]), seal) if more else None)


def key_of(row: Any) -> UUID:
    """The id of a model or of a row of values."""
    found: UUID = row["id"] if isinstance(row, dict) else row.pk
    return found


def sealed(filters: Mapping[str, Any]) -> str:
    text = json.dumps(filters, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def closed(last: UUID, seal: str) -> str:
    return base64.urlsafe_b64encode(f"{last.hex}.{seal}".encode()).decode().rstrip("=")


def opened(cursor: str, seal: str) -> UUID:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        last, _, bound = text.partition(".")
        where = UUID(hex=last)
    except (binascii.Error, ValueError) as error:
        raise BadCursor("The cursor can't be read.") from error
    if bound != seal:
        raise BadCursor("The cursor was made for other filters.")
    return where
