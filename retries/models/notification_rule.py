"""Rules that say which conditions a channel for people is told of."""

from django.db import models
from django.db.models import Q

from ledger.models import Agent, Plan, Project
from ledger.models.fields import key
from ledger.models.project import VisibleQuerySet
from retries.models.notification_channel import Channel


class RepeatUntil(models.TextChoices):
    """The event that ends the repetition of a message."""

    ANSWERED = "answered"
    # answered, or assigned to a person
    TAKEN = "taken"


class NotificationRuleQuerySet(VisibleQuerySet["NotificationRule"]):
    agent_path = None  # rules for all projects belong to people only


class NotificationRule(models.Model):
    """When a condition holds, tell a channel."""

    id = key()
    project = models.ForeignKey(
        Project, models.CASCADE, null=True, blank=True, help_text="null: every project"
    )
    conditions = models.JSONField(
        help_text="such as escalation or agent_silent, or kinds of events"
    )
    agent = models.ForeignKey(
        Agent, models.CASCADE, null=True, blank=True, db_index=False, help_text="null: every agent"
    )
    plan = models.ForeignKey(
        Plan, models.CASCADE, null=True, blank=True, db_index=False, help_text="null: every plan"
    )
    severity = models.CharField(
        max_length=12, blank=True, db_default="", help_text="of an escalation; empty: any"
    )
    channel = models.ForeignKey(Channel, models.CASCADE, related_name="rules")
    only_on_change = models.BooleanField(
        db_default=True, help_text="stay silent while the same condition goes on"
    )
    cap_per_hour = models.IntegerField(
        null=True, blank=True, help_text="the rest becomes one summary; null: no cap"
    )
    repeat_s = models.IntegerField(null=True, blank=True, help_text="null: never repeated")
    repeat_until = models.CharField(
        max_length=8, choices=RepeatUntil.choices, db_default=RepeatUntil.ANSWERED.value
    )
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    timezone = models.CharField(max_length=64, db_default="UTC")
    severe_breaks_quiet = models.BooleanField(db_default=True)
    second_channel = models.ForeignKey(
        Channel, models.SET_NULL, null=True, blank=True, related_name="second_of"
    )
    second_after_s = models.IntegerField(null=True, blank=True)
    enabled = models.BooleanField(db_default=True)
    enabled_at = models.DateTimeField(help_text="it tells of events since then")
    changed_by_name = models.CharField(max_length=64, db_default="")
    created_by_type = models.CharField(max_length=12)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    version = models.IntegerField(db_default=1)

    objects = NotificationRuleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(repeat_until__in=RepeatUntil.values)
                & (Q(cap_per_hour__isnull=True) | Q(cap_per_hour__gte=1))
                & (Q(repeat_s__isnull=True) | Q(repeat_s__gte=60))
                & (Q(second_after_s__isnull=True) | Q(second_after_s__gte=60)),
                name="notification_rule_limits",
            ),
            models.CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="notification_rule_quiet_hours",
            ),
        ]
        indexes = [models.Index(fields=["project", "id"], name="notification_rule_project")]

    def __str__(self) -> str:
        return f"{', '.join(self.conditions)} to {self.channel}"


class NotificationThread(models.Model):
    """The messages of one rule about one subject, such as one escalation."""

    id = key()
    rule = models.ForeignKey(NotificationRule, models.CASCADE, db_index=False)
    topic = models.CharField(max_length=96, help_text="such as escalation:ID or breaker:ID")
    subject_type = models.CharField(max_length=16)
    subject_id = models.UUIDField()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    title = models.CharField(max_length=200)
    is_open = models.BooleanField(help_text="the condition still holds")
    messages = models.IntegerField(db_default=0)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    repeat_at = models.DateTimeField(null=True)
    second_at = models.DateTimeField(null=True, help_text="when the second channel is told")
    second_told_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rule", "topic"], name="notification_thread_once")
        ]
        indexes = [
            models.Index(
                fields=["repeat_at"],
                condition=Q(is_open=True, repeat_at__isnull=False),
                name="notification_thread_repeat",
            ),
            models.Index(
                fields=["second_at"],
                condition=Q(is_open=True, second_at__isnull=False),
                name="notification_thread_second",
            ),
            models.Index(fields=["subject_id"], name="notification_thread_subject"),
        ]

    def __str__(self) -> str:
        return self.topic
