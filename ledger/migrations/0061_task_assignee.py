"""Store the person who takes care of a task, and index these few tasks."""

from typing import ClassVar

import django.db.models.deletion
from django.conf import settings
from django.db import models
from django.db.migrations import AddField, swappable_dependency
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import build_beside_writers, index


class Migration(BaseMigration):
    atomic = False
    dependencies: ClassVar = [
        ("ledger", "0060_reason_verbs"),
        swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations: ClassVar = [
        AddField(
            "task",
            "assignee",
            models.ForeignKey(
                settings.AUTH_USER_MODEL,
                django.db.models.deletion.SET_NULL,
                null=True,
                blank=True,
                db_constraint=False,
                db_index=False,
                related_name="+",
                help_text="who takes care of it",
            ),
        ),
        *build_beside_writers(
            "task",
            index("task_assignee", "assignee", "id", condition=Q(assignee__isnull=False)),
        ),
    ]
