"""An event of the append-only journal, and a marker of a change outside of Tenfour."""

from collections.abc import Collection
from datetime import datetime
from typing import Self
from uuid import UUID

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Func, Value

from ledger import journal
from ledger.models.fields import CurrentTransaction, IsTrue, TransactionId, key, stamp
from ledger.models.project import Project, VisibleQuerySet
from ledger.values.ids import FIRST_ID, SLACK, first_id

# the events that the audit log lists; the kinds are plain texts, which a migration can contain
BY_PERSON = models.Q(actor_type="user")
TOKEN_ACT = models.Q(
    IsTrue(models.Q(kind__in=[kind.value for kind in journal.TOKEN_ACTS])), actor_type="token"
)


class SubjectFloor(Func):
    """The lowest id of the events about a subject."""

    template = journal.since_subject("%(expressions)s")
    output_field = models.UUIDField()


class EventQuerySet(VisibleQuerySet["Event"]):
    """Queries of the journal that bound the ids, so that PostgreSQL reads few partitions."""

    def about(self, subject_id: UUID | models.OuterRef) -> Self:
        # No event is older than its subject.
        is_id = isinstance(subject_id, UUID)
        floor = SubjectFloor(Value(subject_id, models.UUIDField()) if is_id else subject_id)
        return self.filter(subject_id=subject_id, id__gte=floor)

    def about_any(self, subject_ids: Collection[UUID]) -> Self:
        # an id begins with the time of its row's creation
        oldest = min(subject_ids, default=FIRST_ID)
        floor = SubjectFloor(Value(oldest, models.UUIDField()))
        return self.filter(subject_id__in=subject_ids, id__gte=floor)

    def since(self, at: datetime) -> Self:
        return self.filter(id__gte=first_id(at - SLACK), at__gte=at)

    def until(self, at: datetime) -> Self:
        return self.filter(id__lt=first_id(at + SLACK), at__lt=at)


class Event(models.Model):
    """Written only by `ledger.journal`; a trigger refuses changes and deletes.

    `tx` and `id` order the journal as a stream: see `ledger.journal.SETTLED`. There are no foreign
    keys: history outlives its subjects, and foreign keys would slow down every move.
    """

    id = key()
    tx = TransactionId(db_default=CurrentTransaction(), editable=False)
    at = stamp()
    project_id = models.UUIDField()
    kind = models.CharField(max_length=40)
    subject_type = models.CharField(max_length=16)
    subject_id = models.UUIDField()
    agent_id = models.UUIDField(null=True)
    from_state = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null means "was not"
    to_state = models.CharField(max_length=16, null=True)  # noqa: DJ001
    actor_type = models.CharField(max_length=12)
    actor_id = models.CharField(max_length=64, default="", db_default="")
    actor_name = models.CharField(max_length=64, default="", db_default="")
    data = models.JSONField(default=dict, db_default={})
    request_id = models.CharField(max_length=64, default="", db_default="")

    objects = EventQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["tx", "id"], name="event_stream"),
            models.Index(fields=["subject_id", "id"], name="event_subject"),
            # the next three serve the audit log
            models.Index(fields=["id"], name="event_people", condition=BY_PERSON),
            models.Index(fields=["id"], name="event_acts", condition=TOKEN_ACT),
            models.Index(
                fields=["actor_name", "id"], name="event_actor", condition=BY_PERSON | TOKEN_ACT
            ),
            BrinIndex(fields=["at"], name="event_at", pages_per_range=32, autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_id}"


class MarkerQuerySet(VisibleQuerySet["Marker"]):
    agent_path = ""


class Marker(models.Model):
    """A moment at which something changed outside of Tenfour, such as a deploy."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=32, help_text="what happened, such as deploy or change")
    at = models.DateTimeField()
    link = models.CharField(max_length=500, db_default="", help_text="a page about it, or empty")
    text = models.CharField(max_length=2000, db_default="")
    created_by = models.CharField(max_length=150)
    created_at = stamp()

    objects = MarkerQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["project", "at"], name="marker_of_project"),
            models.Index(fields=["at"], name="marker_at"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        """The marker's name with its kind, unless the name begins with it."""
        has_kind = self.name.lower().startswith(self.kind.lower())
        return self.name if has_kind else f"{self.kind} {self.name}"
