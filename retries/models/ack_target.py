"""The share of instructions that an agent should acknowledge in time."""

from django.db import models
from django.db.models import Q

from ledger.models import Agent


class AckTarget(models.Model):
    """The target of an agent: a share of its instructions, and the time to acknowledge each.

    Only `retries.insight.targets` writes it.
    """

    agent = models.OneToOneField(Agent, models.CASCADE, primary_key=True, related_name="ack_target")
    percent = models.SmallIntegerField()
    within_s = models.IntegerField()
    set_at = models.DateTimeField()
    set_by_name = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(percent__gte=1, percent__lte=99, within_s__gte=1),
                name="ack_target_possible",
            )
        ]

    def __str__(self) -> str:
        return f"{self.percent}% in {self.within_s} s"
