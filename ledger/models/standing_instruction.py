"""The standing instruction: a rule that sends an instruction when something happens."""

from typing import Self

from django.db import models
from django.db.models import Q

from ledger.authorization.principal import Principal
from ledger.models.agent import Agent
from ledger.models.fields import key, one_of, rule
from ledger.models.instruction import OnFailed
from ledger.models.plan import Plan
from ledger.models.project import Project

INTERVAL_S = (60, 604_800)


class Trigger(models.TextChoices):
    """The event that a rule waits for."""

    SIGNAL = "signal"
    # a signal of this type, which hooks report
    SESSION_START = "session_start"
    TASK_CLAIMED = "task_claimed"
    EVERY = "every"


class OncePer(models.TextChoices):
    """The period in which a rule sends its instruction to one agent at most once."""

    TRIGGER = "trigger"
    SESSION = "session"
    ATTEMPT = "attempt"
    DAY = "day"


class RuleState(models.TextChoices):
    """The state of a rule; derived from its columns, never stored."""

    ACTIVE = "active"
    # sends nothing until it is resumed
    PAUSED = "paused"
    # was never switched on
    DRAFT = "draft"
    # ended; its record stays
    RETIRED = "retired"


# the columns that define each state
STANDS = {
    RuleState.RETIRED: Q(retired_at__isnull=False),
    RuleState.DRAFT: Q(retired_at=None, activated_at=None),
    RuleState.PAUSED: Q(retired_at=None, activated_at__isnull=False, paused=True),
    RuleState.ACTIVE: Q(paused=False),
}


class StandingInstructionQuerySet(models.QuerySet["StandingInstruction"]):
    def visible_to(self, principal: Principal) -> Self:
        """Return the rules of the caller's project; an agent sees the rules that apply to it."""
        found = self.filter(project_id=principal.project_id)
        if principal.is_agent:
            return found.filter(Q(agent=None) | Q(agent_id=principal.agent_id))
        return found

    def in_state(self, *states: str) -> Self:
        either = Q(pk=None)
        for state in states:
            either |= STANDS[RuleState(state)]
        return self.filter(either)

    def current(self) -> Self:
        return self.filter(retired_at=None)


class StandingInstruction(models.Model):
    """Pages call it a rule. `match` is as it was given; two columns hold its parts for SQL."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(
        Agent, models.PROTECT, null=True, db_index=False, help_text="null: every agent"
    )
    event = models.CharField(max_length=16, choices=Trigger.choices)
    signal_type = models.CharField(max_length=64, null=True)  # noqa: DJ001 - null: no signal
    match = models.JSONField(db_default={})
    match_exact = models.JSONField(db_default={}, editable=False)
    path_pattern = models.TextField(  # noqa: DJ001 - null: any path
        null=True, editable=False, help_text="the glob as a regular expression"
    )
    task_type = models.CharField(max_length=64, null=True)  # noqa: DJ001 - null: any type
    plan = models.ForeignKey(Plan, models.PROTECT, null=True, db_index=False)
    interval_s = models.IntegerField(null=True)
    content = models.TextField()
    expect_type = models.CharField(max_length=64, null=True)  # noqa: DJ001 - null: expects no signal
    expect_match = models.JSONField(null=True)
    max_retries = models.SmallIntegerField()
    on_failed = models.CharField(max_length=8, choices=OnFailed.choices)
    once_per = models.CharField(max_length=8, choices=OncePer.choices)
    hold_stop = models.BooleanField(help_text="the agent can't stop while its instruction is open")
    paused = models.BooleanField()
    activated_at = models.DateTimeField(null=True, help_text="when it was last switched on")
    retired_at = models.DateTimeField(null=True)
    version = models.IntegerField(db_default=1)
    created_by_type = models.CharField(max_length=12)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = StandingInstructionQuerySet.as_manager()

    class Meta:
        constraints = [
            rule("rule_event_known", f"event ~ '{one_of(Trigger.values)}'"),
            rule("rule_once_per_known", f"once_per ~ '{one_of(OncePer.values)}'"),
            rule("rule_on_failed_known", f"on_failed ~ '{one_of(OnFailed.values)}'"),
            rule("rule_retries_in_range", "max_retries >= 0 and max_retries <= 20"),
            rule(
                "rule_signal_has_type",
                f"(event in ('{Trigger.SIGNAL}', '{Trigger.SESSION_START}')) "
                "= (signal_type is not null)",
            ),
            rule("rule_every_has_interval", "(event = 'every') = (interval_s is not null)"),
            rule("rule_active_was_activated", "paused or activated_at is not null"),
            rule("rule_retired_is_paused", "paused or retired_at is null"),
        ]
        indexes = [
            models.Index(fields=["project", "id"], name="rule_project"),
            models.Index(
                fields=["project", "signal_type"],
                condition=Q(paused=False, signal_type__isnull=False),
                name="rule_of_signal",
            ),
            models.Index(
                fields=["project"],
                condition=Q(paused=False, event=Trigger.TASK_CLAIMED),
                name="rule_of_claim",
            ),
            models.Index(
                fields=["project"],
                condition=Q(paused=False, event=Trigger.EVERY),
                name="rule_of_clock",
            ),
        ]

    def __str__(self) -> str:
        return self.content[:80]

    @property
    def state(self) -> RuleState:
        if self.retired_at:
            return RuleState.RETIRED
        if self.activated_at is None:
            return RuleState.DRAFT
        return RuleState.PAUSED if self.paused else RuleState.ACTIVE
