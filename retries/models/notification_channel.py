"""Channels of notifications: webhooks for programs, and services that reach a person."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from ledger.models import Project
from ledger.models.fields import key
from ledger.models.project import VisibleQuerySet


class ChannelKind(models.TextChoices):
    """The kinds of channels."""

    WEBHOOK = "webhook"
    # a service that reaches a person: mail, Slack, ntfy and others
    PERSON = "person"


class ChannelState(models.TextChoices):
    """The states of a channel."""

    ACTIVE = "active"
    # its last delivery failed; deliveries continue
    FAILING = "failing"
    DISABLED = "disabled"


class DisabledBecause(models.TextChoices):
    """Why a channel is disabled."""

    GONE = "gone", "the receiver answered 410 Gone"
    GAVE_UP = "gave_up", "a delivery failed at its last try"
    UNREADABLE = "unreadable", "its address can't be decrypted"
    BY_HAND = "by_hand", "switched off"


class Digest(models.TextChoices):
    """How often a channel gets a digest."""

    OFF = "off"
    DAILY = "daily"
    WEEKLY = "weekly"


# services whose replies belong to the first message; a webhook of Slack has no thread
THREADED = ("Email", "ntfy", "Slack app")


class ChannelQuerySet(VisibleQuerySet["Channel"]):
    agent_path = None  # channels of all projects belong to people only

    def on(self) -> Self:
        return self.exclude(state=ChannelState.DISABLED)

    def reaching(self, project: Project | None) -> Self:
        either = Q(project=None) | Q(project=project) if project else Q(project=None)
        return self.filter(either)


class Channel(models.Model):
    """A target of notifications. `address` and `signing_secrets` are encrypted, never shown.

    `shown_address` is the scheme, the host and the first path segment of the address.
    """

    id = key()
    project = models.ForeignKey(
        Project, models.CASCADE, null=True, blank=True, help_text="null: every project"
    )
    kind = models.CharField(max_length=8, choices=ChannelKind.choices)
    name = models.CharField(max_length=64)
    service = models.CharField(max_length=64, help_text="such as Webhook, Email or Slack")
    address = models.TextField(editable=False, help_text="encrypted")
    shown_address = models.CharField(max_length=200, help_text="the address without its secrets")
    signing_secrets = models.TextField(
        editable=False, db_default="", help_text="encrypted; of a webhook"
    )
    events = models.JSONField(
        db_default=[], help_text="kinds of events a webhook gets, such as task.*; empty: all"
    )
    include_details = models.BooleanField(
        db_default=False, help_text="send the text of errors, which is untrusted"
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="whose quiet hours it keeps",
    )
    digest = models.CharField(
        max_length=6,
        choices=Digest.choices,
        db_default=Digest.OFF.value,
        help_text="how often it gets a digest",
    )
    digest_hour = models.SmallIntegerField(db_default=8, help_text="of the day in the time zone")
    digest_timezone = models.CharField(
        max_length=64, db_default="UTC", help_text="unless its person has chosen one"
    )
    digest_due_at = models.DateTimeField(null=True, editable=False, help_text="the next digest")
    state = models.CharField(
        max_length=8, choices=ChannelState.choices, db_default=ChannelState.ACTIVE.value
    )
    disabled_because = models.CharField(
        max_length=12, choices=DisabledBecause.choices, blank=True, db_default=""
    )
    disabled_at = models.DateTimeField(null=True)
    enabled_at = models.DateTimeField(help_text="it gets the events since then")
    failing_since = models.DateTimeField(null=True)
    failures = models.IntegerField(db_default=0, help_text="failed tries since the last success")
    resume_at = models.DateTimeField(null=True, help_text="no try before then")
    sending_until = models.DateTimeField(null=True, help_text="one process sends until then")
    sender = models.UUIDField(null=True, help_text="the run that sends")
    succeeded_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=200, db_default="")
    created_by_type = models.CharField(max_length=12)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    version = models.IntegerField(db_default=1)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"], nulls_distinct=False, name="channel_name_once"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=ChannelKind.values, state__in=ChannelState.values),
                name="channel_known",
            ),
            models.CheckConstraint(
                condition=Q(state=ChannelState.DISABLED, disabled_at__isnull=False)
                | Q(~Q(state=ChannelState.DISABLED), disabled_at__isnull=True),
                name="channel_disabled_at",
            ),
            models.CheckConstraint(
                condition=Q(digest__in=Digest.values, digest_hour__range=(0, 23)),
                name="channel_digest_known",
            ),
        ]
        indexes = [models.Index(fields=["project", "id"], name="channel_project")]

    def __str__(self) -> str:
        return self.name

    @property
    def is_webhook(self) -> bool:
        return self.kind == ChannelKind.WEBHOOK

    @property
    def has_threads(self) -> bool:
        # Replies stay with the first message instead of following it.
        return self.service in THREADED

    @property
    def is_on(self) -> bool:
        return self.state != ChannelState.DISABLED


class QuietHours(models.Model):
    """The hours without messages; messages from these hours arrive as one at the end."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True)
    starts = models.TimeField()
    ends = models.TimeField()
    timezone = models.CharField(max_length=64)

    class Meta:
        verbose_name_plural = "quiet hours"

    def __str__(self) -> str:
        return f"{self.starts:%H:%M}–{self.ends:%H:%M} {self.timezone}"


class StreamCursor(models.Model):
    """The position of a reader of the journal: see `ledger.journal.SETTLED`."""

    name = models.CharField(max_length=32, primary_key=True)
    tx = models.BigIntegerField()
    event_id = models.UUIDField()
    moved_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.tx}"


class OngoingCondition(models.Model):
    """A condition that the clock found and that has not ended, such as a silent agent."""

    condition = models.CharField(max_length=16)
    subject_id = models.UUIDField()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["condition", "subject_id"], name="ongoing_condition_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.condition} {self.subject_id}"
