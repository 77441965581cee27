"""Find the attempts of a trace."""

from typing import ClassVar

from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import build_beside_writers, index


class Migration(BaseMigration):
    atomic = False
    dependencies: ClassVar = [("ledger", "0061_task_assignee")]

    operations: ClassVar = [
        *build_beside_writers(
            "attempt", index("attempt_trace", "trace_id", "id", condition=~Q(trace_id=""))
        )
    ]
