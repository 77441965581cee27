"""The last run of each scheduled job."""

from django.db import models


class ClockRun(models.Model):
    """One row per job. If two beats tick at once, the second one sees here that it is late."""

    name = models.CharField(max_length=32, primary_key=True)
    last_run_at = models.DateTimeField()
    took_ms = models.IntegerField(null=True)
    did = models.JSONField(default=dict, help_text="counts of the last completed run")

    def __str__(self) -> str:
        return self.name
