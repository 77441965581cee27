"""Index the tasks that wait for their time or for files."""

from typing import ClassVar

from django.db.migrations import Migration as BaseMigration
from django.db.migrations import RunSQL
from django.db.models import F, Index, Q

from ledger.migrations._steps import build_beside_writers, index

VALIDATE = "alter table ledger_task validate constraint task_blocked_has_reason"
WAITS = Q(blocked_reason="not_before")


class Migration(BaseMigration):
    atomic = False
    dependencies: ClassVar = [("ledger", "0050_not_before")]

    operations: ClassVar = [
        RunSQL(VALIDATE, RunSQL.noop),
        *build_beside_writers("task", index("task_starts", "agent", "not_before", condition=WAITS)),
        *build_beside_writers("task", index("task_start_due", "not_before", condition=WAITS)),
        *build_beside_writers(
            "task",
            Index(
                F("agent"),
                F("plan"),
                F("priority").desc(),
                F("id"),
                condition=Q(exclusive=True, state="queued"),
                name="task_exclusive_queue",
            ),
        ),
        *build_beside_writers(
            "task",
            index("task_exclusive_running", "plan", condition=Q(exclusive=True, state="running")),
        ),
    ]
