"""Store pools: names that tasks can be sent to instead of one agent, and their members."""

from django.db import models
from django.db.migrations import AddConstraint, AddField, CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models.deletion import CASCADE

from ledger.migrations._steps import check, titled

RETRY_ON = titled("any", "same", "other")


class Migration(BaseMigration):
    dependencies = [("ledger", "0054_budgets")]

    operations = [
        AddField("agent", "is_pool", models.BooleanField(db_default=False, editable=False)),
        AddField("agent", "in_pools", models.BooleanField(db_default=False, editable=False)),
        AddField(
            "agent",
            "retry_on",
            models.CharField(
                choices=RETRY_ON,
                db_default="any",
                help_text=(
                    "the members of the pool that retry a task, unless the task says otherwise"
                ),
                max_length=5,
            ),
        ),
        AddField("agent", "removed_at", models.DateTimeField(editable=False, null=True)),
        AddConstraint(
            "agent",
            check("agent_retry_on_known", models.Q(retry_on__in=["any", "same", "other"])),
        ),
        CreateModel(
            "PoolMember",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "agent_id",
                        "pool_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        "ledger.agent", CASCADE, db_index=False, related_name="pool_seats"
                    ),
                ),
                ("pool", models.ForeignKey("ledger.agent", CASCADE, related_name="member_seats")),
                ("added_at", models.DateTimeField()),
            ],
        ),
    ]
