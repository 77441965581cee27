"""Actions on many rows that a worker carries out, with the result of each row."""

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from ledger.authorization.principal import Principal
from ledger.models.fields import key


class OperationState(models.TextChoices):
    """The states of an operation."""

    # it can be undone until it starts
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    UNDONE = "undone"


class ItemState(models.TextChoices):
    """The states of one row of an operation."""

    PENDING = "pending"
    CHANGED = "changed"
    REFUSED = "refused"


UNDER_WAY = (OperationState.WAITING, OperationState.RUNNING)


class OperationQuerySet(models.QuerySet["Operation"]):
    def visible_to(self, principal: Principal) -> Self:
        # Operations belong to people, so agents see none.
        if principal.is_agent:
            return self.none()
        return self.filter(project_ids__contains=[principal.project_id])

    def under_way(self) -> Self:
        return self.filter(state__in=UNDER_WAY)


class Operation(models.Model):
    """One verb on many rows: counted before, then applied to each row by a worker.

    Only `retries.operations` writes it.
    """

    id = key()
    verb = models.CharField(max_length=40, help_text="such as task.retry")
    noun = models.CharField(max_length=16, help_text="what the rows are, such as task")
    options = models.JSONField(db_default={}, help_text="arguments of the verb")
    sealed = models.TextField(
        db_default="",
        editable=False,
        help_text="options with a secret, as typed, encrypted; the others are masked",
    )
    query = models.TextField(db_default="", help_text="the filter that chose the rows, if any")
    reason = models.TextField(db_default="")
    # An array instead of a foreign key: a person's list can span projects.
    project_ids = ArrayField(models.UUIDField())
    state = models.CharField(
        max_length=8, choices=OperationState.choices, db_default=OperationState.WAITING.value
    )
    matching = models.IntegerField(help_text="rows that the person chose")
    total = models.IntegerField(help_text="those of them that the verb could change")
    changed = models.IntegerField(db_default=0)
    refused = models.IntegerField(db_default=0)
    counted_at = models.DateTimeField(help_text="later rows are not part of it")
    starts_at = models.DateTimeField(help_text="it can be undone before")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    ended_by_name = models.CharField(
        max_length=64, db_default="", help_text="who stopped or undid it"
    )
    ended_because = models.TextField(db_default="", help_text="why Tenfour stopped it")
    lease_until = models.DateTimeField(null=True, help_text="a worker holds it until then")
    actor_type = models.CharField(max_length=12)
    actor_id = models.CharField(max_length=64)
    actor_name = models.CharField(max_length=64)
    request_id = models.CharField(max_length=64)

    objects = OperationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=OperationState.values), name="operation_state_known"
            ),
            models.CheckConstraint(
                condition=Q(changed__gte=0, refused__gte=0)
                & Q(total__gte=F("changed") + F("refused")),
                name="operation_counts",
            ),
        ]
        indexes = [
            models.Index(
                fields=["starts_at"],
                name="operation_under_way",
                condition=Q(state__in=["waiting", "running"]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.verb} of {self.total}"

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY

    @property
    def left(self) -> int:
        return self.total - self.changed - self.refused


class OperationItem(models.Model):
    """One row of an operation, and its result."""

    id = key()
    operation = models.ForeignKey(Operation, models.CASCADE, db_index=False, related_name="items")
    # No foreign key: the nouns differ, and history outlives its subjects.
    subject_id = models.UUIDField()
    state = models.CharField(
        max_length=8, choices=ItemState.choices, db_default=ItemState.PENDING.value
    )
    refusal = models.CharField(
        max_length=80, db_default="", help_text="why it was left as it is, in a few words"
    )
    detail = models.TextField(db_default="")
    at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["operation", "subject_id"], name="operation_item_once"),
            models.CheckConstraint(
                condition=Q(state__in=ItemState.values), name="operation_item_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="refused") | Q(refusal=""), name="operation_item_refusal"
            ),
        ]
        indexes = [
            models.Index(fields=["operation", "state", "refusal", "id"], name="operation_item_list")
        ]

    def __str__(self) -> str:
        return f"{self.subject_id} {self.state}"
