"""The record of a task that failed permanently."""

from typing import Self

from django.db import models
from django.db.models import F, Q

from ledger.models.agent import Agent
from ledger.models.fields import key
from ledger.models.project import Project, VisibleQuerySet
from ledger.models.task import Task


class DeadLetterQuerySet(VisibleQuerySet["DeadLetter"]):
    def open(self) -> Self:
        return self.filter(closed_at=None)

    def replayable(self) -> Self:
        # Dead letters of aborted plans are not replayed: the plans are restarted instead.
        return self.open().filter(task__plan__aborted_at=None)


class DeadLetter(models.Model):
    """The record of a task that failed permanently; each has exactly one."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    task = models.OneToOneField(Task, models.PROTECT, related_name="dead_letter")
    type = models.CharField(max_length=64)
    payload = models.JSONField()
    error = models.TextField()
    reason = models.CharField(max_length=32)
    retry_count = models.IntegerField()
    failed_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    closed_as = models.CharField(max_length=10, null=True)  # noqa: DJ001 - null: still open
    closed_by_name = models.CharField(max_length=64, db_default="")
    note = models.TextField(db_default="")
    replayed_as = models.ForeignKey(
        Task, models.PROTECT, null=True, db_index=False, related_name="+"
    )

    objects = DeadLetterQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(closed_at__isnull=True, closed_as__isnull=True)
                | Q(
                    closed_at__isnull=False,
                    closed_as__isnull=False,
                    closed_as__in=["replayed", "dismissed"],
                ),
                name="dead_letter_closed_somehow",
            )
        ]
        indexes = [
            models.Index(fields=["id"], condition=Q(closed_at=None), name="dead_letter_open"),
            # finds the tasks of open dead letters without reading the rows: see
            # retries/failures/stuck_tasks.py
            models.Index(
                fields=["task"], condition=Q(closed_at=None), name="dead_letter_open_task"
            ),
            models.Index(
                F("closed_at").desc(),
                F("id").desc(),
                condition=Q(closed_at__isnull=False),
                name="dead_letter_closed",
            ),
            models.Index(fields=["project", "id"], name="dead_letter_project"),
            models.Index(fields=["agent", "id"], name="dead_letter_agent"),
            models.Index(
                fields=["replayed_as"],
                condition=Q(replayed_as__isnull=False),
                name="dead_letter_replayed_as",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type}: {self.error[:50]}"
