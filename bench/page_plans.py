"""Count each page's statements and find those that walk through a large table; print JSON."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import django

from bench.page_client import build_getter, find_detail_pages

LARGE_ROWS = 20_000
WHOLE = 0.5  # the share of a table's rows that a scan reads if it walks through the table
Statement = tuple[Any, Any, Any, bool]  # text, values, class of the cursor, whether prepared


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
        sent.append((query, params, type(cursor), bool(more.get("prepare"))))
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
        cursor.execute("select relname, reltuples from pg_class where reltuples > %s", [LARGE_ROWS])
        large = dict(cursor.fetchall())
        for query, params, kind, is_prepared in statements:
            text = query.decode() if isinstance(query, bytes) else str(query)
            if text.split(None, 1)[0].lower() not in ("select", "with"):
                continue
            plan = explain(kind(connection.connection), text, params, is_prepared=is_prepared)
            for table in sorted(set(list_scanned(plan, large))):
                yield table, text


def explain(cursor: Any, text: str, params: Any, *, is_prepared: bool) -> dict[str, Any]:
    """Run a statement and return its plan: for these values, or if it is prepared for all."""
    import psycopg

    if is_prepared:
        cursor.execute(text, params, prepare=True)
        cursor.execute(
            "select name from pg_prepared_statements where statement = $1"
            " order by prepare_time desc limit 1",
            [text],
        )
        (name,) = read_row(cursor)
        cursor = psycopg.ClientCursor(cursor.connection)
        values = f"({', '.join(['%s'] * len(params))})" if params else ""
        text = f'execute "{name}"{values}'
    # it runs the statement, and some write
    with cursor.connection.transaction(force_rollback=True):
        cursor.execute(f"explain (analyze, timing off, format json) {text}", params)
        (plans,) = read_row(cursor)
    found: dict[str, Any] = plans[0]["Plan"]
    return found


def read_row(cursor: Any) -> tuple[Any, ...]:
    (row,) = cursor.fetchall()
    return tuple(row.values()) if isinstance(row, dict) else row


def list_scanned(plan: dict[str, Any], large: dict[str, float]) -> Iterator[str]:
    """Yield the large tables that a plan walks through, by an index or without."""
    table = plan.get("Relation Name", "")
    in_each_loop = plan.get("Actual Rows", 0) + plan.get("Rows Removed by Filter", 0)
    read = in_each_loop * plan.get("Actual Loops", 1)
    is_whole = read > large.get(table, 0) * WHOLE
    if table in large and (plan["Node Type"] == "Seq Scan" or is_whole):
        yield table
    for part in plan.get("Plans", []):
        yield from list_scanned(part, large)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
