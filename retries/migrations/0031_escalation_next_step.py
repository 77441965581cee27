"""Find the escalations whose policy's next step is due."""

from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import build_beside_writers, index


class Migration(BaseMigration):
    atomic = False
    dependencies = [("retries", "0030_escalation_policies")]

    operations = [
        *build_beside_writers(
            "escalation",
            index(
                "escalation_next_step",
                "project",
                "next_step_at",
                condition=Q(state="open", next_step_at__isnull=False),
            ),
        ),
        *build_beside_writers(
            "escalation",
            index("escalation_policy", "policy", condition=Q(policy__isnull=False)),
        ),
    ]
