"""Index what tokens of operators and producers do, while agents go on reporting.

The index of a partitioned table can't be built beside writers in one statement: each partition gets
its own first. A run that was cut short is run again.
"""

from time import sleep
from typing import Any

import psycopg
from django.db import OperationalError, migrations, models

KINDS = [
    "instruction.requeued",
    "instruction.cancelled",
    "standing_instruction.created",
    "standing_instruction.updated",
    "standing_instruction.paused",
    "standing_instruction.resumed",
    "standing_instruction.retired",
    "task.changed",
    "task.due",
    "task.requeued",
    "task.answer_undone",
    "task.skipped",
    "task.aborted",
    "task.abort_requested",
    "task.replayed",
    "task.dismissed",
    "plan.imported",
    "plan.updated",
    "plan.paused",
    "plan.resumed",
    "plan.aborted",
    "plan.restarted",
    "escalation.resolved",
    "escalation.reopened",
    "escalation.assigned",
    "escalation.commented",
    "escalation.snoozed",
    "escalation.returned",
    "pattern.ignored",
    "pattern.resolved",
    "pattern.reopened",
    "pattern.merged",
    "pattern.fix_promoted",
    "pattern.fix_retired",
    "pattern.fix_reset",
    "agent.paused",
    "agent.resumed",
    "agent.limited",
    "agent.briefed",
    "agent.target_set",
    "agent.reset",
    "project.policies_changed",
    "channel.created",
    "channel.updated",
    "channel.rotated",
    "channel.enabled",
    "channel.disabled",
    "channel.deleted",
    "notification_rule.created",
    "notification_rule.updated",
    "notification_rule.deleted",
    "operation.started",
    "operation.stopped",
    "operation.undone",
]
NAME = "event_token_acts"
COLUMNS = (
    f"""(id) where actor_type = 'token' and kind in ({", ".join(f"'{kind}'" for kind in KINDS)})"""
)
# Moves that wait behind a lock wait no longer than this.
SHORT_WAIT = "set lock_timeout = '2s'"
ATTEMPTS = 60
PAUSE_S = 1.0

PARTITIONS = """
select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'ledger_event'::regclass and not exists (
    select from pg_index x join pg_inherits of on of.inhrelid = x.indexrelid
    where x.indrelid = c.oid and of.inhparent = to_regclass(%s)
) order by c.relname"""


def build(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        run(cursor, f"create index if not exists {NAME} on only ledger_event {COLUMNS}")
        cursor.execute(PARTITIONS, [NAME])
        for (partition,) in cursor.fetchall():
            own = f"{partition}_token_acts"
            # Nothing waits for these. What a build left that was cut short is invalid.
            cursor.execute("set lock_timeout = 0")
            cursor.execute(f"drop index concurrently if exists {own}")
            cursor.execute(f"create index concurrently {own} on {partition} {COLUMNS}")
            run(cursor, f"alter index {NAME} attach partition {own}")
        cursor.execute("reset lock_timeout")


def run(cursor: Any, statement: str) -> None:
    """Run a statement that takes a lock for a moment; let those that wait behind it go first."""
    cursor.execute(SHORT_WAIT)
    for attempt in range(ATTEMPTS):
        try:
            cursor.execute(statement)
            return
        except OperationalError as error:
            is_busy = isinstance(error.__cause__, psycopg.errors.LockNotAvailable)
            if not is_busy or attempt == ATTEMPTS - 1:
                raise
            sleep(PAUSE_S)


def drop(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        cursor.execute(f"drop index if exists {NAME}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("ledger", "0030_preference_hides_first_steps"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(build, drop)],
            state_operations=[
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(
                        condition=models.Q(("actor_type", "token"), ("kind__in", KINDS)),
                        fields=["id"],
                        name=NAME,
                    ),
                ),
            ],
        ),
    ]
