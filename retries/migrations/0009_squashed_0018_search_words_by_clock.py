"""From metrics to search words by the clock; each step is a migration that was squashed."""

from importlib import import_module

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.migrations import (
    AddField, AddIndex, CreateModel, RunSQL,
)
from django.db.migrations.operations.base import Operation
from django.db.models import F, Q
from django.db.models.expressions import CombinedExpression

from ledger.migrations._steps import (
    SquashedMigration, check, index, key, own_key, titled, unique, uuid7,
)

STEPS: dict[str, list[Operation]] = {}
STEPS["0009_metric_totals"] = [
    CreateModel("MetricTotal", [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False,
            verbose_name="ID")),
        ("metric", models.CharField(max_length=48)),
        ("labels", models.JSONField(help_text="values by label")),
        ("bucket", models.FloatField(help_text="upper edge of the bucket; 0 for a counter")),
        ("count", models.BigIntegerField()),
        ("sum", models.FloatField(help_text="sum of the values in this bucket; 0 for a counter")),
        ("project", key("ledger.project", models.CASCADE)),
    ], options={"constraints": [
        unique("metric_total_once", "project", "metric", "labels", "bucket"),
    ]}),
]
STEPS["0010_escalation_seen"] = [
    AddField("escalation", "seen_at",
        models.DateTimeField(help_text="when a person first opened its page", null=True)),
]
STEPS["0011_ack_target"] = [
    CreateModel("AckTarget", [
        ("agent", own_key("ledger.agent", related_name="ack_target")),
        ("percent", models.SmallIntegerField()),
        ("within_s", models.IntegerField()),
        ("set_at", models.DateTimeField()),
        ("set_by_name", models.CharField(max_length=64)),
    ], options={"constraints": [
        check("ack_target_possible", Q(percent__gte=1, percent__lte=99, within_s__gte=1)),
    ]}),
]
STEPS["0012_activity_count"] = [
    CreateModel("ActivityCount", [
        ("pk", models.CompositePrimaryKey("minutes", "at", "agent_id", serialize=False)),
        ("minutes", models.SmallIntegerField(help_text="length of the slot")),
        ("at", models.DateTimeField()),
        ("attempts", models.IntegerField(help_text="attempts that ended")),
        ("attempts_failed", models.IntegerField()),
        ("busy_s", models.FloatField(help_text="seconds of the attempts that ended")),
        ("tasks_done", models.IntegerField()),
        ("tasks_done_first", models.IntegerField(help_text="done by the first attempt")),
        ("tasks_failed", models.IntegerField()),
        ("tasks_escalated", models.IntegerField()),
        ("finished_attempts",
            models.IntegerField(help_text="attempts of the tasks done or failed")),
        ("sent", models.IntegerField(help_text="tracked instructions")),
        ("acknowledged_first", models.IntegerField(help_text="without a reminder")),
        ("acknowledged_later", models.IntegerField()),
        ("given_up", models.IntegerField()),
        ("agent", key("ledger.agent", db_constraint=False)),
        ("project", key("ledger.project", db_constraint=False)),
    ]),
    CreateModel("DurationCount", [
        ("pk", models.CompositePrimaryKey("minutes", "at", "project_id", "measure", "step",
            serialize=False)),
        ("minutes", models.SmallIntegerField(help_text="length of the slot")),
        ("at", models.DateTimeField()),
        ("measure", models.CharField(help_text="ack or answer", max_length=8)),
        ("step", models.SmallIntegerField()),
        ("count", models.IntegerField()),
        ("project", key("ledger.project", db_constraint=False)),
    ]),
]
STEPS["0013_escalation_snooze"] = [
    AddField("escalation", "snoozed_by_name", models.CharField(db_default="", max_length=64)),
    AddField("escalation", "snoozed_until", models.DateTimeField(
        help_text="an open escalation is out of the inbox until then", null=True)),
    AddIndex("escalation", index("escalation_counted", "project", "id", condition=Q(state="open"),
        include=("snoozed_until",))),
    AddIndex("escalation", index("escalation_snoozed", "snoozed_until",
        condition=Q(snoozed_until__isnull=False, state="open"))),
]
STEPS["0014_operation"] = [
    CreateModel("Operation", [
        ("id", uuid7()),
        ("verb", models.CharField(help_text="such as task.retry", max_length=40)),
        ("noun", models.CharField(help_text="what the rows are, such as task", max_length=16)),
        ("options", models.JSONField(db_default={}, help_text="arguments of the verb")),
        ("query",
            models.TextField(db_default="", help_text="the filter that chose the rows, if any")),
        ("reason", models.TextField(db_default="")),
        ("project_ids", ArrayField(base_field=models.UUIDField(), size=None)),
        ("state", models.CharField(
            choices=titled("waiting", "running", "done", "stopped", "undone"), db_default="waiting",
            max_length=8)),
        ("matching", models.IntegerField(help_text="rows that the person chose")),
        ("total", models.IntegerField(help_text="those of them that the verb could change")),
        ("changed", models.IntegerField(db_default=0)),
        ("refused", models.IntegerField(db_default=0)),
        ("counted_at", models.DateTimeField(help_text="later rows are not part of it")),
        ("starts_at", models.DateTimeField(help_text="it can be undone before")),
        ("started_at", models.DateTimeField(null=True)),
        ("ended_at", models.DateTimeField(null=True)),
        ("ended_by_name",
            models.CharField(db_default="", help_text="who stopped or undid it", max_length=64)),
        ("ended_because", models.TextField(db_default="", help_text="why Tenfour stopped it")),
        ("lease_until", models.DateTimeField(help_text="a worker holds it until then", null=True)),
        ("actor_type", models.CharField(max_length=12)),
        ("actor_id", models.CharField(max_length=64)),
        ("actor_name", models.CharField(max_length=64)),
        ("request_id", models.CharField(max_length=64)),
    ], options={"indexes": [
        index("operation_under_way", "starts_at", condition=Q(state__in=["waiting", "running"])),
    ], "constraints": [
        check("operation_state_known",
            Q(state__in=["waiting", "running", "done", "stopped", "undone"])),
        check("operation_counts", Q(changed__gte=0, refused__gte=0,
            total__gte=CombinedExpression(F("changed"), "+", F("refused")))),
    ]}),
    CreateModel("OperationItem", [
        ("id", uuid7()),
        ("subject_id", models.UUIDField()),
        ("state", models.CharField(choices=titled("pending", "changed", "refused"),
            db_default="pending", max_length=8)),
        ("refusal", models.CharField(db_default="",
            help_text="why it was left as it is, in a few words", max_length=80)),
        ("detail", models.TextField(db_default="")),
        ("at", models.DateTimeField(null=True)),
        ("operation", key("retries.operation", models.CASCADE, related_name="items")),
    ], options={"indexes": [
        index("operation_item_list", "operation", "state", "refusal", "id"),
    ], "constraints": [
        unique("operation_item_once", "operation", "subject_id"),
        check("operation_item_state_known", Q(state__in=["pending", "changed", "refused"])),
        check("operation_item_refusal", Q(("state", "refused"), ("refusal", ""), _connector="OR")),
    ]}),
]
STEPS["0015_delivery_receipt"] = [
    AddField("delivery", "receipt", models.CharField(db_default="",
        help_text="the service's own ids of what it showed", max_length=400)),
]
STEPS["0016_delivery_redelivered_at"] = [
    AddField("delivery", "redelivered_at", models.DateTimeField(
        help_text="when a person or a program last had it sent once more", null=True)),
    AddIndex("delivery", index("delivery_redelivered", "redelivered_at", "state",
        condition=Q(redelivered_at__isnull=False))),
]
STEPS["0017_past_failures"] = [
    CreateModel("PastFailures", [
        ("pk", models.CompositePrimaryKey("pattern_id", "agent_id", serialize=False)),
        ("agent", key("ledger.agent")),
        ("pattern", key("retries.failurepattern", models.CASCADE, related_name="past")),
        ("failures", models.IntegerField()),
        ("last_at", models.DateTimeField()),
        ("retried", models.IntegerField(help_text="failures that a retry without a fix followed")),
        ("worked", models.IntegerField(help_text="those of the retries that succeeded")),
    ], options={"verbose_name_plural": "past failures", "constraints": [
        check("past_failures_counts", Q(failures__gte=1, retried__gte=0, worked__gte=0)),
    ]}),
    CreateModel("PastFixTry", [
        ("id", uuid7()),
        ("pattern", key("retries.failurepattern", models.CASCADE)),
        ("signature", models.CharField(max_length=16)),
        ("fix_key",
            models.CharField(help_text="hash of the fix without case and spacing", max_length=16)),
        ("entities", models.JSONField(db_default=[])),
        ("fix", models.TextField(db_default="", help_text="empty: Tenfour told the attempt of it")),
        ("closed_at", models.DateTimeField(help_text="when a person gave the fix", null=True)),
        ("answered_by_name", models.CharField(db_default="", max_length=64)),
        ("outcome", models.CharField(max_length=12)),
        ("ended_at", models.DateTimeField()),
    ], options={"verbose_name_plural": "past fix tries", "indexes": [
        index("past_fix_try_pattern", "pattern", "signature"),
    ], "constraints": [
        check("past_fix_try_given_or_told", Q(Q(closed_at=None, fix=""),
            Q(Q(fix="", _negated=True), ("closed_at__isnull", False)), _connector="OR")),
    ]}),
    AddIndex("escalation",
        index("escalation_asked_in", "asked_in", condition=Q(asked_in__isnull=False))),
    AddIndex("escalation",
        index("escalation_resent_as", "resent_as", condition=Q(resent_as__isnull=False))),
]

# The clock writes the words of new tasks and instructions, because triggers slowed every insert. It
# begins with the events of transactions that run now. The words of older rows follow, without a
# lock. A database between the two steps of search words has the triggers.
CLOCK = """
drop trigger if exists ledger_task_words_added on ledger_task;
drop trigger if exists ledger_instruction_words_added on ledger_instruction;
drop function if exists ledger_add_task_words();
drop function if exists ledger_add_instruction_words();
insert into retries_streamcursor (name, tx, event_id, moved_at)
select 'search_words', pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    '00000000-0000-0000-0000-000000000000', now()
on conflict do nothing;
""" + import_module("ledger.migrations.0003_squashed_0020_retention").CHANGE_WORDS
WORDS = """
insert into ledger_taskwords (task_id, words)
select id, ledger_words(ledger_task_text(title, type, ref)) from ledger_task t
where not exists (select from ledger_taskwords w where w.task_id = t.id)
on conflict do nothing;
insert into ledger_instructionwords (instruction_id, words)
select id, ledger_words(content) from ledger_instruction i
where not exists (select from ledger_instructionwords w where w.instruction_id = i.id)
on conflict do nothing;
"""
STEPS["0018_search_words_by_clock"] = [
    RunSQL(CLOCK, "delete from retries_streamcursor where name = 'search_words'"),
    RunSQL(WORDS, RunSQL.noop),
]


class Migration(SquashedMigration):
    dependencies = [("retries", "0002_squashed_0008_pattern_merges")]
    replaces = [("retries", name) for name in STEPS]
    steps = STEPS
    not_atomic = {"0018_search_words_by_clock"}
