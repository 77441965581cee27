"""A project's policies for decisions about failures."""

from typing import Any

from django.db import models
from django.db.models import Q

from ledger.models import Project
from ledger.states import EvidenceLevel
from retries.states import PolicyScope


def scope(default: PolicyScope, help_text: str) -> "models.CharField[Any, Any]":
    return models.CharField(
        max_length=8,
        choices=PolicyScope.choices,
        default=default,
        db_default=default.value,
        help_text=help_text,
    )


class RetryPolicy(models.Model):
    """The policies of a project for decisions about failures; without a row the defaults count."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True)
    ask_at_once = scope(
        PolicyScope.PLANS, "ask a person at once where credentials or credit are missing"
    )
    obey_waits = scope(PolicyScope.ALL, "wait as long as a rate limit says, at most 15 minutes")
    ask_on_same_failure = scope(
        PolicyScope.OFF, "ask a person if an error comes back and no file has changed"
    )
    # null: it is not set; agents' own reports are recorded, and a hook's Stop asks
    evidence = models.CharField(  # noqa: DJ001
        max_length=8,
        null=True,
        blank=True,
        choices=EvidenceLevel.choices,
        help_text="what is asked for before a task is done",
    )
    version = models.IntegerField(default=1, db_default=1, editable=False)

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

    @property
    def exclusive_files(self) -> str:
        return self.project.exclusive_files

    def __str__(self) -> str:
        return f"policies of {self.project}"
