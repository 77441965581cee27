"""Store the spans that agents' programs send."""

from django.db import models
from django.db.migrations import CreateModel
from django.db.migrations import Migration as BaseMigration
from django.db.models import Q

from ledger.migrations._steps import check, index, key, uuid7


class Migration(BaseMigration):
    dependencies = [
        ("ledger", "0062_attempt_trace"),
        ("retries", "0033_task_targets"),
    ]

    operations = [
        CreateModel(
            name="AttemptTrace",
            fields=[
                ("id", uuid7()),
                ("project", key("ledger.project")),
                (
                    "attempt",
                    models.OneToOneField("ledger.attempt", models.CASCADE, related_name="+"),
                ),
                ("spans", models.IntegerField(db_default=0, help_text="spans that are stored")),
                (
                    "dropped",
                    models.IntegerField(
                        db_default=0,
                        help_text="spans that were sent beyond the limit and are not stored",
                    ),
                ),
                (
                    "usage",
                    models.JSONField(help_text="tokens and cost that its spans added", null=True),
                ),
                ("updated_at", models.DateTimeField(help_text="when the last spans came")),
            ],
            options={
                "constraints": [
                    check("attempt_trace_counts", Q(spans__gte=0, dropped__gte=0)),
                ],
            },
        ),
        CreateModel(
            name="AttemptSpan",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "attempt_id",
                        "trace_id",
                        "span_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "attempt",
                    key(
                        "ledger.attempt",
                        models.CASCADE,
                        db_constraint=False,
                        related_name="+",
                    ),
                ),
                ("trace_id", models.CharField(max_length=32)),
                ("span_id", models.CharField(max_length=16)),
                ("parent_id", models.CharField(db_default="", max_length=16)),
                ("name", models.CharField(max_length=200)),
                (
                    "kind",
                    models.SmallIntegerField(help_text="as OTLP numbers them: 3 is a client's"),
                ),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField()),
                ("status", models.SmallIntegerField(help_text="0 unset, 1 ok, 2 error")),
                ("message", models.TextField(db_default="", help_text="of the status")),
                (
                    "attributes",
                    models.JSONField(db_default={}, help_text="its own and those of its resource"),
                ),
                ("usage", models.JSONField(help_text="model, tokens and cost", null=True)),
                (
                    "counted",
                    models.BooleanField(
                        db_default=False, help_text="whether its usage counts for the attempt"
                    ),
                ),
            ],
            options={
                "indexes": [
                    index(
                        "attempt_span_usage",
                        "attempt",
                        "parent_id",
                        condition=Q(usage__isnull=False),
                    ),
                ],
            },
        ),
    ]
