"""Store since when a project moves to another installation."""

from django.db import models
from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration


class Migration(BaseMigration):
    dependencies = [("ledger", "0052_account_facts")]

    operations = [
        AddField(
            "project",
            "moving_since",
            models.DateTimeField(
                editable=False,
                help_text="since then it moves to another installation, and its tokens wait",
                null=True,
            ),
        )
    ]
