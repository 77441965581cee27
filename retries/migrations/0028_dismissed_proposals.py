"""Let people put proposals of permission rules aside."""

from django.db import migrations, models
from django.db.models import Q

STATES = ["active", "revoked", "expired", "dismissed"]


class Migration(migrations.Migration):
    dependencies = [("retries", "0027_escalation_permission")]

    operations = [
        migrations.AlterField(
            "permissionrule",
            "state",
            models.CharField(max_length=12, choices=[(each, each.capitalize()) for each in STATES]),
        ),
        migrations.RemoveConstraint("permissionrule", "permission_rule_state_known"),
        migrations.AddConstraint(
            "permissionrule",
            models.CheckConstraint(
                condition=Q(state__in=STATES), name="permission_rule_state_known"
            ),
        ),
    ]
