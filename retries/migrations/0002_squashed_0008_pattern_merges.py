"""From retry policies to merged patterns; each step is a migration that was squashed."""

from django.conf import settings
from django.db import models
from django.db.migrations import (
    AddConstraint, AddField, AddIndex, CreateModel, RemoveConstraint, RunSQL, swappable_dependency,
)
from django.db.migrations.operations.base import Operation
from django.db.models import F, Index, OrderBy, Q

from ledger.migrations._steps import (
    SquashedMigration, check, index, key, own_key, titled, unique, uuid7,
)

STEPS: dict[str, list[Operation]] = {}
STEPS["0002_questions_exhausted"] = [
    RemoveConstraint("escalation", "escalation_of_agent_is_question"),
    AddConstraint("escalation", check("escalation_of_agent_is_question", Q(asked_in__isnull=True,
        reason__in=("agent_question", "questions_exhausted"), _connector="OR"))),
]
STEPS["0003_retry_policies"] = [
    AddField("grouped", "entities",
        models.JSONField(db_default=[], help_text="what the cause names, such as a module")),
    AddField("grouped", "files_changed", models.IntegerField(
        help_text="number of changed files; null if the agent did not say", null=True)),
    AddField("grouped", "signature", models.CharField(db_default="",
        help_text="hash of the pattern and the entities", max_length=16)),
    CreateModel("RetryPolicy", [
        ("project", own_key("ledger.project")),
        ("ask_at_once", models.CharField(
            choices=[("off", "no tasks"), ("plans", "tasks of plans"), ("all", "all tasks")],
            db_default="plans", default="plans",
            help_text="ask a person at once where credentials or credit are missing",
            max_length=8)),
        ("obey_waits", models.CharField(
            choices=[("off", "no tasks"), ("plans", "tasks of plans"), ("all", "all tasks")],
            db_default="all", default="all",
            help_text="wait as long as a rate limit says, at most 15 minutes", max_length=8)),
        ("ask_on_same_failure", models.CharField(
            choices=[("off", "no tasks"), ("plans", "tasks of plans"), ("all", "all tasks")],
            db_default="off", default="off",
            help_text="ask a person if an error comes back and no file has changed", max_length=8)),
    ], options={"verbose_name_plural": "retry policies", "constraints": [
        check("policy_scopes_known", Q(ask_at_once__in=["off", "plans", "all"],
            ask_on_same_failure__in=["off", "plans", "all"],
            obey_waits__in=["off", "plans", "all"])),
    ]}),
]
STEPS["0004_insight"] = [
    CreateModel("InsightFigure", [
        ("pk", models.CompositePrimaryKey("project_id", "panel", "days", serialize=False)),
        ("panel", models.CharField(max_length=24)),
        ("days", models.SmallIntegerField()),
        ("computed_at", models.DateTimeField()),
        ("data", models.JSONField()),
        ("project", key("ledger.project", models.CASCADE)),
    ]),
    CreateModel("OutcomeRate", [
        ("pk",
            models.CompositePrimaryKey("project_id", "failures", "level", "key", serialize=False)),
        ("failures", models.SmallIntegerField()),
        ("level", models.CharField(max_length=10)),
        ("key", models.CharField(max_length=160)),
        ("tasks", models.IntegerField()),
        ("done", models.IntegerField()),
        ("project", key("ledger.project", models.CASCADE)),
    ]),
    CreateModel("ContextExperiment", [
        ("id", uuid7()),
        ("element", models.CharField(choices=[("standing", "where things stand"),
            ("known", "known errors and fixes"), ("accumulated_learnings", "learnings"),
            ("windows", "the lines around an error"), ("nothing", "nothing (an A/A run)")],
            max_length=24)),
        ("started_at", models.DateTimeField()),
        ("started_by_name", models.CharField(max_length=64)),
        ("start_reason", models.TextField()),
        ("ended_at", models.DateTimeField(null=True)),
        ("ended_by_name", models.CharField(db_default="", max_length=64)),
        ("end_reason", models.TextField(db_default="")),
        ("counted_at", models.DateTimeField(help_text="when the counts were computed", null=True)),
        ("with_attempts", models.IntegerField(db_default=0)),
        ("with_successes", models.IntegerField(db_default=0)),
        ("without_attempts", models.IntegerField(db_default=0)),
        ("without_successes", models.IntegerField(db_default=0)),
        ("project", key("ledger.project")),
    ], options={"indexes": [
        index("experiment_newest", "project", "-started_at"),
    ], "constraints": [
        check("experiment_element_known",
            Q(element__in=["standing", "known", "accumulated_learnings", "windows", "nothing"])),
        unique("experiment_running_once", "project", condition=Q(ended_at=None)),
    ]}),
]
STEPS["0005_notifications"] = [
    CreateModel("QuietHours", [
        ("user", own_key(settings.AUTH_USER_MODEL)),
        ("starts", models.TimeField()),
        ("ends", models.TimeField()),
        ("timezone", models.CharField(max_length=64)),
    ], options={"verbose_name_plural": "quiet hours"}),
    CreateModel("StreamCursor", [
        ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
        ("tx", models.BigIntegerField()),
        ("event_id", models.UUIDField()),
        ("moved_at", models.DateTimeField()),
    ]),
    CreateModel("Channel", [
        ("id", uuid7()),
        ("kind", models.CharField(choices=titled("webhook", "person"), max_length=8)),
        ("name", models.CharField(max_length=64)),
        ("service", models.CharField(help_text="such as Webhook, Email or Slack", max_length=64)),
        ("address", models.TextField(editable=False, help_text="encrypted")),
        ("shown_address",
            models.CharField(help_text="the address without its secrets", max_length=200)),
        ("signing_secrets",
            models.TextField(db_default="", editable=False, help_text="encrypted; of a webhook")),
        ("events", models.JSONField(db_default=[],
            help_text="kinds of events a webhook gets, such as task.*; empty: all")),
        ("include_details", models.BooleanField(db_default=False,
            help_text="send the text of errors, which is untrusted")),
        ("state", models.CharField(choices=titled("active", "failing", "disabled"),
            db_default="active", max_length=8)),
        ("disabled_because", models.CharField(blank=True, choices=[
            ("gone", "the receiver answered 410 Gone"),
            ("gave_up", "a delivery failed at its last try"),
            ("unreadable", "its address can't be decrypted"), ("by_hand", "switched off")],
            db_default="", max_length=12)),
        ("disabled_at", models.DateTimeField(null=True)),
        ("enabled_at", models.DateTimeField(help_text="it gets the events since then")),
        ("failing_since", models.DateTimeField(null=True)),
        ("failures",
            models.IntegerField(db_default=0, help_text="failed tries since the last success")),
        ("resume_at", models.DateTimeField(help_text="no try before then", null=True)),
        ("sending_until",
            models.DateTimeField(help_text="one process sends until then", null=True)),
        ("sender", models.UUIDField(help_text="the run that sends", null=True)),
        ("succeeded_at", models.DateTimeField(null=True)),
        ("last_error", models.CharField(db_default="", max_length=200)),
        ("created_by_type", models.CharField(max_length=12)),
        ("created_by_name", models.CharField(max_length=64)),
        ("created_at", models.DateTimeField()),
        ("updated_at", models.DateTimeField()),
        ("version", models.IntegerField(db_default=1)),
        ("person", models.ForeignKey(blank=True, help_text="whose quiet hours it keeps", null=True,
            on_delete=models.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
        ("project", models.ForeignKey(blank=True, help_text="null: every project", null=True,
            on_delete=models.CASCADE, to="ledger.project")),
    ], options={"indexes": [
        index("channel_project", "project", "id"),
    ], "constraints": [
        unique("channel_name_once", "project", "name", nulls_distinct=False),
        check("channel_known",
            Q(kind__in=["webhook", "person"], state__in=["active", "failing", "disabled"])),
        check("channel_disabled_at", Q(Q(disabled_at__isnull=False, state="disabled"),
            Q(Q(state="disabled", _negated=True), ("disabled_at__isnull", True)), _connector="OR")),
    ]}),
    CreateModel("Delivery", [
        ("id", uuid7()),
        ("message_id", models.CharField(max_length=80)),
        ("kind", models.CharField(help_text="the event's kind, or summary or test", max_length=40)),
        ("role", models.CharField(
            choices=titled("event", "new", "reminder", "update", "second", "summary", "test"),
            max_length=8)),
        ("event_id", models.UUIDField(null=True)),
        ("subject_type", models.CharField(db_default="", max_length=16)),
        ("subject_id", models.UUIDField(null=True)),
        ("agent_id", models.UUIDField(null=True)),
        ("title", models.CharField(db_default="", max_length=200)),
        ("body",
            models.JSONField(help_text="what is sent: a webhook's body, or a message's parts")),
        ("traceparent", models.CharField(db_default="", max_length=55)),
        ("state", models.CharField(choices=titled("pending", "retrying", "delivered", "gave_up",
            "not_sent", "held", "summarized"), max_length=10)),
        ("tries", models.IntegerField(db_default=0)),
        ("next_try_at", models.DateTimeField(null=True)),
        ("held_until", models.DateTimeField(help_text="when the summary is due", null=True)),
        ("first_try_at", models.DateTimeField(null=True)),
        ("delivered_at", models.DateTimeField(null=True)),
        ("latency_ms", models.IntegerField(help_text="of the last try", null=True)),
        ("code",
            models.IntegerField(help_text="the last answer's status; null: no answer", null=True)),
        ("error", models.CharField(db_default="", max_length=200)),
        ("response",
            models.TextField(db_default="", help_text="the first 1 KiB of the last answer")),
        ("created_at", models.DateTimeField()),
        ("channel", key("retries.channel", models.CASCADE)),
        ("project", key("ledger.project", models.CASCADE, null=True)),
        ("summary", models.ForeignKey(help_text="that tells it", null=True,
            on_delete=models.SET_NULL, related_name="summarized", to="retries.delivery")),
    ], options={"verbose_name_plural": "deliveries", "indexes": [
        index("delivery_due", "channel", "next_try_at", "id",
            condition=Q(state__in=("pending", "retrying"))),
        index("delivery_channel", "channel", "id"),
        index("delivery_state", "state", "id"),
        index("delivery_event", "event_id"),
        index("delivery_created", "created_at"),
    ], "constraints": [
        unique("delivery_once", "channel", "message_id"),
        check("delivery_known", Q(
            role__in=["event", "new", "reminder", "update", "second", "summary", "test"],
            state__in=["pending", "retrying", "delivered", "gave_up", "not_sent", "held",
            "summarized"])),
        check("delivery_next_try_at", Q(
            Q(next_try_at__isnull=False, state__in=("pending", "retrying")),
            Q(Q(state__in=("pending", "retrying"), _negated=True), ("next_try_at__isnull", True)),
            _connector="OR")),
    ]}),
    CreateModel("DeliveryTry", [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False,
            verbose_name="ID")),
        ("number", models.IntegerField()),
        ("at", models.DateTimeField()),
        ("latency_ms", models.IntegerField()),
        ("code", models.IntegerField(null=True)),
        ("error", models.CharField(db_default="", max_length=200)),
        ("response", models.TextField(db_default="")),
        ("delivery", key("retries.delivery", models.CASCADE, related_name="each_try")),
    ], options={"verbose_name_plural": "delivery tries", "constraints": [
        unique("delivery_try_once", "delivery", "number"),
    ]}),
    CreateModel("NotificationRule", [
        ("id", uuid7()),
        ("conditions",
            models.JSONField(help_text="such as escalation or agent_silent, or kinds of events")),
        ("severity", models.CharField(blank=True, db_default="",
            help_text="of an escalation; empty: any", max_length=12)),
        ("only_on_change", models.BooleanField(db_default=True,
            help_text="stay silent while the same condition goes on")),
        ("cap_per_hour", models.IntegerField(blank=True,
            help_text="the rest becomes one summary; null: no cap", null=True)),
        ("repeat_s", models.IntegerField(blank=True, help_text="null: never repeated", null=True)),
        ("repeat_until", models.CharField(choices=titled("answered", "taken"),
            db_default="answered", max_length=8)),
        ("quiet_from", models.TimeField(blank=True, null=True)),
        ("quiet_until", models.TimeField(blank=True, null=True)),
        ("timezone", models.CharField(db_default="UTC", max_length=64)),
        ("severe_breaks_quiet", models.BooleanField(db_default=True)),
        ("second_after_s", models.IntegerField(blank=True, null=True)),
        ("enabled", models.BooleanField(db_default=True)),
        ("enabled_at", models.DateTimeField(help_text="it tells of events since then")),
        ("changed_by_name", models.CharField(db_default="", max_length=64)),
        ("created_by_type", models.CharField(max_length=12)),
        ("created_by_name", models.CharField(max_length=64)),
        ("created_at", models.DateTimeField()),
        ("updated_at", models.DateTimeField()),
        ("version", models.IntegerField(db_default=1)),
        ("agent", key("ledger.agent", models.CASCADE, blank=True, help_text="null: every agent",
            null=True)),
        ("channel", models.ForeignKey(on_delete=models.CASCADE, related_name="rules",
            to="retries.channel")),
        ("plan", key("ledger.plan", models.CASCADE, blank=True, help_text="null: every plan",
            null=True)),
        ("project", models.ForeignKey(blank=True, help_text="null: every project", null=True,
            on_delete=models.CASCADE, to="ledger.project")),
        ("second_channel", models.ForeignKey(blank=True, null=True, on_delete=models.SET_NULL,
            related_name="second_of", to="retries.channel")),
    ], options={"indexes": [
        index("notification_rule_project", "project", "id"),
    ], "constraints": [
        check("notification_rule_limits", Q(("repeat_until__in", ["answered", "taken"]),
            Q(("cap_per_hour__isnull", True), ("cap_per_hour__gte", 1), _connector="OR"),
            Q(("repeat_s__isnull", True), ("repeat_s__gte", 60), _connector="OR"),
            Q(("second_after_s__isnull", True), ("second_after_s__gte", 60), _connector="OR"))),
        check("notification_rule_quiet_hours", Q(
            Q(quiet_from__isnull=True, quiet_until__isnull=True),
            Q(quiet_from__isnull=False, quiet_until__isnull=False), _connector="OR")),
    ]}),
    AddField("delivery", "rule", key("retries.notificationrule", models.SET_NULL, null=True)),
    CreateModel("NotificationThread", [
        ("id", uuid7()),
        ("topic", models.CharField(help_text="such as escalation:ID or breaker:ID", max_length=96)),
        ("subject_type", models.CharField(max_length=16)),
        ("subject_id", models.UUIDField()),
        ("title", models.CharField(max_length=200)),
        ("is_open", models.BooleanField(help_text="the condition still holds")),
        ("messages", models.IntegerField(db_default=0)),
        ("opened_at", models.DateTimeField()),
        ("closed_at", models.DateTimeField(null=True)),
        ("repeat_at", models.DateTimeField(null=True)),
        ("second_at", models.DateTimeField(help_text="when the second channel is told", null=True)),
        ("second_told_at", models.DateTimeField(null=True)),
        ("project", key("ledger.project", models.CASCADE)),
        ("rule", key("retries.notificationrule", models.CASCADE)),
    ], options={"indexes": [
        index("notification_thread_repeat", "repeat_at",
            condition=Q(is_open=True, repeat_at__isnull=False)),
        index("notification_thread_second", "second_at",
            condition=Q(is_open=True, second_at__isnull=False)),
        index("notification_thread_subject", "subject_id"),
    ], "constraints": [
        unique("notification_thread_once", "rule", "topic"),
    ]}),
    AddField("delivery", "thread",
        models.ForeignKey(null=True, on_delete=models.SET_NULL, to="retries.notificationthread")),
    AddIndex("delivery", index("delivery_held", "rule", "id", condition=Q(state="held"))),
    AddIndex("delivery", index("delivery_rule", "rule", "created_at")),
]
STEPS["0006_delivery_tallies"] = [
    CreateModel("DeliveryTally", [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False,
            verbose_name="ID")),
        ("event_type", models.CharField(max_length=40)),
        ("status_class", models.CharField(help_text="2xx to 5xx, or none", max_length=5)),
        ("tries", models.BigIntegerField()),
        ("seconds", models.FloatField()),
        ("buckets", models.JSONField(help_text="tries of at most each of TRY_BUCKETS")),
        ("project", key("ledger.project", models.CASCADE, null=True)),
    ], options={"verbose_name_plural": "delivery tallies", "constraints": [
        unique("delivery_tally_once", "project", "event_type", "status_class",
            nulls_distinct=False),
    ]}),
    CreateModel("OngoingCondition", [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False,
            verbose_name="ID")),
        ("condition", models.CharField(max_length=16)),
        ("subject_id", models.UUIDField()),
        ("since", models.DateTimeField()),
        ("project", key("ledger.project", models.CASCADE)),
    ], options={"constraints": [
        unique("ongoing_condition_once", "condition", "subject_id"),
    ]}),
]
STEPS["0007_fixes_and_contexts"] = [
    CreateModel("FixVerdict", [
        ("id", uuid7()),
        ("signature",
            models.CharField(help_text="of the failures that the fix is for", max_length=16)),
        ("fix_key",
            models.CharField(help_text="hash of the fix without case and spacing", max_length=16)),
        ("verdict", models.CharField(choices=titled("promoted", "retired"), max_length=8)),
        ("fix", models.TextField()),
        ("note", models.TextField(db_default="")),
        ("at", models.DateTimeField()),
        ("by_name", models.CharField(max_length=64)),
    ], options={"constraints": [
        check("fix_verdict_known", Q(verdict__in=["promoted", "retired"])),
    ]}),
    CreateModel("StoredContext", [
        ("attempt", own_key("ledger.attempt", related_name="stored_context")),
        ("text", models.TextField()),
        ("signature", models.CharField(db_default="",
            help_text="signature that the fix in it worked for before", max_length=16)),
        ("fix_key",
            models.CharField(db_default="", help_text="the fix in it, if any", max_length=16)),
    ], options={"indexes": [
        index("stored_context_fix", "signature", condition=Q(fix_key="", _negated=True)),
    ]}),
    AddField("grouped", "known_error", models.CharField(
        help_text="name of the known error; empty if there is none", max_length=64, null=True)),
    AddField("retrypolicy", "version",
        models.IntegerField(db_default=1, default=1, editable=False)),
    AddIndex("grouped", index("grouped_signature", "signature", "at")),
    AddField("fixverdict", "pattern", key("retries.failurepattern", models.CASCADE)),
    AddConstraint("fixverdict", unique("fix_verdict_once", "signature", "fix_key", "pattern")),
]
STEPS["0008_pattern_merges"] = [
    AddField("failurepattern", "merged_at", models.DateTimeField(null=True)),
    AddField("failurepattern", "merged_into",
        key("retries.failurepattern", null=True, related_name="merged")),
    AddField("failurepattern", "own_template", models.TextField(db_default="",
        help_text="the template before others were merged into the pattern")),
    AddField("failurepattern", "shape", models.SmallIntegerField(db_default=0,
        help_text="number of words of the template; 0 if it is not compared")),
    AddIndex("failurepattern", Index(F("project"), F("shape"),
        OrderBy(F("last_seen"), descending=True), condition=Q(merged_into=None),
        name="pattern_shape")),
    AddIndex("failurepattern", index("pattern_merged", "merged_into", "merged_at",
        condition=Q(merged_into__isnull=False))),
    RunSQL(
        """update retries_failurepattern set shape = n
        from (select id, array_length(string_to_array(template, ' '), 1) as n
            from retries_failurepattern) counted
        where counted.id = retries_failurepattern.id and n <= 60""",
        RunSQL.noop,
    ),
]


class Migration(SquashedMigration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("ledger", "0021_squashed_0043_agent_waits_in_row"),
        ("retries", "0001_initial"),
        swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    replaces = [("retries", name) for name in STEPS]
    steps = STEPS
