"""Find the escalation of a permission request."""

from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import build_beside_writers, index


class Migration(BaseMigration):
    atomic = False
    dependencies = [("retries", "0026_permissions")]

    operations = build_beside_writers(
        "escalation",
        index("escalation_permission", "permission", condition=Q(permission__isnull=False)),
    )
