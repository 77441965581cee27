"""The figures of the Insight page, as the clock computed them last."""

from django.db import models

from ledger.models import Project


class InsightFigure(models.Model):
    """The figures of one panel for one project and a number of days."""

    pk = models.CompositePrimaryKey("project_id", "panel", "days")
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    panel = models.CharField(max_length=24)
    days = models.SmallIntegerField()
    computed_at = models.DateTimeField()
    data = models.JSONField()

    def __str__(self) -> str:
        return f"{self.panel} of {self.project_id}, {self.days} days"
