"""Questions to people about tasks and instructions."""

from datetime import UTC, datetime
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from ledger.models import Agent, Attempt, Instruction, Project, Task
from ledger.models.fields import key
from ledger.models.project import VisibleQuerySet
from retries.models.on_call import EscalationPolicy
from retries.models.permission import PermissionRequest
from retries.states import QUESTIONS, Answer, EscalationState, OnExpiry

# A new escalation is due at once: the clock chooses its policy, whatever opened it.
UNROUTED = datetime(1970, 1, 1, tzinfo=UTC)


class EscalationQuerySet(VisibleQuerySet["Escalation"]):
    def open(self) -> Self:
        return self.filter(state=EscalationState.OPEN)

    def in_inbox(self, now: datetime | Now) -> Self:
        return self.open().filter(Q(snoozed_until=None) | Q(snoozed_until__lte=now))

    def snoozed(self, now: datetime) -> Self:
        return self.open().filter(snoozed_until__gt=now)

    def oldest_first(self) -> Self:
        return self.order_by("id")


class Escalation(models.Model):
    """A question to a person about a task, an instruction, or a tool call, answered once."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    instruction = models.ForeignKey(Instruction, models.PROTECT, null=True, db_index=False)
    task = models.ForeignKey(Task, models.PROTECT, null=True, db_index=False)
    permission = models.ForeignKey(
        PermissionRequest,
        models.CASCADE,
        null=True,
        db_index=False,
        help_text="the request for leave that it is about",
    )
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
    policy = models.ForeignKey(
        EscalationPolicy,
        models.SET_NULL,
        null=True,
        db_index=False,
        help_text="says who is told of it, and when",
    )
    policy_step = models.IntegerField(db_default=0, help_text="the policy's steps that are done")
    next_step_at = models.DateTimeField(
        null=True,
        db_default=UNROUTED,
        help_text="when the policy's next step is due; 1970 until the policy is chosen",
    )
    answer_due_at = models.DateTimeField(
        null=True, help_text="the policy's limit: open after that, it is overdue"
    )
    told = models.JSONField(db_default=[], help_text="the usernames of those told by the policy")
    is_routed = models.BooleanField(
        db_default=False, help_text="the policy, not a person, assigned it"
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
    snoozed_until = models.DateTimeField(
        null=True, help_text="an open escalation is out of the inbox until then"
    )
    snoozed_by_name = models.CharField(max_length=64, db_default="")
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, help_text="when a person first opened its page")
    closed_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()
    version = models.IntegerField(db_default=1)
    action = models.CharField(max_length=8, null=True)  # noqa: DJ001 - null: not answered
    fix = models.TextField(db_default="")
    response = models.JSONField(null=True, help_text="the answer, shaped by response_schema")
    sealed = models.TextField(
        db_default="",
        editable=False,
        help_text="an answer with a secret, as typed, encrypted; the others are masked",
    )
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
                condition=Q(instruction__isnull=True, task__isnull=False, permission__isnull=True)
                | Q(instruction__isnull=False, task__isnull=True, permission__isnull=True)
                | Q(instruction__isnull=True, task__isnull=True, permission__isnull=False),
                name="escalation_of_one_subject",
            ),
            models.CheckConstraint(
                condition=Q(asked_in__isnull=True) | Q(reason__in=QUESTIONS),
                name="escalation_of_agent_is_question",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__isnull=True, on_expiry__isnull=True)
                | Q(
                    expires_at__isnull=False, on_expiry__isnull=False, on_expiry__in=OnExpiry.values
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
            models.Index(
                fields=["project", "id"],
                include=["snoozed_until"],
                condition=Q(state=EscalationState.OPEN),
                name="escalation_counted",
            ),
            models.Index(
                fields=["snoozed_until"],
                condition=Q(state=EscalationState.OPEN, snoozed_until__isnull=False),
                name="escalation_snoozed",
            ),
            models.Index(
                fields=["project", "next_step_at"],
                condition=Q(state=EscalationState.OPEN, next_step_at__isnull=False),
                name="escalation_next_step",
            ),
            # Before a policy is deleted, it shows what refers to it.
            models.Index(
                fields=["policy"], condition=Q(policy__isnull=False), name="escalation_policy"
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
            models.Index(
                fields=["permission"],
                condition=Q(permission__isnull=False),
                name="escalation_permission",
            ),
            # Before a row is deleted, they show what refers to it.
            models.Index(
                fields=["asked_in"], condition=Q(asked_in__isnull=False), name="escalation_asked_in"
            ),
            models.Index(
                fields=["resent_as"],
                condition=Q(resent_as__isnull=False),
                name="escalation_resent_as",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.id}"

    @property
    def is_open(self) -> bool:
        return self.state == EscalationState.OPEN

    @property
    def is_of_agent(self) -> bool:
        # The agent's question ended the attempt in which it was asked.
        return self.asked_in_id is not None

    @property
    def is_of_checkpoint(self) -> bool:
        # A checkpoint's task may have attempts of an earlier run.
        return self.is_question and not self.is_of_agent

    @property
    def is_question(self) -> bool:
        return self.reason in QUESTIONS
