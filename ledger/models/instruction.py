"""The instruction: a text for an agent, tracked until it is acknowledged."""

from typing import Self

from django.db import models
from django.db.models import Q

from ledger.models.agent import Agent
from ledger.models.fields import key, one_of, rule
from ledger.models.project import Project, VisibleQuerySet
from ledger.states import UNSETTLED, InstructionState, Urgency, Way, prefixed, urgency_of

PLAIN = (InstructionState.QUEUED, InstructionState.DELIVERED, InstructionState.CANCELLED)


class OnFailed(models.TextChoices):
    """The action when an instruction fails, besides the record."""

    RECORD = "record"
    ESCALATE = "escalate"


class InstructionQuerySet(VisibleQuerySet["Instruction"]):
    def unsettled(self) -> Self:
        return self.filter(state__in=UNSETTLED)

    def cancellable(self) -> Self:
        # A delivered plain instruction is over.
        return self.unsettled().filter(
            models.Q(state=InstructionState.QUEUED) | models.Q(tracked=True)
        )

    def awaiting_ack(self) -> Self:
        return self.unsettled().filter(tracked=True)


class Instruction(models.Model):
    """`content` is the text as sent; `text` is what the agent gets, after its urgency's prefix."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    content = models.TextField()
    content_sha256 = models.BinaryField(max_length=32, editable=False)
    tracked = models.BooleanField()
    state = models.CharField(max_length=16, choices=InstructionState.choices)
    retry_count = models.SmallIntegerField(db_default=0)
    max_retries = models.SmallIntegerField()
    deliveries = models.SmallIntegerField(db_default=0)
    expect_type = models.CharField(max_length=64, null=True)  # noqa: DJ001 - null: expects no signal
    expect_match = models.JSONField(null=True)
    on_failed = models.CharField(max_length=8, choices=OnFailed.choices)
    position = models.BigIntegerField()
    task = models.ForeignKey("ledger.Task", models.PROTECT, null=True, db_index=False)
    resend_of = models.ForeignKey("self", models.SET_NULL, null=True, db_index=False)
    rule = models.ForeignKey(
        "ledger.StandingInstruction",
        models.PROTECT,
        null=True,
        db_index=False,
        help_text="the standing instruction that sent it",
    )
    trigger = models.JSONField(null=True, help_text="what made its rule send it")
    once_key = models.CharField(  # noqa: DJ001 - null: its rule may send it again
        max_length=160, null=True, editable=False
    )
    holds = models.SmallIntegerField(
        null=True, help_text="how often it kept its agent from stopping; null: it never does"
    )
    sent_by_type = models.CharField(max_length=12)
    sent_by_id = models.CharField(max_length=64)
    sent_by_name = models.CharField(max_length=64)
    acknowledged_by = models.JSONField(null=True)
    outcome = models.CharField(max_length=8, null=True)  # noqa: DJ001 - null: no ack yet
    note = models.TextField(db_default="")
    queued_at = models.DateTimeField()
    first_delivered_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    delivered_via = models.CharField(  # noqa: DJ001 - null: not delivered, or before receipts
        max_length=16, null=True, choices=Way.choices
    )
    delivered_to = models.CharField(  # noqa: DJ001 - null: the caller named no session
        max_length=200, null=True, help_text="external id of the session that got it last"
    )
    delivered_call = models.IntegerField(
        null=True, help_text="number of the session's tool call that the last delivery came with"
    )
    unread = models.BooleanField(
        db_default=False, help_text="its agent has made no step since the last delivery"
    )
    read_at = models.DateTimeField(null=True, help_text="its agent's first step after a delivery")
    acknowledged_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    cancelled_at = models.DateTimeField(null=True)
    late_ack_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()

    objects = InstructionQuerySet.as_manager()

    class Meta:
        constraints = [
            rule("instruction_state_known", f"state ~ '{one_of(InstructionState.values)}'"),
            rule("instruction_on_failed_known", f"on_failed ~ '{one_of(OnFailed.values)}'"),
            rule(
                "instruction_retries_in_range",
                "retry_count >= 0 and retry_count <= max_retries and max_retries <= 20",
            ),
            # A plain instruction is delivered once; it is never acknowledged and never fails.
            rule(
                "instruction_plain_is_never_chased",
                f"tracked or retry_count = 0 and state ~ '{one_of(PLAIN)}'",
            ),
            *(
                rule(f"instruction_{state}_at", f"(state = '{state}') = ({state}_at is not null)")
                for state in (
                    InstructionState.ACKNOWLEDGED,
                    InstructionState.FAILED,
                    InstructionState.CANCELLED,
                )
            ),
            rule(
                "instruction_delivered_at",
                f"state <> '{InstructionState.DELIVERED}' or delivered_at is not null",
            ),
            models.UniqueConstraint(
                fields=["agent", "content_sha256"],
                condition=Q(tracked=True, state__in=UNSETTLED),
                name="instruction_unsettled_once",
            ),
            models.UniqueConstraint(
                fields=["rule", "agent", "once_key"],
                condition=Q(once_key__isnull=False),
                name="instruction_of_rule_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["agent", "position"],
                condition=Q(state=InstructionState.QUEUED),
                name="instruction_queue",
            ),
            models.Index(
                fields=["agent", "delivered_at"],
                condition=Q(state=InstructionState.DELIVERED, tracked=True),
                name="instruction_idle_check",
            ),
            models.Index(
                fields=["agent"],
                condition=Q(unread=True, state=InstructionState.DELIVERED),
                name="instruction_unread",
            ),
            models.Index(
                fields=["agent", "expect_type"],
                condition=Q(expect_type__isnull=False, tracked=True, state__in=UNSETTLED),
                name="instruction_expecting",
            ),
            models.Index(fields=["project", "id"], name="instruction_project"),
            models.Index(fields=["agent", "id"], name="instruction_agent"),
            models.Index(
                fields=["project", "id"],
                condition=Q(state=InstructionState.FAILED),
                name="instruction_failed",
            ),
            models.Index(
                fields=["rule", "id"], condition=Q(rule__isnull=False), name="instruction_rule"
            ),
            models.Index(
                fields=["rule", "agent", "id"],
                condition=Q(rule__isnull=False),
                name="instruction_rule_agent",
            ),
            models.Index(
                fields=["agent"],
                condition=Q(holds__isnull=False, tracked=True, state__in=UNSETTLED),
                name="instruction_holding",
            ),
            # Before a row is deleted, these indexes show the references to it.
            models.Index(fields=["task"], condition=Q(task__isnull=False), name="instruction_task"),
            models.Index(
                fields=["resend_of"],
                condition=Q(resend_of__isnull=False),
                name="instruction_resend_of",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.content[:50]}"

    @property
    def urgency(self) -> Urgency:
        return urgency_of(self.retry_count)

    @property
    def text(self) -> str:
        return prefixed(self.content, self.retry_count)
