"""Permission requests of agents, the rules that answer them, and escalations about them."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.migrations import (
    AddConstraint,
    AddField,
    AlterField,
    CreateModel,
    RemoveConstraint,
)
from django.db.migrations import (
    Migration as BaseMigration,
)
from django.db.models import Q

from ledger.migrations._steps import check, index, key, titled, unique, uuid7

ANSWERS = ["retry", "fix", "skip", "abort", "answer", "accept", "allow", "deny"]
EXPIRIES = ["retry", "skip", "abort", "fail", "terminal"]
STATES = ["waiting", "allowed", "denied", "expired", "answered_there", "withdrawn"]
RULE_STATES = ["active", "revoked", "expired", "dismissed"]
SILENCES = [
    ("terminal_waits", "The terminal asks at the same time."),
    ("terminal_asks", "The terminal asks instead."),
    ("program_decides", "The terminal asks; without one, the call is refused."),
    ("refuses", "The agent's program refuses the call."),
]
SUBJECTS = ["instruction", "task", "permission"]


def is_only(subject: str) -> Q:
    return Q(**{f"{each}__isnull": each != subject for each in SUBJECTS})


class Migration(BaseMigration):
    dependencies = [("retries", "0019_squashed_0025_attempt_diff")]

    operations = [
        CreateModel(
            "PermissionRequest",
            [
                ("id", uuid7()),
                ("project", key("ledger.project")),
                ("agent", key("ledger.agent")),
                (
                    "task",
                    key(
                        "ledger.task",
                        models.SET_NULL,
                        null=True,
                        related_name="+",
                        help_text="the task that the agent's session works on",
                    ),
                ),
                (
                    "session",
                    models.CharField(
                        db_default="", help_text="the agent's own session", max_length=128
                    ),
                ),
                (
                    "call_digest",
                    models.CharField(
                        help_text="the same for the same tool call of the same session",
                        max_length=64,
                    ),
                ),
                (
                    "asked_by",
                    models.CharField(
                        db_default="",
                        help_text="the program that asks, such as claude-code",
                        max_length=32,
                    ),
                ),
                ("tool", models.CharField(max_length=128)),
                (
                    "input",
                    models.JSONField(
                        help_text="what the tool would be called with; secrets are masked"
                    ),
                ),
                ("title", models.TextField(help_text="the call in one line")),
                ("folder", models.TextField(db_default="")),
                (
                    "said",
                    models.TextField(
                        db_default="", help_text="what the agent said last before the call"
                    ),
                ),
                (
                    "marks",
                    models.JSONField(db_default=[], help_text="what a careful person looks for"),
                ),
                (
                    "proposed",
                    models.TextField(
                        null=True,
                        help_text="the matcher of a rule that would allow this call, or null",
                    ),
                ),
                ("when_silent", models.CharField(choices=SILENCES, max_length=16)),
                ("state", models.CharField(choices=titled(*STATES), max_length=16)),
                (
                    "rule_ids",
                    ArrayField(
                        models.UUIDField(),
                        db_default=[],
                        help_text="the rules that decided it, if rules did",
                        size=None,
                    ),
                ),
                (
                    "message",
                    models.TextField(
                        db_default="", help_text="what a rule's denial tells the agent"
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(help_text="the agent stops waiting then")),
                (
                    "polled_at",
                    models.DateTimeField(help_text="when the agent last looked for the answer"),
                ),
                (
                    "taken_at",
                    models.DateTimeField(help_text="when the agent took the answer", null=True),
                ),
                ("closed_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    index("permission_project", "project", "id"),
                    index("permission_session", "agent", "session", "id"),
                    index("permission_waiting", "expires_at", condition=Q(state="waiting")),
                    index("permission_task", "task", condition=Q(task__isnull=False)),
                    GinIndex(
                        fields=["rule_ids"],
                        name="permission_by_rule",
                        condition=Q(rule_ids=[], _negated=True),
                    ),
                ],
                "constraints": [
                    check("permission_state_known", Q(state__in=STATES)),
                    check(
                        "permission_closed_at",
                        Q(
                            Q(closed_at__isnull=True, state="waiting"),
                            Q(Q(state="waiting", _negated=True), ("closed_at__isnull", False)),
                            _connector="OR",
                        ),
                    ),
                    unique(
                        "permission_asked_once",
                        "agent",
                        "call_digest",
                        condition=Q(state="waiting"),
                    ),
                ],
            },
        ),
        CreateModel(
            "PermissionRule",
            [
                ("id", uuid7()),
                ("project", key("ledger.project")),
                ("agent", key("ledger.agent", null=True, help_text="null: all agents")),
                ("tool", models.CharField(max_length=128)),
                ("matcher", models.TextField(help_text="command words or a path, with * and **")),
                ("allows", models.BooleanField()),
                (
                    "message",
                    models.TextField(db_default="", help_text="what a denied agent is told"),
                ),
                ("state", models.CharField(choices=titled(*RULE_STATES), max_length=12)),
                ("created_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("hits", models.IntegerField(db_default=0)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(help_text="moves on with each use")),
                ("ended_by_name", models.CharField(db_default="", max_length=64)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    index("permission_rule_project", "project", "id"),
                    index("permission_rule_agent", "agent", condition=Q(agent__isnull=False)),
                ],
                "constraints": [
                    check("permission_rule_state_known", Q(state__in=RULE_STATES)),
                    unique(
                        "permission_rule_once",
                        "project",
                        "agent",
                        "tool",
                        "matcher",
                        "allows",
                        condition=Q(state="active"),
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
        AddField(
            "escalation",
            "permission",
            key(
                "retries.permissionrequest",
                models.CASCADE,
                help_text="the request for leave that it is about",
                null=True,
            ),
        ),
        AlterField(
            "escalation",
            "on_expiry",
            models.CharField(choices=titled(*EXPIRIES), max_length=8, null=True),
        ),
        RemoveConstraint("escalation", "escalation_of_one_subject"),
        AddConstraint(
            "escalation",
            check(
                "escalation_of_one_subject",
                is_only("task") | is_only("instruction") | is_only("permission"),
            ),
        ),
        RemoveConstraint("escalation", "escalation_expires_somehow"),
        AddConstraint(
            "escalation",
            check(
                "escalation_expires_somehow",
                Q(
                    Q(expires_at__isnull=True, on_expiry__isnull=True),
                    Q(expires_at__isnull=False, on_expiry__isnull=False, on_expiry__in=EXPIRIES),
                    _connector="OR",
                ),
            ),
        ),
        RemoveConstraint("escalation", "escalation_answer_where_resolved"),
        AddConstraint(
            "escalation",
            check(
                "escalation_answer_where_resolved",
                Q(
                    Q(action__in=ANSWERS, state="resolved"),
                    Q(Q(state="resolved", _negated=True), ("action__isnull", True)),
                    _connector="OR",
                ),
            ),
        ),
    ]
