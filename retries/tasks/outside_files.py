"""Mark reports that name files outside of their task's `files`.

PostgreSQL compares them, by the rule for tasks with the same files: `ledger_files_outside`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from ledger import journal
from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind, Stamp
from ledger.secrets.redaction import stripped
from ledger.tokens import TrustedCaller
from ledger.values.text import truncate
from retries.attempts.report_fields import MAX_FILES, Report

FIELD = "outside_files"  # of an attempt's decision
LISTED = 20
PATH_LENGTH = 300
FIND = "select ledger_files_outside(%(files)s::jsonb, %(paths)s::text[]) as found"


def list_paths(report: Report) -> list[str] | None:
    # PostgreSQL has no text with a NUL.
    found = [stripped(str(each.get("path") or "")) for each in report.files_modified[:MAX_FILES]]
    return found or None


def find_outside(row: Row, report: Report) -> dict[str, Any] | None:
    """Return how many of the report's files are outside of the task's, and the first of them."""
    files = row["payload"].get("files") if isinstance(row["payload"], dict) else None
    paths = list_paths(report)
    if not files or not paths:
        return None
    found = sql.run(FIND, files=Jsonb(files), paths=paths)[0]["found"]
    return describe(found) if found else None


def describe(paths: Sequence[str]) -> dict[str, Any]:
    return {"count": len(paths), "files": [truncate(path, PATH_LENGTH) for path in paths[:LISTED]]}


def record_outside(
    row: Row, outside: dict[str, Any], *, caller: TrustedCaller, now: datetime
) -> None:
    journal.record(
        Kind.TASK_FILES_OUTSIDE,
        subject_type="task",
        subject_id=row["id"],
        agent_id=row["agent_id"],
        project_id=row["project_id"],
        stamp=Stamp(caller.actor, now, caller.request_id),
        data={"attempt": row["number"]} | outside,
    )
