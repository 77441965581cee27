"""The project: the tenant boundary."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from ledger.models.fields import key, one_of, rule, stamp
from ledger.states import FileScope

DEFAULT = "default"


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
