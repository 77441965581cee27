"""Failure patterns, their failures per hour, and verdicts on their fixes."""

from typing import Self

from django.db import models
from django.db.models import F, Q

from ledger.models import Agent, Failure, Project
from ledger.models.fields import UUIDv7, assignee_key, key
from ledger.models.project import VisibleQuerySet
from retries.states import PatternState, Verdict


class FailurePatternQuerySet(VisibleQuerySet["FailurePattern"]):
    agent_path = ""

    def current(self) -> Self:
        return self.filter(merged_into=None)


class FailurePattern(models.Model):
    """A group of failures of a project with the same error, apart from its variable parts.

    Only `retries.failures.grouping` and `retries.failures.pattern_merging` write it, and
    `retries.assignment.rows` its assignee. Counts are in `FailureCount`: with a count in this row,
    all failing agents would wait for the same row.

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
    assignee = assignee_key()
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


class FailureCount(models.Model):
    """A number of a pattern's failures of one agent; the rows of both add up to all of them.

    A trigger adds a row for each new failure, so that agents that fail at once don't wait for each
    other's row, and another one moves the rows of a pattern that is merged.
    `retries.failures.failure_counts` adds the rows up. Failures that were deleted still count.
    """

    pk = models.CompositePrimaryKey("pattern_id", "agent_id", "id")
    # The failures have these keys with constraints. Two more checks would slow down each report.
    pattern = models.ForeignKey(
        FailurePattern,
        models.CASCADE,
        db_index=False,
        db_constraint=False,
        related_name="failure_counts",
    )
    agent = models.ForeignKey(Agent, models.PROTECT, db_index=False, db_constraint=False)
    id = models.UUIDField(db_default=UUIDv7(), editable=False)
    failures = models.IntegerField()
    last_at = models.DateTimeField()
    is_sum = models.BooleanField(db_default=False, help_text="whether the clock has added it up")

    class Meta:
        indexes = [
            models.Index(fields=["pattern"], name="failure_count_new", condition=Q(is_sum=False))
        ]

    def __str__(self) -> str:
        return f"{self.failures} of {self.pattern_id}"


class FixVerdict(models.Model):
    """A person's decision about a fix for failures of one signature; its counts are computed."""

    id = key()
    pattern = models.ForeignKey(FailurePattern, models.CASCADE, db_index=False)
    signature = models.CharField(max_length=16, help_text="of the failures that the fix is for")
    fix_key = models.CharField(max_length=16, help_text="hash of the fix without case and spacing")
    verdict = models.CharField(max_length=8, choices=Verdict.choices)
    fix = models.TextField()
    note = models.TextField(db_default="")
    at = models.DateTimeField()
    by_name = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["signature", "fix_key", "pattern"], name="fix_verdict_once"
            ),
            models.CheckConstraint(
                condition=Q(verdict__in=Verdict.values), name="fix_verdict_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.fix[:80]}"
