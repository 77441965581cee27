"""Rows that Tenfour keeps for itself: runs of jobs, stored responses, and words for the search."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from ledger.models.instruction import Instruction
from ledger.models.task import Task
from ledger.models.token import Token


class ClockRun(models.Model):
    """One row per job. If two beats tick at once, the second one sees here that it is late."""

    ERROR_LENGTH = 300

    name = models.CharField(max_length=32, primary_key=True)
    last_run_at = models.DateTimeField()
    last_success_at = models.DateTimeField(null=True)
    failures = models.BigIntegerField(db_default=0, help_text="failed runs since the installation")
    last_error = models.CharField(
        max_length=ERROR_LENGTH,
        db_default="",
        blank=True,
        help_text="why the last run failed; empty after a success",
    )
    took_ms = models.IntegerField(null=True)
    did = models.JSONField(default=dict, help_text="counts of the last completed run")
    host_ahead_s = models.FloatField(
        db_default=0.0, help_text="seconds that the worker's host was ahead of PostgreSQL"
    )

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """Written in the transaction of the request, so that both exist or neither."""

    id = models.BigAutoField(primary_key=True)
    token = models.ForeignKey(
        Token, models.CASCADE, null=True, db_index=False, help_text="null: a form of a page"
    )
    key = models.CharField(max_length=255)
    fingerprint = models.BinaryField(max_length=32)
    status = models.SmallIntegerField(null=True)
    body = models.TextField(default="")
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token", "key"], name="idempotency_key_unique"),
            models.UniqueConstraint(
                fields=["key"],
                condition=models.Q(token=None),
                name="idempotency_key_of_form_unique",
            ),
        ]

    def __str__(self) -> str:
        return self.key


class TaskWords(models.Model):
    """The words of a task's title, type and ref; the clock writes them, a trigger updates them.

    They have a table of their own, because a task's row changes often, and each change would write
    a full-text index again.
    """

    task = models.OneToOneField(
        Task, models.CASCADE, primary_key=True, db_constraint=False, related_name="search_words"
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="task_words")]

    def __str__(self) -> str:
        return f"words of {self.task_id}"


class TaskValue(models.Model):
    """A digest of a value that a task is searched by; see `retries.journal_readers.stored_values`.

    Rows may be stale: a search compares the stored value, too.
    """

    pk = models.CompositePrimaryKey("digest", "task_id")
    digest = models.BinaryField(max_length=8)
    task = models.ForeignKey(
        Task, models.CASCADE, db_constraint=False, related_name="stored_values"
    )

    def __str__(self) -> str:
        return f"a value of {self.task_id}"


class InstructionWords(models.Model):
    """The words of an instruction, written by the clock."""

    instruction = models.OneToOneField(
        Instruction,
        models.CASCADE,
        primary_key=True,
        db_constraint=False,
        related_name="search_words",
    )
    words = SearchVectorField()

    class Meta:
        indexes = [GinIndex(fields=["words"], name="instruction_words")]

    def __str__(self) -> str:
        return f"words of {self.instruction_id}"
