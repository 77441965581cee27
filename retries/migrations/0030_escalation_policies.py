"""Escalation policies and rotas: who is told of an escalation, when, and what comes next."""

from datetime import UTC, datetime

from django.db import models
from django.db.migrations import AddField, CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import check, key, unique, uuid7


class Migration(BaseMigration):
    dependencies = [
        ("ledger", "0053_project_moving_since"),
        ("retries", "0029_escalation_budget"),
    ]

    operations = [
        CreateModel(
            name="Rota",
            fields=[
                ("id", uuid7()),
                ("project", key("ledger.project", models.CASCADE)),
                ("name", models.CharField(max_length=64)),
                ("timezone", models.CharField(max_length=64)),
                (
                    "shifts",
                    models.JSONField(help_text="lines such as mon-fri 18:00-08:00 mara, jon"),
                ),
                (
                    "fallback",
                    models.JSONField(
                        help_text="the usernames of those on call outside of all shifts"
                    ),
                ),
                ("changed_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("version", models.IntegerField(db_default=1)),
            ],
            options={"constraints": [unique("rota_once", "project", "name")]},
        ),
        CreateModel(
            name="EscalationPolicy",
            fields=[
                ("id", uuid7()),
                ("project", key("ledger.project", models.CASCADE)),
                ("name", models.CharField(max_length=64)),
                (
                    "position",
                    models.IntegerField(help_text="the lowest whose conditions hold applies"),
                ),
                (
                    "conditions",
                    models.TextField(
                        blank=True,
                        db_default="",
                        help_text="such as agent:deploy-* severity:high; empty: every escalation",
                    ),
                ),
                (
                    "answer_within_s",
                    models.IntegerField(help_text="an open escalation is overdue after that"),
                ),
                (
                    "steps",
                    models.JSONField(help_text="lines such as 15 tell rota:nights, after minutes"),
                ),
                ("enabled", models.BooleanField(db_default=True)),
                (
                    "answer_by_name",
                    models.CharField(
                        db_default="", help_text="who wrote the default answer", max_length=64
                    ),
                ),
                ("changed_by_name", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                ("version", models.IntegerField(db_default=1)),
            ],
            options={
                "verbose_name_plural": "escalation policies",
                "constraints": [
                    unique("escalation_policy_once", "project", "name"),
                    check("escalation_policy_answer_within", Q(answer_within_s__gte=60)),
                ],
            },
        ),
        AddField(
            "escalation",
            "policy",
            key(
                "retries.escalationpolicy",
                models.SET_NULL,
                help_text="says who is told of it, and when",
                null=True,
            ),
        ),
        AddField(
            "escalation",
            "policy_step",
            models.IntegerField(db_default=0, help_text="the policy's steps that are done"),
        ),
        AddField(
            "escalation",
            "next_step_at",
            models.DateTimeField(
                db_default=datetime(1970, 1, 1, tzinfo=UTC),
                help_text="when the policy's next step is due; 1970 until the policy is chosen",
                null=True,
            ),
        ),
        AddField(
            "escalation",
            "answer_due_at",
            models.DateTimeField(
                help_text="the policy's limit: open after that, it is overdue", null=True
            ),
        ),
        AddField(
            "escalation",
            "told",
            models.JSONField(db_default=[], help_text="the usernames of those told by the policy"),
        ),
        AddField(
            "escalation",
            "is_routed",
            models.BooleanField(
                db_default=False, help_text="the policy, not a person, assigned it"
            ),
        ),
    ]
