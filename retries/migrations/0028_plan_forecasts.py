"""Forecasts of plans: when they will be done, and what they will cost."""

from django.db import models
from django.db.migrations import CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import index, key


class Migration(BaseMigration):
    dependencies = [
        ("ledger", "0051_not_before_indexes"),
        ("retries", "0027_escalation_permission"),
    ]

    operations = [
        CreateModel(
            name="PlanForecast",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "plan_id",
                        "run",
                        "is_kept",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("run", models.IntegerField()),
                ("is_kept", models.BooleanField()),
                ("made_at", models.DateTimeField()),
                ("reason", models.CharField(db_default="", max_length=16)),
                (
                    "cases",
                    models.IntegerField(
                        help_text="the least number of attempts that a figure rests on"
                    ),
                ),
                ("low_at", models.DateTimeField(null=True)),
                ("median_at", models.DateTimeField(null=True)),
                ("high_at", models.DateTimeField(null=True)),
                ("spent", models.FloatField(db_default=0)),
                ("low_cost", models.FloatField(null=True)),
                ("median_cost", models.FloatField(null=True)),
                ("high_cost", models.FloatField(null=True)),
                ("cost_unit", models.CharField(db_default="usd", max_length=6)),
                ("ended_at", models.DateTimeField(help_text="when the plan was done", null=True)),
                ("plan", key("ledger.plan", models.CASCADE)),
                ("project", key("ledger.project", models.CASCADE)),
            ],
            options={
                "indexes": [index("forecast_kept", "project", condition=Q(is_kept=True))],
            },
        ),
    ]
