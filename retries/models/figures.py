"""Figures that are counted ahead of their pages."""

from django.db import models
from django.db.models import Q

from ledger.models import Agent, Plan, Project
from ledger.models.fields import key


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


class AckTarget(models.Model):
    """The target of an agent: a share of its instructions, and the time to acknowledge each.

    Only `retries.insight.targets` writes it.
    """

    agent = models.OneToOneField(Agent, models.CASCADE, primary_key=True, related_name="ack_target")
    percent = models.SmallIntegerField()
    within_s = models.IntegerField()
    set_at = models.DateTimeField()
    set_by_name = models.CharField(max_length=64)

    # as those of tasks have them
    measure, type, plan = "ack", "", None

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(percent__gte=1, percent__lte=99, within_s__gte=1),
                name="ack_target_possible",
            )
        ]

    def __str__(self) -> str:
        return f"{self.percent}% in {self.within_s} s"


class Measure(models.TextChoices):
    """The time that a target limits."""

    ACK = "ack", "Acknowledgment"
    WAIT = "wait", "Wait"
    RUN = "run", "Run"


class TaskTarget(models.Model):
    """The target of an agent, a type, or a plan for tasks: a share, and the time each may take.

    The time is that to a task's first claim, or that of an attempt. Only `retries.insight.targets`
    writes it.
    """

    id = key()
    project = models.ForeignKey(
        Project,
        models.CASCADE,
        null=True,
        db_index=False,
        help_text="null: an earlier version set it, for an agent",
    )
    agent = models.ForeignKey(
        Agent,
        models.CASCADE,
        null=True,
        db_index=False,
        related_name="task_targets",
        help_text="null: of a type or a plan",
    )
    type = models.CharField(
        max_length=64, db_default="", help_text="of tasks; empty: of an agent or a plan"
    )
    plan = models.ForeignKey(
        Plan, models.CASCADE, null=True, db_index=False, help_text="null: of an agent or a type"
    )
    measure = models.CharField(
        max_length=4, choices=[each for each in Measure.choices if each[0] != Measure.ACK]
    )
    percent = models.SmallIntegerField()
    within_s = models.IntegerField()
    set_at = models.DateTimeField()
    set_by_name = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(percent__gte=1, percent__lte=99, within_s__gte=1),
                name="task_target_possible",
            ),
            models.CheckConstraint(
                condition=Q(agent__isnull=False, type="", plan__isnull=True)
                | Q(agent__isnull=True, type="", plan__isnull=False, project__isnull=False)
                | (Q(agent__isnull=True, plan__isnull=True, project__isnull=False) & ~Q(type="")),
                name="task_target_of_one_subject",
            ),
            models.UniqueConstraint(
                fields=["project", "agent", "type", "plan", "measure"],
                name="task_target_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.measure}: {self.percent}% in {self.within_s} s"


class MetricTotal(models.Model):
    """A counter, or one bucket of a histogram, with its labels.

    Only `retries.journal_readers.metric_totals` writes it.
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


class PlanForecast(models.Model):
    """When a run of a plan will be done and what it will cost, each with an interval of 80 %.

    The newest forecast of each run is replaced by the next. The one with `is_kept` was made when
    a quarter of its tasks was done, and stays, so that it can be compared with the plan's end.
    Only `retries.insight.forecasts` writes it.
    """

    pk = models.CompositePrimaryKey("plan_id", "run", "is_kept")
    plan = models.ForeignKey(Plan, models.CASCADE, db_index=False)
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    run = models.IntegerField()
    is_kept = models.BooleanField()
    made_at = models.DateTimeField()
    # without a forecast, why
    reason = models.CharField(max_length=16, db_default="")
    cases = models.IntegerField(help_text="the least number of attempts that a figure rests on")
    low_at = models.DateTimeField(null=True)
    median_at = models.DateTimeField(null=True)
    high_at = models.DateTimeField(null=True)
    # of the whole run: what was spent so far, and the forecast of the rest
    spent = models.FloatField(db_default=0)
    low_cost = models.FloatField(null=True)
    median_cost = models.FloatField(null=True)
    high_cost = models.FloatField(null=True)
    cost_unit = models.CharField(max_length=6, db_default="usd")
    ended_at = models.DateTimeField(null=True, help_text="when the plan was done")

    class Meta:
        indexes = [
            models.Index(fields=["project"], condition=Q(is_kept=True), name="forecast_kept")
        ]

    def __str__(self) -> str:
        return f"{self.plan_id}, run {self.run}: {self.median_at or self.reason}"
