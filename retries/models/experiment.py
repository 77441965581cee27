"""The experiments that measure the effect of one element of the retry context."""

from django.db import models
from django.db.models import Q

from ledger.models import Project
from ledger.models.fields import key
from retries.states import ContextElement

# percentages of the tasks that may do without the element
LEAST_SHARE, DEFAULT_SHARE, MOST_SHARE = 1, 10, 50


class ContextExperiment(models.Model):
    """An experiment of a project that leaves one element out of some of its retry contexts.

    Only `retries.insight.experiments` writes it. The counts are those of the last computation:
    attempts that had the element, and attempts that lacked it.
    """

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    element = models.CharField(max_length=24, choices=ContextElement.choices)
    share = models.SmallIntegerField(
        db_default=DEFAULT_SHARE, help_text="percentage of the tasks that do without it"
    )
    started_at = models.DateTimeField()
    started_by_name = models.CharField(max_length=64)
    start_reason = models.TextField()
    ended_at = models.DateTimeField(null=True)
    ended_by_name = models.CharField(max_length=64, db_default="")
    end_reason = models.TextField(db_default="")
    counted_at = models.DateTimeField(null=True, help_text="when the counts were computed")
    with_attempts = models.IntegerField(db_default=0)
    with_successes = models.IntegerField(db_default=0)
    without_attempts = models.IntegerField(db_default=0)
    without_successes = models.IntegerField(db_default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(element__in=ContextElement.values), name="experiment_element_known"
            ),
            models.CheckConstraint(
                condition=Q(share__range=(LEAST_SHARE, MOST_SHARE)), name="experiment_share_range"
            ),
            # Two at once would leave two elements out of one context.
            models.UniqueConstraint(
                fields=["project"], condition=Q(ended_at=None), name="experiment_running_once"
            ),
        ]
        indexes = [models.Index(fields=["project", "-started_at"], name="experiment_newest")]

    def __str__(self) -> str:
        return f"{self.get_element_display()} of {self.project}"
