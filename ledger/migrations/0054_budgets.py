"""Store budgets of tasks, plans and projects, which of them are used up, and models' prices."""

from django.db import models
from django.db.migrations import AddField, CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q
from django.db.models.deletion import CASCADE

from ledger.migrations._steps import check, index, key, unique, uuid7

SPENT_UNTIL = models.DateTimeField(
    editable=False, help_text="its budget is used up until then", null=True
)


def price() -> models.DecimalField:
    return models.DecimalField(decimal_places=6, max_digits=12)


class Migration(BaseMigration):
    dependencies = [("ledger", "0053_project_moving_since")]

    operations = [
        # An import writes the plan first, and a new task's check of its project comes last.
        AddField("plan", "spent_until", SPENT_UNTIL),
        AddField("task", "spent_until", SPENT_UNTIL),
        AddField("project", "spent_until", SPENT_UNTIL),
        CreateModel(
            "Budget",
            [
                ("id", uuid7()),
                ("project", key("ledger.project", CASCADE)),
                (
                    "plan",
                    key(
                        "ledger.plan",
                        CASCADE,
                        null=True,
                        help_text="null: of a task or the project",
                    ),
                ),
                (
                    "task",
                    key(
                        "ledger.task",
                        CASCADE,
                        null=True,
                        help_text="null: of a plan or the project",
                    ),
                ),
                (
                    "period",
                    models.CharField(
                        choices=[("day", "per day"), ("total", "in total")], max_length=8
                    ),
                ),
                (
                    "unit",
                    models.CharField(choices=[("tokens", "Tokens"), ("usd", "USD")], max_length=8),
                ),
                ("amount", models.DecimalField(decimal_places=6, max_digits=20)),
                (
                    "at_limit",
                    models.CharField(
                        choices=[("ask", "ask a person"), ("stop", "wait")],
                        db_default="ask",
                        max_length=8,
                    ),
                ),
                (
                    "zone",
                    models.CharField(
                        db_default="UTC", help_text="the time zone of its day", max_length=64
                    ),
                ),
                ("used", models.DecimalField(db_default=0, decimal_places=6, max_digits=24)),
                (
                    "granted",
                    models.DecimalField(
                        db_default=0,
                        decimal_places=6,
                        help_text="what answers added to the amount",
                        max_digits=20,
                    ),
                ),
                ("day", models.DateField(null=True)),
                (
                    "unpriced",
                    models.IntegerField(
                        db_default=0, help_text="reports whose tokens have no known price"
                    ),
                ),
                ("unpriced_model", models.CharField(db_default="", max_length=128)),
                ("near_at", models.DateTimeField(null=True)),
                ("reached_at", models.DateTimeField(null=True)),
                ("asked_at", models.DateTimeField(null=True)),
                (
                    "escalation_id",
                    models.UUIDField(help_text="the last question about it", null=True),
                ),
                ("version", models.IntegerField(db_default=1)),
                ("created_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    unique(
                        "budget_unique",
                        "project",
                        "plan",
                        "task",
                        "period",
                        "unit",
                        nulls_distinct=False,
                    ),
                    check("budget_of_one_subject", Q(plan__isnull=True) | Q(task__isnull=True)),
                    check(
                        "budget_values_known",
                        Q(
                            period__in=["day", "total"],
                            unit__in=["tokens", "usd"],
                            at_limit__in=["ask", "stop"],
                            amount__gt=0,
                        ),
                    ),
                ],
                "indexes": [
                    index("budget_plan", "plan", condition=Q(plan__isnull=False)),
                    index("budget_task", "task", condition=Q(task__isnull=False)),
                    index(
                        "budget_escalation",
                        "escalation_id",
                        condition=Q(escalation_id__isnull=False),
                    ),
                    index("budget_reached", "id", condition=Q(reached_at__isnull=False)),
                    index(
                        "budget_near",
                        "project",
                        "-near_at",
                        condition=Q(task__isnull=False, near_at__isnull=False),
                    ),
                ],
            },
        ),
        CreateModel(
            "ModelPrice",
            [
                ("id", uuid7()),
                ("project", key("ledger.project", CASCADE)),
                ("model", models.CharField(max_length=128)),
                (
                    "starts_on",
                    models.DateField(help_text="the first day, in UTC, on which it holds"),
                ),
                ("input", price()),
                ("output", price()),
                ("cache_read", price()),
                ("cache_write", price()),
                ("created_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    unique("model_price_unique", "project", "model", "starts_on"),
                    check(
                        "model_price_not_negative",
                        Q(
                            input__gte=0,
                            output__gte=0,
                            cache_read__gte=0,
                            cache_write__gte=0,
                        ),
                    ),
                ],
            },
        ),
    ]
