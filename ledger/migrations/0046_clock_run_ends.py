"""Store the last success, the failures, and the host's clock for each entry of the clock."""

from django.db import models
from django.db.migrations import AddField
from django.db.migrations import Migration as BaseMigration


class Migration(BaseMigration):
    dependencies = [("ledger", "0045_failure_telling_lines")]

    operations = [
        AddField("clockrun", "last_success_at", models.DateTimeField(null=True)),
        AddField(
            "clockrun",
            "failures",
            models.BigIntegerField(db_default=0, help_text="failed runs since the installation"),
        ),
        AddField(
            "clockrun",
            "last_error",
            models.CharField(
                max_length=300,
                db_default="",
                blank=True,
                help_text="why the last run failed; empty after a success",
            ),
        ),
        AddField(
            "clockrun",
            "host_ahead_s",
            models.FloatField(
                db_default=0.0, help_text="seconds that the worker's host was ahead of PostgreSQL"
            ),
        ),
    ]
