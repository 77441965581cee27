"""Escalations, and the patterns that group failures."""

from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from ledger.models import Agent, Attempt, Failure, Instruction, Project, Task
from ledger.models.fields import key
from ledger.principal import Principal
from retries.states import (
    QUESTIONS,
    TROUBLING,
    Answer,
    EscalationState,
    OnExpiry,
    PatternState,
    PolicyScope,
)


class EscalationQuerySet(models.QuerySet["Escalation"]):
    def visible_to(self, principal: Principal) -> Self:
        """Filter by the caller's project; an agent sees only its own escalations."""
        if principal.is_agent:
            return self.filter(agent_id=principal.agent_id)
        return self.filter(project_id=principal.project_id)

    def open(self) -> Self:
        return self.filter(state=EscalationState.OPEN)

    def oldest_first(self) -> Self:
        return self.order_by("id")


class Escalation(models.Model):
    """A question to a person about a task or an instruction, answered once."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    instruction = models.ForeignKey(Instruction, models.PROTECT, null=True, db_index=False)
    task = models.ForeignKey(Task, models.PROTECT, null=True, db_index=False)
    state = models.CharField(max_length=12, choices=EscalationState.choices)
    reason = models.CharField(max_length=32)
    severity = models.CharField(max_length=12, db_default="normal")
    raised_by_type = models.CharField(max_length=12)
    raised_by_name = models.CharField(max_length=64)
    asked_in = models.ForeignKey(
        Attempt,
        models.PROTECT,
        null=True,
        db_index=False,
        related_name="+",
        help_text="the attempt that asked; null if Tenfour or a plan asked",
    )
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, db_index=False
    )
    # the counters of its task when it was opened, for the message and for an undo
    attempts = models.IntegerField(null=True)
    attempt_limit = models.IntegerField(null=True)
    retry_count = models.IntegerField(null=True)
    question = models.TextField(db_default="", help_text="the question as the agent worded it")
    choices = models.JSONField(db_default=[], help_text="answers the agent offers")
    response_schema = models.JSONField(null=True)
    client_state = models.JSONField(null=True, help_text="opaque data returned to the asker")
    expires_at = models.DateTimeField(null=True)
    on_expiry = models.CharField(  # noqa: DJ001 - null: it never expires
        max_length=8, null=True, choices=OnExpiry.choices
    )
    notify_again_at = models.DateTimeField(null=True)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()
    version = models.IntegerField(db_default=1)
    action = models.CharField(max_length=8, null=True)  # noqa: DJ001 - null: not answered
    fix = models.TextField(db_default="")
    response = models.JSONField(null=True, help_text="the answer, shaped by response_schema")
    note = models.TextField(db_default="")
    answered_by_type = models.CharField(max_length=12, db_default="")
    answered_by_id = models.CharField(max_length=64, db_default="")
    answered_by_name = models.CharField(max_length=64, db_default="")
    channel = models.CharField(max_length=8, db_default="")
    undo_until = models.DateTimeField(null=True, help_text="the answer can be undone until then")
    offered_to = models.CharField(  # noqa: DJ001 - null: to the first worker that asks
        max_length=128,
        null=True,
        editable=False,
        help_text="the worker that is offered the task first",
    )
    resent_as = models.ForeignKey(
        Instruction, models.SET_NULL, null=True, db_index=False, related_name="+"
    )
    cancelled = models.IntegerField(
        null=True, help_text="number of instructions an abort cancelled"
    )

    objects = EscalationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=EscalationState.values), name="escalation_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=EscalationState.OPEN, closed_at__isnull=True)
                | Q(~Q(state=EscalationState.OPEN), closed_at__isnull=False),
                name="escalation_closed_at",
            ),
            models.CheckConstraint(
                condition=Q(state=EscalationState.RESOLVED, action__in=Answer.values)
                | Q(~Q(state=EscalationState.RESOLVED), action__isnull=True),
                name="escalation_answer_where_resolved",
            ),
            models.CheckConstraint(
                condition=Q(instruction__isnull=True, task__isnull=False)
                | Q(instruction__isnull=False, task__isnull=True),
                name="escalation_of_one_subject",
            ),
            models.CheckConstraint(
                condition=Q(asked_in__isnull=True) | Q(reason__in=QUESTIONS),
                name="escalation_of_agent_is_question",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__isnull=True, on_expiry__isnull=True)
                | Q(
                    expires_at__isnull=False,
                    on_expiry__isnull=False,
                    on_expiry__in=OnExpiry.values,
                ),
                name="escalation_expires_somehow",
            ),
            models.UniqueConstraint(
                fields=["instruction"],
                condition=Q(state=EscalationState.OPEN),
                name="escalation_open_once",
            ),
            models.UniqueConstraint(
                fields=["task"],
                condition=Q(state=EscalationState.OPEN),
                name="escalation_of_task_open_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"], condition=Q(state=EscalationState.OPEN), name="escalation_inbox"
            ),
            models.Index(
                fields=["notify_again_at"],
                condition=Q(state=EscalationState.OPEN),
                name="escalation_remind",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(state=EscalationState.OPEN, expires_at__isnull=False),
                name="escalation_expiry",
            ),
            models.Index(fields=["project", "id"], name="escalation_project"),
            models.Index(fields=["agent", "id"], name="escalation_agent"),
            models.Index(
                fields=["instruction"],
                condition=Q(instruction__isnull=False),
                name="escalation_instruction",
            ),
            models.Index(fields=["task"], condition=Q(task__isnull=False), name="escalation_task"),
            models.Index(
                F("closed_at").desc(),
                F("id").desc(),
                condition=~Q(state=EscalationState.OPEN),
                name="escalation_answered",
            ),
            models.Index(
                fields=["agent", "offered_to"],
                condition=Q(offered_to__isnull=False),
                name="escalation_offered",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.id}"

    @property
    def is_open(self) -> bool:
        return self.state == EscalationState.OPEN

    @property
    def is_of_agent(self) -> bool:
        """Whether its agent asked it, in an attempt that ended with it."""
        return self.asked_in_id is not None

    @property
    def is_of_checkpoint(self) -> bool:
        """Whether a checkpoint of a plan asked it; its task may have attempts of an earlier run."""
        return self.is_question and not self.is_of_agent

    @property
    def is_question(self) -> bool:
        return self.reason in QUESTIONS


class FailurePatternQuerySet(models.QuerySet["FailurePattern"]):
    def visible_to(self, principal: Principal) -> Self:
        """Filter by the caller's project."""
        return self.filter(project_id=principal.project_id)


class FailurePattern(models.Model):
    """A group of failures of a project with the same error, apart from its variable parts.

    Only `retries.failures.grouping` writes it. Counts come from `Grouped`: with a count in this
    row, all failing agents would wait for the same row.
    """

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    fingerprint = models.CharField(max_length=16)
    template = models.TextField()
    example = models.TextField(help_text="the first error line that matched")
    state = models.CharField(
        max_length=10, choices=PatternState.choices, db_default=PatternState.OPEN.value
    )
    ignored_until = models.DateTimeField(null=True)
    note = models.TextField(db_default="")
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField(help_text="updated at most once a minute")
    state_at = models.DateTimeField()
    state_by_name = models.CharField(max_length=64, db_default="")
    updated_at = models.DateTimeField()

    objects = FailurePatternQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "fingerprint"], name="pattern_once"),
            models.CheckConstraint(
                condition=Q(state__in=PatternState.values), name="pattern_state_known"
            ),
            models.CheckConstraint(
                condition=Q(ignored_until__isnull=True) | Q(state=PatternState.IGNORED),
                name="pattern_until_where_ignored",
            ),
        ]
        indexes = [
            models.Index(F("last_seen").desc(), F("id").desc(), name="pattern_newest"),
        ]

    def __str__(self) -> str:
        return self.template[:80]

    @property
    def is_troubling(self) -> bool:
        return self.state in TROUBLING


class Grouped(models.Model):
    """The membership of a failure in its pattern."""

    failure = models.OneToOneField(Failure, models.CASCADE, primary_key=True)
    pattern = models.ForeignKey(
        FailurePattern, models.CASCADE, db_index=False, related_name="grouped"
    )
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    at = models.DateTimeField()
    signature = models.CharField(
        max_length=16, db_default="", help_text="hash of the pattern and the entities"
    )
    entities = models.JSONField(db_default=[], help_text="what the cause names, such as a module")
    files_changed = models.IntegerField(
        null=True, help_text="number of changed files; null if the agent did not say"
    )

    class Meta:
        indexes = [
            models.Index(fields=["pattern", "at"], include=["agent"], name="grouped_pattern"),
        ]

    def __str__(self) -> str:
        return f"{self.failure_id} in {self.pattern_id}"


class RetryPolicy(models.Model):
    """The policies of a project for decisions about failures; without a row the defaults count."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True)
    ask_at_once = models.CharField(
        max_length=8,
        choices=PolicyScope.choices,
        default=PolicyScope.PLANS,
        db_default=PolicyScope.PLANS.value,
        help_text="ask a person at once where credentials or credit are missing",
    )
    obey_waits = models.CharField(
        max_length=8,
        choices=PolicyScope.choices,
        default=PolicyScope.ALL,
        db_default=PolicyScope.ALL.value,
        help_text="wait as long as a rate limit says, at most 15 minutes",
    )
    ask_on_same_failure = models.CharField(
        max_length=8,
        choices=PolicyScope.choices,
        default=PolicyScope.OFF,
        db_default=PolicyScope.OFF.value,
        help_text="ask a person if an error comes back and no file has changed",
    )

    class Meta:
        verbose_name_plural = "retry policies"
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    ask_at_once__in=PolicyScope.values,
                    obey_waits__in=PolicyScope.values,
                    ask_on_same_failure__in=PolicyScope.values,
                ),
                name="policy_scopes_known",
            )
        ]

    def __str__(self) -> str:
        return f"policies of {self.project}"
