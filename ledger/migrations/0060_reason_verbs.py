"""Store for which verbs a project requires a reason."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration


class Migration(BaseMigration):
    dependencies = [("ledger", "0059_marker")]

    operations = [
        AddField(
            "project",
            "reason_verbs",
            ArrayField(
                models.CharField(max_length=40),
                blank=True,
                db_default=[],
                default=list,
                help_text="the verbs for which people must give a reason",
            ),
        )
    ]
