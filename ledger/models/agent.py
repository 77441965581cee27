"""A named worker."""

from datetime import datetime, timedelta
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef

from ledger.models.fields import key, stamp
from ledger.models.project import Project
from ledger.principal import Principal
from ledger.states import InstructionState

CONCURRENCY = (1, 1000)
SYSTEM_TEXT_LENGTH = 16_000


class AgentQuerySet(models.QuerySet["Agent"]):
    def visible_to(self, principal: Principal) -> Self:
        """The agents of the caller's project; an agent sees itself alone."""
        if principal.is_agent:
            return self.filter(id=principal.agent_id)
        return self.filter(project_id=principal.project_id)

    def silent(self, now: datetime) -> Self:
        """Agents that have not asked for anything for a while although instructions wait."""
        from ledger.models.instruction import Instruction

        waiting = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED)
        limit = now - timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])
        quiet = models.Q(last_seen_at=None) | models.Q(last_seen_at__lt=limit)
        return self.filter(quiet, Exists(waiting.filter(queued_at__lt=limit)))


class Agent(models.Model):
    """Several processes may work under one name."""

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    name = models.CharField(max_length=64)
    paused = models.BooleanField(db_default=False)
    concurrency = models.SmallIntegerField(
        null=True, blank=True, help_text="maximum number of concurrent attempts; empty for no limit"
    )
    system_text = models.TextField(
        db_default="", help_text="text placed before the prompt of each task"
    )
    last_seen_at = models.DateTimeField(null=True, editable=False)
    created_at = stamp()

    objects = AgentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="agent_name_unique"),
            models.CheckConstraint(
                condition=models.Q(concurrency=None) | models.Q(concurrency__range=CONCURRENCY),
                name="agent_concurrency_in_range",
            ),
        ]

    def __str__(self) -> str:
        return self.name
