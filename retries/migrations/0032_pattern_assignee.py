"""Store the person who takes care of a failure pattern."""

import django.db.models.deletion
from django.conf import settings
from django.db import models
from django.db.migrations import AddField, swappable_dependency
from django.db.migrations import Migration as BaseMigration


class Migration(BaseMigration):
    dependencies = [
        ("retries", "0031_escalation_next_step"),
        swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddField(
            "failurepattern",
            "assignee",
            models.ForeignKey(
                settings.AUTH_USER_MODEL,
                django.db.models.deletion.SET_NULL,
                null=True,
                blank=True,
                db_index=False,
                related_name="+",
                help_text="who takes care of it",
            ),
        )
    ]
