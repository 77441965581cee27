"""The patterns that group failures."""

from typing import Self

from django.db import models
from django.db.models import F, Q

from ledger.models import Agent, Failure, Project
from ledger.models.fields import key
from ledger.principal import Principal
from retries.states import PatternState


class FailurePatternQuerySet(models.QuerySet["FailurePattern"]):
    def visible_to(self, principal: Principal) -> Self:
        """Filter by the caller's project."""
        return self.filter(project_id=principal.project_id)

    def current(self) -> Self:
        """Filter out the patterns that were merged into another one."""
        return self.filter(merged_into=None)


class FailurePattern(models.Model):
    """A group of failures of a project with the same error, apart from its variable parts.

    Only `retries.failures.grouping` and `retries.failures.pattern_merging` write it. Counts are in
    `FailureCount`: with a count in this row, all failing agents would wait for the same row.

    A pattern whose template is one with another pattern's is merged into that: it keeps its
    fingerprint, so that later failures find their pattern, and has no failures.
    """

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    fingerprint = models.CharField(max_length=16)
    template = models.TextField()
    example = models.TextField(help_text="the first error line that matched")
    state = models.CharField(
        max_length=10, choices=PatternState.choices, db_default=PatternState.OPEN.value
    )
    ignored_until = models.DateTimeField(null=True)
    note = models.TextField(db_default="")
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField(help_text="updated at most once a minute")
    state_at = models.DateTimeField()
    state_by_name = models.CharField(max_length=64, db_default="")
    updated_at = models.DateTimeField()
    merged_into = models.ForeignKey(
        "self", models.PROTECT, null=True, db_index=False, related_name="merged"
    )
    merged_at = models.DateTimeField(null=True)
    shape = models.SmallIntegerField(
        db_default=0, help_text="number of words of the template; 0 if it is not compared"
    )
    own_template = models.TextField(
        db_default="", help_text="the template before others were merged into the pattern"
    )

    objects = FailurePatternQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "fingerprint"], name="pattern_once"),
            models.CheckConstraint(
                condition=Q(state__in=PatternState.values), name="pattern_state_known"
            ),
            models.CheckConstraint(
                condition=Q(ignored_until__isnull=True) | Q(state=PatternState.IGNORED),
                name="pattern_until_where_ignored",
            ),
        ]
        indexes = [
            models.Index(F("last_seen").desc(), F("id").desc(), name="pattern_newest"),
            models.Index(
                F("project"),
                F("shape"),
                F("last_seen").desc(),
                name="pattern_shape",
                condition=Q(merged_into=None),
            ),
            models.Index(
                fields=["merged_into", "merged_at"],
                name="pattern_merged",
                condition=Q(merged_into__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.template[:80]


class Grouped(models.Model):
    """The membership of a failure in its pattern; `retries.failures.resigning` signs it again."""

    failure = models.OneToOneField(Failure, models.CASCADE, primary_key=True)
    pattern = models.ForeignKey(
        FailurePattern, models.CASCADE, db_index=False, related_name="grouped"
    )
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False)
    at = models.DateTimeField()
    signature = models.CharField(
        max_length=16, db_default="", help_text="hash of the pattern and the entities"
    )
    entities = models.JSONField(db_default=[], help_text="what the cause names, such as a module")
    files_changed = models.IntegerField(
        null=True, help_text="number of changed files; null if the agent did not say"
    )
    known_error = models.CharField(  # noqa: DJ001 - null: it was grouped before this was stored
        max_length=64, null=True, help_text="name of the known error; empty if there is none"
    )

    class Meta:
        indexes = [
            models.Index(fields=["pattern", "at"], include=["agent"], name="grouped_pattern"),
            models.Index(fields=["signature", "at"], name="grouped_signature"),
        ]

    def __str__(self) -> str:
        return f"{self.failure_id} in {self.pattern_id}"
