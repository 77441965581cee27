"""The plan: an ordered set of tasks with dependencies, addressed by its ref."""

from collections.abc import Iterable
from typing import Self
from uuid import UUID

from django.db import models
from django.db.models import Q

from ledger.authorization.principal import Principal
from ledger.models.fields import key
from ledger.models.project import Project
from ledger.states import EvidenceLevel


class PlanState(models.TextChoices):
    """The state of a plan; derived from its timestamps, never stored."""

    ACTIVE = "active"
    # hands out none of its tasks
    PAUSED = "paused"
    # all of its tasks are final
    COMPLETED = "completed"
    # aborted by a person or producer; a restart is its next run
    ABORTED = "aborted"


# the timestamps that define each state
STANDS = {
    PlanState.ABORTED: Q(aborted_at__isnull=False),
    PlanState.COMPLETED: Q(aborted_at=None, completed_at__isnull=False),
    PlanState.PAUSED: Q(aborted_at=None, completed_at=None, paused_at__isnull=False),
    PlanState.ACTIVE: Q(aborted_at=None, completed_at=None, paused_at=None),
}


class PlanQuerySet(models.QuerySet["Plan"]):
    def visible_to(self, principal: Principal) -> Self:
        """Return the plans of the caller's project; an agent sees plans with a task of its own."""
        if principal.is_agent:
            return self.filter(task__agent_id=principal.agent_id).distinct()
        return self.filter(project_id=principal.project_id)

    def lock(self, ids: Iterable[UUID]) -> Self:
        """Return these plans, locked in the order of their ids; tasks can still be added."""
        return self.filter(pk__in=list(ids)).order_by("pk").select_for_update(no_key=True)

    def in_state(self, *states: str) -> Self:
        either = Q(pk=None)
        for state in states:
            either |= STANDS[PlanState(state)]
        return self.filter(either)


class Plan(models.Model):
    """`run` counts restarts; `source` is the imported document in canonical form."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    ref = models.CharField(max_length=129)
    title = models.CharField(max_length=200, db_default="")
    objective = models.TextField(db_default="")
    run = models.IntegerField(db_default=1)
    source = models.JSONField()
    content_hash = models.CharField(max_length=64)
    # null: as its project says
    evidence = models.CharField(max_length=8, null=True, choices=EvidenceLevel.choices)  # noqa: DJ001
    not_before = models.DateTimeField(null=True, help_text="none of its tasks starts before it")
    exclusive_files = models.BooleanField(
        db_default=False, help_text="tasks with the same files don't run at once"
    )
    own_exclusive_files = models.BooleanField(
        null=True, help_text="exclusive_files if it was set; null: as its project says"
    )
    spent_until = models.DateTimeField(
        null=True, editable=False, help_text="its budget is used up until then"
    )
    paused_at = models.DateTimeField(null=True)
    aborted_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    # when every box of its file last said what the ledger says
    file_agreed_at = models.DateTimeField(null=True)
    version = models.IntegerField(db_default=1)
    created_by_type = models.CharField(max_length=12)
    created_by_name = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = PlanQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "ref"], name="plan_ref_once"),
            models.CheckConstraint(condition=Q(run__gte=1), name="plan_runs_from_one"),
        ]
        indexes = [
            models.Index(fields=["project", "id"], name="plan_project"),
            models.Index(
                fields=["id"],
                condition=Q(completed_at=None, aborted_at=None),
                name="plan_under_way",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.ref} {self.title}".strip()

    @property
    def state(self) -> PlanState:
        if self.aborted_at:
            return PlanState.ABORTED
        if self.completed_at:
            return PlanState.COMPLETED
        return PlanState.PAUSED if self.paused_at else PlanState.ACTIVE
