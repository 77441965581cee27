"""Store the pool that a task was sent to, and which of its members may retry it."""

from typing import ClassVar

from django.db import models
from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import build_beside_writers, index, key, titled

SENT = Q(pool__isnull=False)
ENDED = Q(state__in=("done", "failed", "skipped", "aborted"))


class Migration(BaseMigration):
    atomic = False
    dependencies: ClassVar = [("ledger", "0055_pools")]

    operations: ClassVar = [
        AddField(
            "task",
            "pool",
            key("ledger.agent", null=True, db_constraint=False, related_name="pool_tasks"),
        ),
        AddField(
            "task",
            "retry_on",
            models.CharField(choices=titled("any", "same", "other"), max_length=5, null=True),
        ),
        *build_beside_writers("task", index("task_pool", "pool", "id", condition=SENT)),
        *build_beside_writers(
            "task",
            index(
                "task_pool_completed",
                "pool",
                "completed_at",
                condition=SENT & Q(completed_at__isnull=False),
            ),
        ),
        *build_beside_writers("task", index("task_of_pool_open", "pool", condition=SENT & ~ENDED)),
    ]
