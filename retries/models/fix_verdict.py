"""People's verdicts about fixes."""

from django.db import models
from django.db.models import Q

from ledger.models.fields import key
from retries.models.failure_pattern import FailurePattern
from retries.states import Verdict


class FixVerdict(models.Model):
    """A person's decision about a fix for failures of one signature; its counts are computed."""

    id = key()
    pattern = models.ForeignKey(FailurePattern, models.CASCADE, db_index=False)
    signature = models.CharField(max_length=16, help_text="of the failures that the fix is for")
    fix_key = models.CharField(max_length=16, help_text="hash of the fix without case and spacing")
    verdict = models.CharField(max_length=8, choices=Verdict.choices)
    fix = models.TextField()
    note = models.TextField(db_default="")
    at = models.DateTimeField()
    by_name = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["signature", "fix_key", "pattern"], name="fix_verdict_once"
            ),
            models.CheckConstraint(
                condition=Q(verdict__in=Verdict.values), name="fix_verdict_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.fix[:80]}"
