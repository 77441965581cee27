"""Escalation policies, and the rotas of the people that they tell."""

from django.db import models
from django.db.models import Q

from ledger.models import Project
from ledger.models.fields import key
from ledger.models.project import VisibleQuerySet


class RotaQuerySet(VisibleQuerySet["Rota"]):
    # An agent does not learn when a person is on call, or what is answered without one.
    agent_path = None


class EscalationPolicyQuerySet(VisibleQuerySet["EscalationPolicy"]):
    agent_path = None


class Rota(models.Model):
    """The people on call by weekday and local time, and those who are when no shift is."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    name = models.CharField(max_length=64)
    timezone = models.CharField(max_length=64)
    shifts = models.JSONField(help_text="lines such as mon-fri 18:00-08:00 mara, jon")
    fallback = models.JSONField(help_text="the usernames of those on call outside of all shifts")
    changed_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    version = models.IntegerField(db_default=1)

    objects = RotaQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="rota_once")]

    def __str__(self) -> str:
        return self.name


class EscalationPolicy(models.Model):
    """The people to tell of an escalation, when, and the answer that is given without them.

    Of a project's policies, the first whose conditions hold is an escalation's policy.
    """

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    name = models.CharField(max_length=64)
    position = models.IntegerField(help_text="the lowest whose conditions hold applies")
    conditions = models.TextField(
        blank=True,
        db_default="",
        help_text="such as agent:deploy-* severity:high; empty: every escalation",
    )
    answer_within_s = models.IntegerField(help_text="an open escalation is overdue after that")
    steps = models.JSONField(help_text="lines such as 15 tell rota:nights, after minutes")
    enabled = models.BooleanField(db_default=True)
    answer_by_name = models.CharField(
        max_length=64, db_default="", help_text="who wrote the default answer"
    )
    changed_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    version = models.IntegerField(db_default=1)

    objects = EscalationPolicyQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "escalation policies"
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="escalation_policy_once"),
            models.CheckConstraint(
                condition=Q(answer_within_s__gte=60), name="escalation_policy_answer_within"
            ),
        ]

    def __str__(self) -> str:
        return self.name
