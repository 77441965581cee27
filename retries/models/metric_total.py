"""Totals of metrics, which never go down when old rows are deleted."""

from django.db import models

from ledger.models import Project


class MetricTotal(models.Model):
    """A counter, or one bucket of a histogram, with its labels.

    Only `retries.metric_totals` writes it.
    """

    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    metric = models.CharField(max_length=48)
    labels = models.JSONField(help_text="values by label")
    bucket = models.FloatField(help_text="upper edge of the bucket; 0 for a counter")
    count = models.BigIntegerField()
    sum = models.FloatField(help_text="sum of the values in this bucket; 0 for a counter")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "metric", "labels", "bucket"], name="metric_total_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.metric} {self.labels}"
