"""A text that is made of secrets, for the walks that look for what is left of them."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from django.db import connection

from tests.source_tree import ROOT

# Put together here, so that nothing in this file looks like a secret.
TOKEN = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
# What stays of a token that was cut before it was masked; the mask has no such text.
LEFT = re.compile(r"ghp_\w{4,}")
LONGEST = 9000  # longer than every limit of a text that a person types

# Columns that keep a text as it was sent, and why.
AS_SENT = {
    # an instruction is delivered, and compared, to the letter
    ("ledger_instruction", "content"),
    ("ledger_instructionwords", "words"),
    ("ledger_standinginstruction", "content"),
    # what a signal has to say to be the expected one
    ("ledger_instruction", "expect_match"),
    ("ledger_instruction", "expect_type"),
    ("ledger_standinginstruction", "expect_match"),
    ("ledger_standinginstruction", "expect_type"),
    ("ledger_standinginstruction", "match"),
    ("ledger_standinginstruction", "match_exact"),
    ("ledger_standinginstruction", "path_pattern"),
    ("ledger_standinginstruction", "signal_type"),
}


def fill(length: int = LONGEST) -> str:
    """Return as many tokens as fit, one after the other: a cut divides one, wherever it is."""
    return " ".join([TOKEN] * max(1, (length + 1) // (len(TOKEN) + 1)))


@cache
def tables() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            """select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition
            order by 1"""
        )
        return [name for (name,) in cursor.fetchall()]


def find_secrets() -> set[tuple[str, str, str]]:
    """Return the table, column and text of every part of a token in the database."""
    each = " union all ".join(
        f"""select '{name}', e.key, e.value from "{name}" t,
        lateral jsonb_each_text(to_jsonb(t)) e where t::text like '%ghp\\_%'"""
        for name in tables()
    )
    with connection.cursor() as cursor:
        cursor.execute(each)
        rows = cursor.fetchall()
    return {
        (table, column, found[0])
        for table, column, text in rows
        if (table, column) not in AS_SENT and (found := LEFT.search(text or ""))
    }


# ---- the fields of the API's description and of the tools


def list_fields(
    schema: Mapping[str, Any], shared: Mapping[str, Any], *, depth: int = 4
) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield the path of every text in a JSON schema, with its greatest length."""
    while "$ref" in schema:
        schema = shared[schema["$ref"].rpartition("/")[2]]
    if depth == 0 or "enum" in schema or "const" in schema:
        return
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from list_fields(option, shared, depth=depth)
    if schema.get("type") == "string" and "format" not in schema:
        yield (), min(schema.get("maxLength", LONGEST), LONGEST)
    for name, part in schema.get("properties", {}).items():
        for path, length in list_fields(part, shared, depth=depth - 1):
            yield (name, *path), length
    if "items" in schema:
        for path, length in list_fields(schema["items"], shared, depth=depth - 1):
            yield (0, *path), length
    if schema.get("type") == "object" and schema.get("additionalProperties") not in (None, False):
        yield ("said",), LONGEST
    if not schema.get("type") and not {"anyOf", "oneOf", "allOf", "properties"} & schema.keys():
        yield (), LONGEST  # any JSON


def put(body: Any, path: tuple[str | int, ...], text: str) -> Any:
    """Return a JSON body with a text at a path; what is missing on the way is added."""
    if not path:
        return text
    first, *rest = path
    if first == 0:
        items = list(body) if isinstance(body, list) else []
        return [put(items[0] if items else None, tuple(rest), text), *items[1:]]
    values = dict(body) if isinstance(body, dict) else {}
    return values | {first: put(values.get(first), tuple(rest), text)}


# ---- the fields of the forms

POSTED = re.compile(r"""(?:POST|posted|given|data)(?:\.get\(|\[)\s*["'](\w+)["']""")
NAMED = re.compile(r"""<(?:textarea|input)\b[^>]*?\bname="([\w.-]+)\"""", re.S)


def find_names(folder: str, ending: str, pattern: re.Pattern[str]) -> set[str]:
    files = (ROOT / folder).rglob(f"*.{ending}")
    return {name for path in files for name in pattern.findall(path.read_text())}


@cache
def read_fields(room: str) -> list[str]:
    """Return the names of the fields that the views of a folder read."""
    return sorted(find_names(f"dashboard/{room}", "py", POSTED))


@cache
def form_fields(room: str) -> list[str]:
    """Return the names of the fields that the pages of a folder read or show."""
    return sorted({*read_fields(room), *find_names(f"templates/{room}", "html", NAMED)})
