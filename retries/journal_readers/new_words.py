"""Write the words of new tasks and instructions, and digests of stored values, for the search.

The telling lines of a failure are stored when it is reported. Failures of before this was so, and
those whose details were deleted, get theirs here, the newest first.
"""

from datetime import datetime
from typing import Any

from django.db import transaction

from ledger.database import sql
from ledger.journal import Cursor, Kind
from ledger.models import Failure, Project
from ledger.search_words import INSTRUCTION_TEXT, TASK_TEXT
from retries.failures.outputs.telling_lines import find_telling_lines
from retries.journal_readers import stored_values
from retries.journal_readers.positions import IN_BATCH, ensure_cursor, read_batches

READER = "search_words"
MOST_BATCHES = 20
# failures that get their telling lines in one run: it takes a second or two
FAILURES_IN_BATCH, MOST_FAILURE_BATCHES = 200, 5
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
UNREAD = f"""select id from ledger_failure where telling_lines is null
order by id desc limit {FAILURES_IN_BATCH} for update skip locked"""
WRITE_TELLING_LINES = """update ledger_failure f set telling_lines = new.lines
from unnest(%(ids)s::uuid[], %(lines)s::text[]) new (id, lines) where f.id = new.id"""


def write_words(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    ensure_cursor(READER, start=Cursor(), now=now)
    batches = read_batches(READER, write_batch, most=MOST_BATCHES, now=now)
    read = write_old_failures()
    filled = stored_values.fill()
    return (
        {"batches": batches}
        | ({"failures": read} if read else {})
        | ({"filled": filled} if filled else {})
    )


def write_batch(between: dict[str, str]) -> None:
    sql.run(WRITE_TASKS, **between)
    sql.run(WRITE_INSTRUCTIONS, **between)
    stored_values.write_batch(between)


def write_old_failures() -> int:
    """Store the telling lines of failures that have none yet; return how many failures."""
    total = 0
    for _ in range(MOST_FAILURE_BATCHES):
        read = write_old_batch()
        total += read
        if read < FAILURES_IN_BATCH:
            break
    return total


@transaction.atomic
def write_old_batch() -> int:
    ids = [row["id"] for row in sql.run(UNREAD)]
    failures = Failure.objects.filter(pk__in=ids).only("verification", "details", "message")
    lines = {each.pk: find_telling_lines(*each.texts) for each in failures}
    if lines:
        sql.run(WRITE_TELLING_LINES, ids=list(lines), lines=list(lines.values()))
    return len(ids)
