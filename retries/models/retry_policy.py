"""A project's policies for decisions about failures."""

from django.db import models
from django.db.models import Q

from ledger.models import Project
from ledger.states import EvidenceLevel
from retries.states import PolicyScope


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
