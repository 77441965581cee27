"""The counts of deleted failures, and the results of their fixes."""

from django.db import models
from django.db.models import Q

from ledger.models import Agent
from ledger.models.fields import key
from retries.models.failure_pattern import FailurePattern


class PastFailures(models.Model):
    """The number of a pattern's deleted failures of one agent, and how plain retries ended.

    Only `retries.failures.past_failures` writes it. `FailureCount` has the number of all failures;
    processes of a version before it still read `failures` and `last_at` here.
    """

    pk = models.CompositePrimaryKey("pattern_id", "agent_id")
    pattern = models.ForeignKey(FailurePattern, models.CASCADE, db_index=False, related_name="past")
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    failures = models.IntegerField()
    last_at = models.DateTimeField()
    retried = models.IntegerField(help_text="failures that a retry without a fix followed")
    worked = models.IntegerField(help_text="those of the retries that succeeded")

    class Meta:
        verbose_name_plural = "past failures"
        constraints = [
            models.CheckConstraint(
                condition=Q(failures__gte=1, retried__gte=0, worked__gte=0),
                name="past_failures_counts",
            )
        ]

    def __str__(self) -> str:
        return f"{self.failures} of {self.pattern_id}"


class PastFixTry(models.Model):
    """The result of a fix whose task was deleted.

    Only `retries.failures.past_failures` writes it.
    """

    id = key()
    pattern = models.ForeignKey(FailurePattern, models.CASCADE, db_index=False)
    signature = models.CharField(max_length=16)
    fix_key = models.CharField(max_length=16, help_text="hash of the fix without case and spacing")
    entities = models.JSONField(db_default=[])
    fix = models.TextField(db_default="", help_text="empty: Tenfour told the attempt of it")
    closed_at = models.DateTimeField(null=True, help_text="when a person gave the fix")
    answered_by_name = models.CharField(max_length=64, db_default="")
    outcome = models.CharField(max_length=12)
    ended_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "past fix tries"
        constraints = [
            models.CheckConstraint(
                condition=Q(fix="", closed_at=None) | Q(~Q(fix=""), closed_at__isnull=False),
                name="past_fix_try_given_or_told",
            )
        ]
        indexes = [models.Index(fields=["pattern", "signature"], name="past_fix_try_pattern")]

    def __str__(self) -> str:
        return f"{self.fix_key}: {self.outcome}"
