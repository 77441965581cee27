"""Count the events of each half hour and each day from the journal.

Each event is counted once, in the transaction that moves the reader's cursor, so that a page reads
a few rows for each agent however long the journal is.
"""

from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.journal import Cursor, Kind
from ledger.models import Project
from ledger.states import Outcome, TaskState
from retries.journal_readers.positions import IN_BATCH, ensure_cursor, read_batches
from retries.models import ActivityCount, DurationCount
from retries.models.activity_count import DAY, HALF_HOUR

READER = "activity"
MOST_BATCHES = 20
# Pages look back 30 days, and compare with the 30 days before by days.
KEEP_HALF_HOURS = timedelta(days=35)
STEP = 1.05  # of durations, as a factor

SLOTS = f"cross join (values ({HALF_HOUR}), ({DAY})) slot(minutes)"
SLOT_START = "date_bin(make_interval(mins => slot.minutes), e.at, timestamptz 'epoch')"
ENDS_ATTEMPT = "e.subject_type = 'task' and e.from_state = 'running'"
FINISHED = f"e.to_state in ('{TaskState.DONE}', '{TaskState.FAILED}')"
ACKNOWLEDGED = f"e.kind in ('{Kind.INSTRUCTION_ACKNOWLEDGED}', '{Kind.INSTRUCTION_DECLINED}')"
RETRIES = "coalesce((e.data ->> 'retry_count')::int, 0)"

# column -> what it adds up over the events `e`, an ended attempt `a`, and an instruction `i`
SUMS = {
    "attempts": "count(a.id)",
    "attempts_failed": f"count(a.id) filter (where a.outcome = '{Outcome.FAILURE}')",
    "busy_s": "coalesce(sum(extract(epoch from a.ended_at - a.started_at)), 0)",
    # without the tasks that a plan's file marks as done, because no agent did them
    "tasks_done": f"count(*) filter (where e.kind = '{Kind.TASK_COMPLETED}'"
    " and not e.data ? 'ticked')",
    "tasks_done_first": f"count(*) filter (where e.kind = '{Kind.TASK_COMPLETED}'"
    " and a.number = 1)",
    "tasks_failed": f"count(*) filter (where e.kind = '{Kind.TASK_FAILED}')",
    "tasks_escalated": f"count(*) filter (where e.kind = '{Kind.TASK_ESCALATED}')",
    "finished_attempts": f"coalesce(sum(t.attempts) filter (where {FINISHED}), 0)",
    "sent": f"count(i.id) filter (where e.kind = '{Kind.INSTRUCTION_QUEUED}')",
    "acknowledged_first": f"count(i.id) filter (where {ACKNOWLEDGED} and {RETRIES} = 0)",
    "acknowledged_later": f"count(i.id) filter (where {ACKNOWLEDGED} and {RETRIES} > 0)",
    "given_up": f"count(i.id) filter (where e.kind = '{Kind.INSTRUCTION_FAILED}')",
}


# the events `e` with what they are about, and which of them count
SOURCE = f"""ledger_event e
    left join ledger_attempt a on {ENDS_ATTEMPT} and a.task_id = e.subject_id
        and a.number = (e.data ->> 'attempt')::int and a.outcome is not null
    left join ledger_task t on e.subject_type = 'task' and {FINISHED} and t.id = e.subject_id
    left join ledger_instruction i on e.subject_type = 'instruction' and i.id = e.subject_id
        and i.tracked"""
IS_COUNTED = f"""e.agent_id is not null and (a.id is not null or i.id is not null
    or e.kind in ('{Kind.TASK_COMPLETED}', '{Kind.TASK_FAILED}', '{Kind.TASK_ESCALATED}'))"""


def build_statements(among: str) -> tuple[str, str]:
    """Return the statements that count the events `e` that meet a condition."""
    activity = f"""insert into retries_activitycount as c
    (minutes, at, agent_id, project_id, {", ".join(SUMS)})
select slot.minutes, {SLOT_START}, e.agent_id, e.project_id, {", ".join(SUMS.values())}
from {SOURCE}
    {SLOTS}
where {among} and {IS_COUNTED}
group by 1, 2, 3, 4 order by 1, 2, 3
on conflict (minutes, at, agent_id) do update
set {", ".join(f"{name} = c.{name} + excluded.{name}" for name in SUMS)}"""
    durations = f"""insert into retries_durationcount as c
    (minutes, at, project_id, measure, step, count)
select slot.minutes, {SLOT_START}, e.project_id, took.measure,
    round(ln(greatest(took.seconds, 0.001)) / ln({STEP})), count(*)
from ledger_event e
    left join ledger_instruction i on e.subject_type = 'instruction' and i.id = e.subject_id
        and i.tracked
    left join retries_escalation x on e.subject_type = 'escalation' and x.id = e.subject_id
    cross join lateral (values ('ack', extract(epoch from e.at - i.queued_at)),
        ('answer', extract(epoch from e.at - x.opened_at))) took(measure, seconds)
    {SLOTS}
where {among} and ({ACKNOWLEDGED} or e.kind = '{Kind.ESCALATION_RESOLVED}')
    and took.seconds is not null
group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
on conflict (minutes, at, project_id, measure, step) do update
set count = c.count + excluded.count"""
    return activity, durations


COUNT_BATCH = build_statements(IN_BATCH)


def count_activity(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    ensure_cursor(READER, start=Cursor(), now=now)
    batches = read_batches(READER, count_batch, most=MOST_BATCHES, now=now)
    ActivityCount.objects.filter(minutes=HALF_HOUR, at__lt=now - KEEP_HALF_HOURS).delete()
    DurationCount.objects.filter(minutes=HALF_HOUR, at__lt=now - KEEP_HALF_HOURS).delete()
    return {"batches": batches}


def count_batch(between: dict[str, str]) -> None:
    for statement in COUNT_BATCH:
        sql.run(statement, **between)
