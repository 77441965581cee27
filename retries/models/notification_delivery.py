"""Deliveries of notifications, and each try of one."""

from typing import Self

from django.db import models
from django.db.models import Q

from ledger.models import Project
from ledger.models.fields import key
from ledger.models.project import VisibleQuerySet
from retries.models.notification_channel import Channel
from retries.models.notification_rule import NotificationRule, NotificationThread


class DeliveryState(models.TextChoices):
    """The states of a delivery."""

    # due now or soon; no try yet
    PENDING = "pending"
    # a try failed; another follows
    RETRYING = "retrying"
    DELIVERED = "delivered"
    # the last try failed, or the receiver was gone
    GAVE_UP = "gave_up"
    # its channel was disabled
    NOT_SENT = "not_sent"
    # over the cap or in quiet hours; waits for a summary
    HELD = "held"
    # told in a summary
    SUMMARIZED = "summarized"


# states in which a delivery is tried at `next_try_at`
UNSETTLED = (DeliveryState.PENDING, DeliveryState.RETRYING)


class DeliveryRole(models.TextChoices):
    """The role of a delivery in its thread."""

    # an event, as a webhook gets it
    EVENT = "event"
    # the first message of a thread
    NEW = "new"
    REMINDER = "reminder"
    # the condition ended, or someone reacted
    UPDATE = "update"
    # the first message to the second channel
    SECOND = "second"
    SUMMARY = "summary"
    TEST = "test"


class DeliveryQuerySet(VisibleQuerySet["Delivery"]):
    project_path, agent_path = "channel__project_id", None

    def unsettled(self) -> Self:
        return self.filter(state__in=UNSETTLED)


class Delivery(models.Model):
    """One message to one channel. `message_id` is the same at every try.

    Events name their subject without a foreign key, as the journal does.
    """

    id = key()
    channel = models.ForeignKey(Channel, models.CASCADE, db_index=False)
    rule = models.ForeignKey(NotificationRule, models.SET_NULL, null=True, db_index=False)
    thread = models.ForeignKey(NotificationThread, models.SET_NULL, null=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, db_index=False)
    message_id = models.CharField(max_length=80)
    kind = models.CharField(max_length=40, help_text="the event's kind, or summary or test")
    role = models.CharField(max_length=8, choices=DeliveryRole.choices)
    event_id = models.UUIDField(null=True)
    subject_type = models.CharField(max_length=16, db_default="")
    subject_id = models.UUIDField(null=True)
    agent_id = models.UUIDField(null=True)
    title = models.CharField(max_length=200, db_default="")
    body = models.JSONField(help_text="what is sent: a webhook's body, or a message's parts")
    traceparent = models.CharField(max_length=55, db_default="")
    state = models.CharField(max_length=10, choices=DeliveryState.choices)
    tries = models.IntegerField(db_default=0)
    next_try_at = models.DateTimeField(null=True)
    held_until = models.DateTimeField(null=True, help_text="when the summary is due")
    summary = models.ForeignKey(
        "self", models.SET_NULL, null=True, related_name="summarized", help_text="that tells it"
    )
    first_try_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    latency_ms = models.IntegerField(null=True, help_text="of the last try")
    code = models.IntegerField(null=True, help_text="the last answer's status; null: no answer")
    error = models.CharField(max_length=200, db_default="")
    response = models.TextField(db_default="", help_text="the first 1 KiB of the last answer")
    receipt = models.CharField(
        max_length=400, db_default="", help_text="the service's own ids of what it showed"
    )
    redelivered_at = models.DateTimeField(
        null=True, help_text="when a person or a program last had it sent once more"
    )
    created_at = models.DateTimeField()

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["channel", "message_id"], name="delivery_once"),
            models.CheckConstraint(
                condition=Q(state__in=DeliveryState.values, role__in=DeliveryRole.values),
                name="delivery_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=UNSETTLED, next_try_at__isnull=False)
                | Q(~Q(state__in=UNSETTLED), next_try_at__isnull=True),
                name="delivery_next_try_at",
            ),
        ]
        indexes = [
            models.Index(
                fields=["channel", "next_try_at", "id"],
                condition=Q(state__in=UNSETTLED),
                name="delivery_due",
            ),
            models.Index(
                fields=["rule", "id"], condition=Q(state=DeliveryState.HELD), name="delivery_held"
            ),
            models.Index(fields=["channel", "id"], name="delivery_channel"),
            models.Index(
                fields=["redelivered_at", "state"],
                condition=Q(redelivered_at__isnull=False),
                name="delivery_redelivered",
            ),
            models.Index(fields=["state", "id"], name="delivery_state"),
            models.Index(fields=["rule", "created_at"], name="delivery_rule"),
            models.Index(fields=["event_id"], name="delivery_event"),
            models.Index(fields=["created_at"], name="delivery_created"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.channel_id}"


class DeliveryTry(models.Model):
    """One try of a delivery, and how it ended."""

    delivery = models.ForeignKey(Delivery, models.CASCADE, db_index=False, related_name="each_try")
    number = models.IntegerField()
    at = models.DateTimeField()
    latency_ms = models.IntegerField()
    code = models.IntegerField(null=True)
    error = models.CharField(max_length=200, db_default="")
    response = models.TextField(db_default="")

    class Meta:
        verbose_name_plural = "delivery tries"
        constraints = [
            models.UniqueConstraint(fields=["delivery", "number"], name="delivery_try_once")
        ]

    def __str__(self) -> str:
        return f"try {self.number} of {self.delivery_id}"


# upper bounds of the seconds that a try took
TRY_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0)


class DeliveryTally(models.Model):
    """The number of webhook tries by result; metrics count them after the tries are purged."""

    project = models.ForeignKey(Project, models.CASCADE, null=True, db_index=False)
    event_type = models.CharField(max_length=40)
    status_class = models.CharField(max_length=5, help_text="2xx to 5xx, or none")
    tries = models.BigIntegerField()
    seconds = models.FloatField()
    buckets = models.JSONField(help_text="tries of at most each of TRY_BUCKETS")

    class Meta:
        verbose_name_plural = "delivery tallies"
        constraints = [
            models.UniqueConstraint(
                fields=["project", "event_type", "status_class"],
                nulls_distinct=False,
                name="delivery_tally_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.status_class}"
