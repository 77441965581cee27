"""Index the acts of the audit log by who did them, and let the planner choose its indexes at once.

To prove that a query's list of kinds is in the condition of an index, the planner compared the two
lists member by member for every month: 35 ms in a journal of 18 months.
"""

from typing import Any

from django.db import migrations, models

import ledger.models.fields
from ledger.migrations._journal_index import build_index, run_soon

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
LIST = ", ".join(f"'{kind}'" for kind in KINDS)
TOKEN_ACTS = f"(id) where actor_type = 'token' and kind in ({LIST})"
ACTS = f"(id) where actor_type = 'token' and (kind in ({LIST})) is true"
ACTOR = f"""(actor_name, id)
    where actor_type = 'user' or (actor_type = 'token' and (kind in ({LIST})) is true)"""


def replace(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        build_index(cursor, "event_acts", ACTS)
        build_index(cursor, "event_actor", ACTOR)
        drop_indexes(cursor, "event_token_acts")


def restore(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        build_index(cursor, "event_token_acts", TOKEN_ACTS)
        drop_indexes(cursor, "event_acts", "event_actor")


def drop_indexes(cursor: Any, *names: str) -> None:
    run_soon(cursor, f"drop index if exists {', '.join(names)}")
    cursor.execute("reset lock_timeout")


TOKEN_ACT = models.Q(
    ledger.models.fields.IsTrue(models.Q(("kind__in", KINDS))), ("actor_type", "token")
)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("ledger", "0031_event_token_acts"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(replace, restore)],
            state_operations=[
                migrations.RemoveIndex(model_name="event", name="event_token_acts"),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(condition=TOKEN_ACT, fields=["id"], name="event_acts"),
                ),
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(
                        condition=models.Q(("actor_type", "user"), TOKEN_ACT, _connector="OR"),
                        fields=["actor_name", "id"],
                        name="event_actor",
                    ),
                ),
            ],
        ),
    ]
