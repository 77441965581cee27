"""Write the words of new tasks and instructions, for the search."""

from datetime import datetime
from typing import Any

from ledger.database import sql
from ledger.journal import Cursor, Kind
from ledger.models import Project
from ledger.search_words import INSTRUCTION_TEXT, TASK_TEXT
from retries.journal_readers.positions import IN_BATCH, ensure_cursor, read_batches

READER = "search_words"
MOST_BATCHES = 20
WRITE_TASKS = f"""insert into ledger_taskwords (task_id, words)
select t.id, {TASK_TEXT("t")} from ledger_task t
where t.id in (select e.subject_id from ledger_event e
    where {IN_BATCH} and e.subject_type = 'task' and e.kind = '{Kind.TASK_CREATED}')
on conflict do nothing"""
WRITE_INSTRUCTIONS = f"""insert into ledger_instructionwords (instruction_id, words)
select i.id, {INSTRUCTION_TEXT("i")} from ledger_instruction i
where i.id in (select e.subject_id from ledger_event e
    where {IN_BATCH} and e.subject_type = 'instruction' and e.kind = '{Kind.INSTRUCTION_QUEUED}')
on conflict do nothing"""


def write_words(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Write the words of new tasks and instructions; return how many batches were read."""
    ensure_cursor(READER, start=Cursor(), now=now)
    return {"batches": read_batches(READER, write_batch, most=MOST_BATCHES, now=now)}


def write_batch(between: dict[str, str]) -> None:
    sql.run(WRITE_TASKS, **between)
    sql.run(WRITE_INSTRUCTIONS, **between)
