"""Retry contexts as they were given, and the changes, output, and spans of an attempt."""

from django.db import models
from django.db.models import Q

from ledger.models import Attempt, Project
from ledger.models.fields import key


class StoredContext(models.Model):
    """The retry context that an attempt was given, as its agent got it.

    It has its own table, so that no list of attempts reads the text.
    """

    attempt = models.OneToOneField(
        Attempt, models.CASCADE, primary_key=True, related_name="stored_context"
    )
    text = models.TextField()
    signature = models.CharField(
        max_length=16, db_default="", help_text="signature that the fix in it worked for before"
    )
    fix_key = models.CharField(max_length=16, db_default="", help_text="the fix in it, if any")

    class Meta:
        indexes = [
            models.Index(fields=["signature"], condition=~Q(fix_key=""), name="stored_context_fix")
        ]

    def __str__(self) -> str:
        return f"retry context of {self.attempt_id}"


class AttemptDiff(models.Model):
    """The diff that an attempt left and the environment that it ran in, if its client sends them.

    It has its own table, so that no list of attempts reads the text.
    """

    attempt = models.OneToOneField(Attempt, models.CASCADE, primary_key=True, related_name="source")
    diff = models.TextField(db_default="")
    environment = models.JSONField(
        null=True, help_text="folder, branch, and versions of tools, by name"
    )
    check_key = models.CharField(
        max_length=32, db_default="", help_text="the project and the command that checks the work"
    )

    class Meta:
        indexes = [
            # Ids of attempts ascend with time: the newest of a check comes last.
            models.Index(
                fields=["check_key", "attempt"],
                condition=~models.Q(check_key=""),
                name="attempt_diff_check",
            )
        ]

    def __str__(self) -> str:
        return f"diff of {self.attempt_id}"


class AttemptOutput(models.Model):
    """A piece of what an attempt has printed. The newest piece may grow."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, db_index=False, related_name="output")
    at = models.BigIntegerField(help_text="the bytes that were printed before it")
    size = models.IntegerField(help_text="its bytes as they were printed")
    text = models.TextField(help_text="as a terminal shows it, without secrets")
    pk = models.CompositePrimaryKey("attempt_id", "at")

    def __str__(self) -> str:
        return f"output of {self.attempt_id} from byte {self.at}"


class AttemptTrace(models.Model):
    """The number of spans that an attempt's program sent, and the usage that they brought.

    Spans of one attempt are stored under a lock on this row.
    """

    id = key()
    project = models.ForeignKey(Project, models.PROTECT, db_index=False)
    attempt = models.OneToOneField(Attempt, models.CASCADE, related_name="+")
    spans = models.IntegerField(db_default=0, help_text="spans that are stored")
    dropped = models.IntegerField(
        db_default=0, help_text="spans that were sent beyond the limit and are not stored"
    )
    usage = models.JSONField(null=True, help_text="tokens and cost that its spans added")
    updated_at = models.DateTimeField(help_text="when the last spans came")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(spans__gte=0, dropped__gte=0), name="attempt_trace_counts"
            )
        ]

    def __str__(self) -> str:
        return f"trace of {self.attempt_id}"


class AttemptSpan(models.Model):
    """A span of OpenTelemetry that an attempt's program sent."""

    pk = models.CompositePrimaryKey("attempt_id", "trace_id", "span_id")
    # The statement that writes it holds the attempt's trace, which refers to the attempt.
    attempt = models.ForeignKey(
        Attempt, models.CASCADE, db_index=False, db_constraint=False, related_name="+"
    )
    trace_id = models.CharField(max_length=32)
    span_id = models.CharField(max_length=16)
    parent_id = models.CharField(max_length=16, db_default="")
    name = models.CharField(max_length=200)
    kind = models.SmallIntegerField(help_text="as OTLP numbers them: 3 is a client's")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    status = models.SmallIntegerField(help_text="0 unset, 1 ok, 2 error")
    message = models.TextField(db_default="", help_text="of the status")
    attributes = models.JSONField(db_default={}, help_text="its own and those of its resource")
    usage = models.JSONField(null=True, help_text="model, tokens and cost")
    counted = models.BooleanField(
        db_default=False, help_text="whether its usage counts for the attempt"
    )

    class Meta:
        indexes = [
            # those with usage below a span
            models.Index(
                fields=["attempt", "parent_id"],
                condition=Q(usage__isnull=False),
                name="attempt_span_usage",
            )
        ]

    def __str__(self) -> str:
        return self.name
