"""Store which channels get a digest, when, and when the next one is due."""

from django.db import models
from django.db.migrations import AddConstraint, AddField
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

DIGESTS = [("off", "Off"), ("daily", "Daily"), ("weekly", "Weekly")]


class Migration(BaseMigration):
    dependencies = [("retries", "0034_attempt_spans")]

    operations = [
        AddField(
            "channel",
            "digest",
            models.CharField(
                choices=DIGESTS,
                db_default="off",
                help_text="how often it gets a digest",
                max_length=6,
            ),
        ),
        AddField(
            "channel",
            "digest_hour",
            models.SmallIntegerField(db_default=8, help_text="of the day in the time zone"),
        ),
        AddField(
            "channel",
            "digest_timezone",
            models.CharField(
                db_default="UTC",
                help_text="unless its person has chosen one",
                max_length=64,
            ),
        ),
        AddField(
            "channel",
            "digest_due_at",
            models.DateTimeField(editable=False, help_text="the next digest", null=True),
        ),
        AddConstraint(
            "channel",
            models.CheckConstraint(
                condition=Q(digest__in=["off", "daily", "weekly"], digest_hour__range=(0, 23)),
                name="channel_digest_known",
            ),
        ),
    ]
