"""Count the facts about each window of an account, and let a token name an account."""

from django.db import models
from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration


class Migration(BaseMigration):
    dependencies = [("ledger", "0051_not_before_indexes")]

    operations = [
        AddField(
            "accountwindow",
            "facts",
            models.IntegerField(
                db_default=1, help_text="how many facts there were since its last reset"
            ),
        ),
        AddField("token", "account", models.CharField(blank=True, db_default="", max_length=64)),
    ]
