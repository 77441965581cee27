"""Budgets of tasks, plans and projects, and the prices of models."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Self
from zoneinfo import ZoneInfo

from django.db import models
from django.db.models import Exists, OuterRef, Q

from ledger.authorization.principal import Principal
from ledger.models.fields import key
from ledger.models.plan import Plan
from ledger.models.project import Project, VisibleQuerySet
from ledger.models.task import Task

MODEL_LENGTH = 128
ZONE_LENGTH = 64
# until when a budget without a period is used up
FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
# of its limit; a notice comes once
NOTICE_AT = Decimal("0.8")


class BudgetPeriod(models.TextChoices):
    """The time that a budget is for."""

    DAY = "day", "per day"
    TOTAL = "total", "in total"


class BudgetUnit(models.TextChoices):
    """The unit of a budget's limit."""

    TOKENS = "tokens"
    USD = "usd", "USD"


class AtLimit(models.TextChoices):
    """The effect of a budget that is used up; its tasks wait in both cases."""

    # a person is asked
    ASK = "ask", "ask a person"
    STOP = "stop", "wait"


class BudgetQuerySet(models.QuerySet["Budget"]):
    def visible_to(self, principal: Principal) -> Self:
        """Return the project's budgets; an agent does not see those of others' tasks and plans."""
        found = self.filter(project_id=principal.project_id)
        if principal.is_agent:
            # looked up for each budget, because an agent may have very many tasks
            tasks = Task.objects.visible_to(principal)
            own, of_plan = tasks.filter(pk=OuterRef("task")), tasks.filter(plan=OuterRef("plan"))
            whole = Q(plan=None, task=None)
            return found.filter(whole | Q(Exists(own)) | Q(Exists(of_plan)))
        return found


class Budget(models.Model):
    """How much a task, a plan or a project may use; `retries.budgets` alone writes it."""

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    plan = models.ForeignKey(
        Plan, models.CASCADE, null=True, db_index=False, help_text="null: of a task or the project"
    )
    task = models.ForeignKey(
        Task, models.CASCADE, null=True, db_index=False, help_text="null: of a plan or the project"
    )
    period = models.CharField(max_length=8, choices=BudgetPeriod.choices)
    unit = models.CharField(max_length=8, choices=BudgetUnit.choices)
    amount = models.DecimalField(max_digits=20, decimal_places=6)
    at_limit = models.CharField(max_length=8, choices=AtLimit.choices, db_default=AtLimit.ASK.value)
    zone = models.CharField(
        max_length=ZONE_LENGTH, db_default="UTC", help_text="the time zone of its day"
    )
    # Of the day in `day`, or of all time. Reports add to it in their own transactions.
    used = models.DecimalField(max_digits=24, decimal_places=6, db_default=0)
    granted = models.DecimalField(
        max_digits=20, decimal_places=6, db_default=0, help_text="what answers added to the amount"
    )
    day = models.DateField(null=True)
    unpriced = models.IntegerField(
        db_default=0, help_text="reports whose tokens have no known price"
    )
    unpriced_model = models.CharField(max_length=MODEL_LENGTH, db_default="")
    # when the notice came, when it was used up, and when a person was asked; null: not yet
    near_at = models.DateTimeField(null=True)
    reached_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True)
    escalation_id = models.UUIDField(null=True, help_text="the last question about it")
    version = models.IntegerField(db_default=1)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = BudgetQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "plan", "task", "period", "unit"],
                name="budget_unique",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(plan__isnull=True) | Q(task__isnull=True), name="budget_of_one_subject"
            ),
            models.CheckConstraint(
                condition=Q(
                    period__in=BudgetPeriod.values,
                    unit__in=BudgetUnit.values,
                    at_limit__in=AtLimit.values,
                    amount__gt=0,
                ),
                name="budget_values_known",
            ),
        ]
        indexes = [
            models.Index(fields=["plan"], condition=Q(plan__isnull=False), name="budget_plan"),
            models.Index(fields=["task"], condition=Q(task__isnull=False), name="budget_task"),
            models.Index(
                fields=["escalation_id"],
                condition=Q(escalation_id__isnull=False),
                name="budget_escalation",
            ),
            models.Index(
                fields=["id"], condition=Q(reached_at__isnull=False), name="budget_reached"
            ),
            # of the budgets of tasks, those to see first: see retries/budgets/reading.py
            models.Index(
                fields=["project", "-near_at"],
                condition=Q(task__isnull=False, near_at__isnull=False),
                name="budget_near",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount:f} {self.unit} {self.period}"

    @property
    def scope(self) -> str:
        return "task" if self.task_id else "plan" if self.plan_id else "project"

    def find_today(self, now: datetime) -> date:
        return now.astimezone(ZoneInfo(self.zone)).date()

    def is_of_now(self, now: datetime) -> bool:
        # A change of its zone may make today the day before.
        is_now = self.day is not None and self.day >= self.find_today(now)
        return self.period == BudgetPeriod.TOTAL or is_now

    def used_now(self, now: datetime) -> Decimal:
        return self.used if self.is_of_now(now) else Decimal(0)

    def limit_now(self, now: datetime) -> Decimal:
        return self.amount + self.granted if self.is_of_now(now) else self.amount

    def is_used_up(self, now: datetime) -> bool:
        return self.used_now(now) >= self.limit_now(now)

    def ends_at(self, now: datetime) -> datetime | None:
        if self.period == BudgetPeriod.TOTAL:
            return None
        today = self.find_today(now)
        tomorrow = max(today, self.day or today) + timedelta(days=1)
        return datetime.combine(tomorrow, time(), ZoneInfo(self.zone)).astimezone(UTC)


class ModelPriceQuerySet(VisibleQuerySet["ModelPrice"]):
    agent_path = ""


class ModelPrice(models.Model):
    """The price of a model's tokens in a project from a day on, in USD per million.

    It comes before the price that Tenfour ships for the model.
    """

    id = key()
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    model = models.CharField(max_length=MODEL_LENGTH)
    starts_on = models.DateField(help_text="the first day, in UTC, on which it holds")
    input = models.DecimalField(max_digits=12, decimal_places=6)
    output = models.DecimalField(max_digits=12, decimal_places=6)
    cache_read = models.DecimalField(max_digits=12, decimal_places=6)
    cache_write = models.DecimalField(max_digits=12, decimal_places=6)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = ModelPriceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "model", "starts_on"], name="model_price_unique"
            ),
            models.CheckConstraint(
                condition=Q(input__gte=0, output__gte=0, cache_read__gte=0, cache_write__gte=0),
                name="model_price_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} from {self.starts_on}"
