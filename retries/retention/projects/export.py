"""Export a project: every row of it as a JSON line, from one moment."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from ledger.api.responses import encode_value
from ledger.database import sql
from ledger.models import Project
from retries.retention.projects.tables import DERIVED, SECRETS, TABLES

FETCHED = 500


def export_project(project: Project, *, now: datetime) -> Iterator[str]:
    """Yield the lines: a heading, one for each row, and the number of rows at the end.

    A file without the last line was cut short.
    """
    yield render_line(
        {"tenfour": settings.TENFOUR_VERSION, "project": project.name, "exported_at": now}
    )
    rows = 0
    with transaction.atomic():
        sql.run("set transaction isolation level repeatable read, read only")
        for table in TABLES:
            if table not in DERIVED:
                for text in fetch_rows(table, project):
                    rows += 1
                    yield text
    yield render_line({"rows": rows})


def fetch_rows(table: str, project: Project) -> Iterator[str]:
    # Only some of the rows are in memory at a time.
    hidden = sql.quoted(SECRETS.get(table, ()))
    sql.run(
        f"""declare exported no scroll cursor for
        select jsonb_build_object('table', '{table}',
            'row', to_jsonb(t) - array[{hidden}]::text[])::text as line
        from {table} t where {TABLES[table]}""",
        project=project.pk,
    )
    while found := sql.run(f"fetch {FETCHED} from exported"):
        yield from (row["line"] + "\n" for row in found)
    sql.run("close exported")


def render_line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, default=encode_value) + "\n"
