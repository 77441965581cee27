"""Permission requests of agents, and the rules that answer some of them."""

from datetime import datetime
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from ledger.authorization.principal import Principal
from ledger.models import Agent, Project, Task
from ledger.models.fields import key
from ledger.models.project import VisibleQuerySet
from retries.states import PermissionState, RuleState, WhenSilent


class PermissionRequestQuerySet(VisibleQuerySet["PermissionRequest"]):
    def waiting(self) -> Self:
        return self.filter(state=PermissionState.WAITING)


class PermissionRequest(models.Model):
    """An agent's question whether it may make one tool call."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    task = models.ForeignKey(
        Task,
        models.SET_NULL,
        null=True,
        db_index=False,
        related_name="+",
        help_text="the task that the agent's session works on",
    )
    session = models.CharField(max_length=128, db_default="", help_text="the agent's own session")
    call_digest = models.CharField(
        max_length=64, help_text="the same for the same tool call of the same session"
    )
    asked_by = models.CharField(
        max_length=32, db_default="", help_text="the program that asks, such as claude-code"
    )
    tool = models.CharField(max_length=128)
    input = models.JSONField(help_text="what the tool would be called with; secrets are masked")
    title = models.TextField(help_text="the call in one line")
    folder = models.TextField(db_default="")
    said = models.TextField(db_default="", help_text="what the agent said last before the call")
    marks = models.JSONField(db_default=[], help_text="what a careful person looks for")
    proposed = models.TextField(  # noqa: DJ001 - null: no rule may allow it; empty: any input
        null=True, help_text="the matcher of a rule that would allow this call, or null"
    )
    when_silent = models.CharField(max_length=16, choices=WhenSilent.choices)
    state = models.CharField(max_length=16, choices=PermissionState.choices)
    rule_ids = ArrayField(
        models.UUIDField(), db_default=[], help_text="the rules that decided it, if rules did"
    )
    message = models.TextField(db_default="", help_text="what a rule's denial tells the agent")
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField(help_text="the agent stops waiting then")
    polled_at = models.DateTimeField(help_text="when the agent last looked for the answer")
    taken_at = models.DateTimeField(null=True, help_text="when the agent took the answer")
    closed_at = models.DateTimeField(null=True)

    objects = PermissionRequestQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=PermissionState.values), name="permission_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=PermissionState.WAITING, closed_at__isnull=True)
                | Q(~Q(state=PermissionState.WAITING), closed_at__isnull=False),
                name="permission_closed_at",
            ),
            models.UniqueConstraint(
                fields=["agent", "call_digest"],
                condition=Q(state=PermissionState.WAITING),
                name="permission_asked_once",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "id"], name="permission_project"),
            models.Index(fields=["agent", "session", "id"], name="permission_session"),
            models.Index(
                fields=["expires_at"],
                condition=Q(state=PermissionState.WAITING),
                name="permission_waiting",
            ),
            models.Index(fields=["task"], condition=Q(task__isnull=False), name="permission_task"),
            GinIndex(fields=["rule_ids"], condition=~Q(rule_ids=[]), name="permission_by_rule"),
        ]

    def __str__(self) -> str:
        return self.title


class PermissionRuleQuerySet(models.QuerySet["PermissionRule"]):
    def visible_to(self, principal: Principal) -> Self:
        # An agent sees the rules for it and for all agents.
        rows = self.exclude(state=RuleState.DISMISSED).filter(project_id=principal.project_id)
        if principal.is_agent:
            return rows.filter(Q(agent=None) | Q(agent_id=principal.agent_id))
        return rows

    def active(self, now: datetime) -> Self:
        return self.filter(state=RuleState.ACTIVE, expires_at__gt=now)


class PermissionRule(models.Model):
    """A standing answer to the tool calls that its matcher describes."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    agent = models.ForeignKey(
        Agent, models.PROTECT, null=True, db_index=False, help_text="null: all agents"
    )
    tool = models.CharField(max_length=128)
    matcher = models.TextField(help_text="command words or a path, with * and **")
    allows = models.BooleanField()
    message = models.TextField(db_default="", help_text="what a denied agent is told")
    state = models.CharField(max_length=12, choices=RuleState.choices)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    hits = models.IntegerField(db_default=0)
    last_used_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(help_text="moves on with each use")
    ended_by_name = models.CharField(max_length=64, db_default="")
    ended_at = models.DateTimeField(null=True)

    objects = PermissionRuleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=RuleState.values), name="permission_rule_state_known"
            ),
            models.UniqueConstraint(
                fields=["project", "agent", "tool", "matcher", "allows"],
                condition=Q(state=RuleState.ACTIVE),
                nulls_distinct=False,
                name="permission_rule_once",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "id"], name="permission_rule_project"),
            models.Index(
                fields=["agent"], condition=Q(agent__isnull=False), name="permission_rule_agent"
            ),
        ]

    def __str__(self) -> str:
        return f"{'Allow' if self.allows else 'Deny'} {self.tool} {self.matcher}".strip()
