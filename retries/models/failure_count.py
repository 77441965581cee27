"""The number of a pattern's failures, by agent."""

from django.db import models
from django.db.models import Q

from ledger.models import Agent
from ledger.models.fields import UUIDv7
from retries.models.failure_pattern import FailurePattern


class FailureCount(models.Model):
    """A number of a pattern's failures of one agent; the rows of both add up to all of them.

    A trigger adds a row for each new failure, so that agents that fail at once don't wait for each
    other's row, and another one moves the rows of a pattern that is merged.
    `retries.failures.failure_counts` adds the rows up. Failures that were deleted still count.
    """

    pk = models.CompositePrimaryKey("pattern_id", "agent_id", "id")
    # The failures have these keys with constraints. Two more checks would slow down each report.
    pattern = models.ForeignKey(
        FailurePattern,
        models.CASCADE,
        db_index=False,
        db_constraint=False,
        related_name="failure_counts",
    )
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False, db_constraint=False)
    id = models.UUIDField(db_default=UUIDv7(), editable=False)
    failures = models.IntegerField()
    last_at = models.DateTimeField()
    is_sum = models.BooleanField(db_default=False, help_text="whether the clock has added it up")

    class Meta:
        indexes = [
            models.Index(fields=["pattern"], name="failure_count_new", condition=Q(is_sum=False))
        ]

    def __str__(self) -> str:
        return f"{self.failures} of {self.pattern_id}"
