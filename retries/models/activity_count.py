"""Counts for each half hour and each day, so that pages need not read the journal."""

from django.db import models

from ledger.models import Agent, Project

# the lengths of a slot
HALF_HOUR, DAY = 30, 1440


class ActivityCount(models.Model):
    """An agent's attempts, tasks and instructions in one slot of time.

    `at` is where the slot begins, in UTC. Only `retries.journal_readers.counts` writes it.
    """

    pk = models.CompositePrimaryKey("minutes", "at", "agent_id")
    minutes = models.SmallIntegerField(help_text="length of the slot")
    at = models.DateTimeField()
    # Projects and agents are never deleted.
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False, db_constraint=False)
    project = models.ForeignKey(Project, models.PROTECT, db_index=False, db_constraint=False)
    attempts = models.IntegerField(help_text="attempts that ended")
    attempts_failed = models.IntegerField()
    busy_s = models.FloatField(help_text="seconds of the attempts that ended")
    tasks_done = models.IntegerField()
    tasks_done_first = models.IntegerField(help_text="done by the first attempt")
    tasks_failed = models.IntegerField()
    tasks_escalated = models.IntegerField()
    finished_attempts = models.IntegerField(help_text="attempts of the tasks done or failed")
    sent = models.IntegerField(help_text="tracked instructions")
    acknowledged_first = models.IntegerField(help_text="without a reminder")
    acknowledged_later = models.IntegerField()
    given_up = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.agent_id} at {self.at:%Y-%m-%d %H:%M}"


class DurationCount(models.Model):
    """A project's acknowledgments or answers of about one duration, in one slot of time.

    `step` counts steps of five percent from one second. Only `retries.journal_readers.counts` writes it.
    """

    pk = models.CompositePrimaryKey("minutes", "at", "project_id", "measure", "step")
    minutes = models.SmallIntegerField(help_text="length of the slot")
    at = models.DateTimeField()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False, db_constraint=False)
    measure = models.CharField(max_length=8, help_text="ack or answer")
    step = models.SmallIntegerField()
    count = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.measure} at {self.at:%Y-%m-%d %H:%M}"
