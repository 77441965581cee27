"""Count each page's statements and find those that walk through a large table; print JSON."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import django

from bench.page_client import build_getter, find_detail_pages

LARGE_ROWS = 20_000
Statement = tuple[Any, Any, Any]  # text, values, class of the cursor


def main(name: str, paths: dict[str, str]) -> None:
    django.setup()
    get = build_getter(name)
    pages = {}
    for page, path in (paths | find_detail_pages()).items():
        where, _, query = path.partition("?")
        get(where, query)
        statements = record_statements(lambda where=where, query=query: get(where, query))
        scans = [f"{table} ({text[:1500]})" for table, text in find_scans(statements)]
        pages[page] = {"queries": len(statements), "scans": scans}
    print(json.dumps(pages))


def record_statements(work: Callable[[], Any]) -> list[Statement]:
    """Return the statements that are sent to PostgreSQL, with their values."""
    import psycopg

    sent: list[Statement] = []
    execute = psycopg.Cursor.execute

    def execute_and_note(cursor: Any, query: Any, params: Any = None, **more: Any) -> Any:
        sent.append((query, params, type(cursor)))
        return execute(cursor, query, params, **more)

    psycopg.Cursor.execute = execute_and_note  # type: ignore[method-assign]
    try:
        work()
    finally:
        psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    return sent


def find_scans(statements: list[Statement]) -> Iterator[tuple[str, str]]:
    """Yield the large tables that a statement walks through, with the statement."""
    from django.db import connection

    connection.ensure_connection()
    with connection.connection.cursor() as cursor:
        cursor.execute("select relname from pg_class where reltuples > %s", [LARGE_ROWS])
        large = {name for (name,) in cursor.fetchall()}
        for query, params, kind in statements:
            text = query.decode() if isinstance(query, bytes) else str(query)
            if text.split(None, 1)[0].lower() not in ("select", "with"):
                continue
            asked = kind(connection.connection)
            asked.execute("explain (format json) " + text, params)
            (row,) = asked.fetchall()
            (plans,) = row.values() if isinstance(row, dict) else row
            for table in sorted(set(list_scanned(plans[0]["Plan"])) & large):
                yield table, text


def list_scanned(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the tables that a plan walks through."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for part in plan.get("Plans", []):
        yield from list_scanned(part)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
