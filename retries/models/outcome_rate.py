"""The rates at which tasks are done within their attempts, by their features."""

from django.db import models

from ledger.models import Project


class OutcomeRate(models.Model):
    """The number of earlier tasks with something in common, and how many of them were done.

    `failures` is how often a task had failed so far, at most two. `level` and `key` say what the
    tasks have in common. Only `retries.insight.figures.predictions` writes it, all rows of a
    project at once.
    """

    pk = models.CompositePrimaryKey("project_id", "failures", "level", "key")
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    failures = models.SmallIntegerField()
    level = models.CharField(max_length=10)
    key = models.CharField(max_length=160)
    tasks = models.IntegerField()
    done = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.done} of {self.tasks}: {self.level} {self.key}"
