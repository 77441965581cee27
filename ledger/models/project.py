"""The project: the tenant boundary."""

from datetime import datetime
from typing import ClassVar, Self, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from ledger.authorization.principal import Principal
from ledger.models.fields import key, one_of, rule, stamp
from ledger.states import FileScope
from ledger.values.ids import timestamp_of

DEFAULT = "default"
M = TypeVar("M", bound=models.Model)


class VisibleQuerySet(models.QuerySet[M]):
    """Rows that a token sees: those of its project, or of its agent where it is an agent's."""

    project_path: ClassVar[str] = "project_id"
    # empty where an agent sees its whole project, None where it sees nothing
    agent_path: ClassVar[str | None] = "agent_id"

    def visible_to(self, principal: Principal) -> Self:
        if not principal.is_agent or self.agent_path == "":
            return self.filter(**{self.project_path: principal.project_id})
        if self.agent_path is None:
            return self.none()
        return self.filter(**{self.agent_path: principal.agent_id})


class Project(models.Model):
    """Agents, instructions and tokens belong to a project; `default` always exists."""

    id = key()
    name = models.CharField(max_length=64, unique=True)
    created_at = stamp()
    moving_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="since then it moves to another installation, and its tokens wait",
    )
    spent_until = models.DateTimeField(
        null=True, editable=False, help_text="its budget is used up until then"
    )

    reason_verbs = ArrayField(
        models.CharField(max_length=40),
        default=list,
        db_default=[],
        blank=True,
        help_text="the verbs for which people must give a reason",
    )
    paused_types = models.JSONField(
        null=True,
        editable=False,
        help_text="the types whose tasks are not handed out: since when, by whom, and why",
    )

    search_keys = ArrayField(
        models.CharField(max_length=100),
        default=list,
        db_default=[],
        editable=False,
        help_text="the keys of payloads and results that tasks are searched by",
    )
    fills_values_before = models.UUIDField(
        null=True,
        editable=False,
        help_text="the tasks before this id are not yet searched by the keys",
    )

    exclusive_files = models.CharField(
        max_length=5,
        db_default=FileScope.OFF.value,
        editable=False,
        choices=FileScope.choices,
        help_text="which tasks with the same files don't run at once",
    )
    marks_files_from = models.UUIDField(
        null=True,
        editable=False,
        help_text="the tasks from this id on are still to be told whose files count",
    )

    class Meta:
        constraints = [
            rule("project_exclusive_files_known", f"exclusive_files ~ '{one_of(FileScope.values)}'")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def search_filled_to(self) -> datetime | None:
        """The time before which tasks are not yet searched by the project's keys."""
        before = self.fills_values_before
        return timestamp_of(before) if before else None
