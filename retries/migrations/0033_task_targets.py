"""Targets of agents for the wait and the run time of their tasks."""

from django.db import models
from django.db.migrations import CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import check, key


class Migration(BaseMigration):
    dependencies = [("retries", "0032_pattern_assignee")]

    operations = [
        CreateModel(
            name="TaskTarget",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "agent_id",
                        "measure",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "measure",
                    models.CharField(choices=[("wait", "Wait"), ("run", "Run")], max_length=4),
                ),
                ("percent", models.SmallIntegerField()),
                ("within_s", models.IntegerField()),
                ("set_at", models.DateTimeField()),
                ("set_by_name", models.CharField(max_length=64)),
                ("agent", key("ledger.agent", models.CASCADE, related_name="task_targets")),
            ],
            options={
                "constraints": [
                    check(
                        "task_target_possible",
                        Q(percent__gte=1, percent__lte=99, within_s__gte=1),
                    )
                ],
            },
        ),
    ]
