"""Rows of the API as they are: pages of a list, and one row by any of its names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tenfour.api.calls import given, json_object, next_page, page_of, part
from tenfour.client import Client
from tenfour.http.core import Call
from tenfour.http.problems import TenfourError
from tenfour.nouns.output.columns import Row, value_of

MOST = 100  # rows of a page
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
# The beginning of an id, or the last 8 digits, which pages print after an ellipsis.
SHORT = re.compile(r"(?:…|\.{3})?([0-9a-f]{4}[0-9a-f-]*)", re.ASCII | re.IGNORECASE)
CANDIDATES = 10


@dataclass(frozen=True)
class Kind:
    """A kind of row: its path in the API, its names, and the field that titles a row."""

    path: str
    name: str
    plural: str
    # where a name, or a ref, may stand for an id: the server takes it as an id, or as a filter
    names: Literal["", "path", "ref"] = ""
    title: str = "title"
    # the command's name, where it differs
    noun: str = ""
    # the path of a row's page, with the fields of the row that it needs; else the row's own `url`
    page: str = ""

    def path_of(self, id: str, *verb: str) -> str:
        return "/".join([self.path, part(id), *verb])


class Ambiguous(TenfourError):
    """Several rows have the same short id; `candidates` says which."""

    def __init__(self, text: str, kind: Kind, rows: Sequence[Row]) -> None:
        detail = f"{text} is the short id of several {kind.plural}."
        super().__init__(detail, code="ambiguous", hint="Use more of one of these ids:")
        self.candidates = tuple(describe_row(kind, row) for row in rows)


def describe_row(kind: Kind, row: Row) -> str:
    words = (row.get("id"), row.get("state"), value_of(row, kind.title))
    return "  ".join(str(word) for word in words if word)


def get(client: Client, path: str, **params: str) -> Row:
    return client.perform(Call("GET", path, json_object, params=params))


def act(client: Client, path: str, body: Mapping[str, Any] | None = None) -> Row:
    """Send a POST; a field of the body that is None is left out."""
    return client.perform(Call("POST", path, json_object, given(body or {})))


def change(client: Client, kind: Kind, id: str, **changes: Any) -> Row:
    """Send a PATCH of a row whose version does not matter."""
    return client.perform(Call("PATCH", kind.path_of(id), json_object, changes))


def fetch_rows(
    client: Client, path: str, params: Mapping[str, str], *, limit: int
) -> tuple[list[Row], bool]:
    """Return the first rows of a list, and whether there are more."""
    call: Call[Any] | None = Call("GET", path, page_of(json_object), params=params)
    rows: list[Row] = []
    while call and len(rows) < limit:
        size = str(min(MOST, limit - len(rows)))
        page = client.perform(replace(call, params={**call.params, "limit": size}))
        rows += page.data
        call = next_page(call, page)
    return rows[:limit], call is not None


def find_id(client: Client, kind: Kind, text: str) -> str:
    """Return the whole id for an id, a name, a ref or a short id; raises TenfourError."""
    if ID.fullmatch(text):
        return text.lower()
    if kind.names and (named := find_named(client, kind, text)):
        return named
    short = SHORT.fullmatch(text)
    rows = find_short(client, kind, short[1].lower()) if short else []
    if len(rows) > 1:
        raise Ambiguous(text, kind, rows)
    if not rows:
        raise unknown(kind, text)
    return str(rows[0]["id"])


def find_named(client: Client, kind: Kind, text: str) -> str:
    """Return the id of the row with this name or ref; empty if there is none."""
    if kind.names == "ref":
        rows, _ = fetch_rows(client, kind.path, {"ref": text}, limit=1) if ":" in text else ([], 0)
        return str(rows[0]["id"]) if rows else ""
    try:
        row = get(client, kind.path_of(text))
    except TenfourError as error:
        if error.status != 404:
            raise
        return ""
    return str(row.get(kind.name, row)["id"])


def find_short(client: Client, kind: Kind, digits: str) -> list[Row]:
    rows, _ = fetch_rows(client, kind.path, {"id": digits}, limit=CANDIDATES)
    # A server that does not know this filter answers with any rows.
    return [row for row in rows if has_short(str(row["id"]), digits)]


def has_short(id: str, digits: str) -> bool:
    """Return whether an id begins with the digits, or ends with these 8.

    >>> id = "01a1fe6d-9b01-7830-98b6-0164ecc5924c"
    >>> has_short(id, "01a1fe6d-9b"), has_short(id, "01a1fe6d9b"), has_short(id, "ecc5924c")
    (True, True, True)
    >>> has_short(id, "5924c")
    False
    """
    bare = digits.replace("-", "")
    return id.replace("-", "").startswith(bare) or (len(bare) == 8 and id.endswith(bare))


def unknown(kind: Kind, text: str) -> TenfourError:
    return TenfourError(
        f"No {kind.name} {text} is visible to this token.",
        status=404,
        code="not_found",
        title="Not found",
        hint=f"`tenfour {kind.noun or kind.name} list` lists them.",
    )
