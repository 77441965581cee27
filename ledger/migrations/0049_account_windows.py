"""Store each agent's account, and how much of an account's limits is used."""

from django.db import models
from django.db.migrations import AddConstraint, AddField, CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models.deletion import CASCADE

from ledger.migrations._steps import key, unique, uuid7


class Migration(BaseMigration):
    dependencies = [("ledger", "0048_agent_last_worked_at")]

    operations = [
        AddField("agent", "account", models.CharField(blank=True, db_default="", max_length=64)),
        CreateModel(
            "AccountWindow",
            [
                ("id", uuid7()),
                ("project", key("ledger.project", CASCADE)),
                ("account", models.CharField(max_length=64)),
                ("window", models.CharField(max_length=10)),
                (
                    "used",
                    models.FloatField(help_text="share that is used; from 1 on, calls are refused"),
                ),
                ("resets_at", models.DateTimeField(null=True)),
                ("source", models.CharField(max_length=10)),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        AddConstraint(
            "accountwindow", unique("account_window_unique", "project", "account", "window")
        ),
    ]
