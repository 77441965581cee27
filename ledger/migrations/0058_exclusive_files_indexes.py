"""Index tasks whose files must not overlap, in the order in which they run."""

from typing import ClassVar

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db.migrations import Migration as BaseMigration
from django.db.migrations import RunSQL
from django.db.models import F, Index, Q

from ledger.migrations._steps import build_beside_writers, index

WAITS = Q(exclusive=True, state__in=["queued", "retry"])
RUNS = Q(exclusive=True, state="running")


class Migration(BaseMigration):
    atomic = False
    dependencies: ClassVar = [("ledger", "0057_project_exclusive_files")]

    operations: ClassVar = [
        *build_beside_writers(
            "task",
            Index(
                F("plan"), F("priority").desc(), F("id"), condition=WAITS, name="task_files_in_plan"
            ),
        ),
        *build_beside_writers(
            "task",
            Index(
                F("project"),
                F("priority").desc(),
                F("id"),
                condition=WAITS,
                name="task_files_in_project",
            ),
        ),
        *build_beside_writers(
            "task", index("task_files_running", "project", "plan", condition=RUNS)
        ),
        # a claim writes to one of them alone
        RunSQL("set lock_timeout = 0", "reset lock_timeout"),
        RemoveIndexConcurrently("task", "task_exclusive_running"),
        RunSQL("reset lock_timeout", "set lock_timeout = 0"),
    ]
