"""Store the output of a running attempt in pieces."""

from django.db import models
from django.db.migrations import CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models.deletion import CASCADE

from ledger.migrations._steps import key


class Migration(BaseMigration):
    dependencies = [("ledger", "0060_reason_verbs"), ("retries", "0035_channel_digest")]

    operations = [
        CreateModel(
            "AttemptOutput",
            [
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "attempt_id",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("attempt", key("ledger.attempt", CASCADE, related_name="output")),
                ("at", models.BigIntegerField(help_text="the bytes that were printed before it")),
                ("size", models.IntegerField(help_text="its bytes as they were printed")),
                (
                    "text",
                    models.TextField(help_text="as a terminal shows it, without secrets"),
                ),
            ],
        ),
    ]
