"""From standing instructions to retention; each step is a migration that was squashed."""

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.migrations import (
    AddConstraint, AddField, AddIndex, AlterField, CreateModel, RemoveIndex, RunSQL,
    swappable_dependency,
)
from django.db.migrations.operations.base import Operation
from django.db.models import F, Index, OrderBy, Q
from django.db.models.functions import Now

from ledger.migrations._steps import (
    SquashedMigration, check, index, key, own_key, titled, unique, uuid7,
)

STEPS: dict[str, list[Operation]] = {}
STEPS["0003_event_truncate"] = [
    RunSQL(
        "create trigger ledger_event_no_truncate before truncate on ledger_event "
        "for each statement execute function ledger_event_guard()",
        "drop trigger ledger_event_no_truncate on ledger_event",
    ),
]
STEPS["0004_instruction_task"] = [
    AddField("instruction", "task", key("ledger.task", null=True)),
]
STEPS["0005_standing_instruction"] = [
    AddField("instruction", "holds", models.SmallIntegerField(
        help_text="how often it kept its agent from stopping; null: it never does", null=True)),
    AddField("instruction", "once_key",
        models.CharField(editable=False, max_length=160, null=True)),
    AddField("instruction", "trigger",
        models.JSONField(help_text="what made its rule send it", null=True)),
    CreateModel("StandingInstruction", [
        ("id", uuid7()),
        ("event", models.CharField(
            choices=titled("signal", "session_start", "task_claimed", "every"), max_length=16)),
        ("signal_type", models.CharField(max_length=64, null=True)),
        ("match", models.JSONField(db_default={})),
        ("match_exact", models.JSONField(db_default={}, editable=False)),
        ("path_pattern", models.TextField(editable=False,
            help_text="the glob as a regular expression", null=True)),
        ("task_type", models.CharField(max_length=64, null=True)),
        ("interval_s", models.IntegerField(null=True)),
        ("content", models.TextField()),
        ("expect_type", models.CharField(max_length=64, null=True)),
        ("expect_match", models.JSONField(null=True)),
        ("max_retries", models.SmallIntegerField()),
        ("on_failed", models.CharField(choices=titled("record", "escalate"), max_length=8)),
        ("once_per",
            models.CharField(choices=titled("trigger", "session", "attempt", "day"), max_length=8)),
        ("hold_stop",
            models.BooleanField(help_text="the agent can't stop while its instruction is open")),
        ("paused", models.BooleanField()),
        ("activated_at", models.DateTimeField(help_text="when it was last switched on", null=True)),
        ("retired_at", models.DateTimeField(null=True)),
        ("version", models.IntegerField(db_default=1)),
        ("created_by_type", models.CharField(max_length=12)),
        ("created_by_name", models.CharField(max_length=64)),
        ("created_at", models.DateTimeField()),
        ("updated_at", models.DateTimeField()),
        ("agent", key("ledger.agent", help_text="null: every agent", null=True)),
        ("plan", key("ledger.plan", null=True)),
        ("project", key("ledger.project")),
    ], options={"indexes": [
        index("rule_project", "project", "id"),
        index("rule_of_signal", "project", "signal_type",
            condition=Q(paused=False, signal_type__isnull=False)),
        index("rule_of_claim", "project", condition=Q(event="task_claimed", paused=False)),
        index("rule_of_clock", "project", condition=Q(event="every", paused=False)),
    ], "constraints": [
        check("rule_event_known", "event ~ '^(signal|session_start|task_claimed|every)$'"),
        check("rule_once_per_known", "once_per ~ '^(trigger|session|attempt|day)$'"),
        check("rule_on_failed_known", "on_failed ~ '^(record|escalate)$'"),
        check("rule_retries_in_range", "max_retries >= 0 and max_retries <= 20"),
        check("rule_signal_has_type",
            "(event in ('signal', 'session_start')) = (signal_type is not null)"),
        check("rule_every_has_interval", "(event = 'every') = (interval_s is not null)"),
        check("rule_active_was_activated", "paused or activated_at is not null"),
        check("rule_retired_is_paused", "paused or retired_at is null"),
    ]}),
    AddField("instruction", "rule", key("ledger.standinginstruction",
        help_text="the standing instruction that sent it", null=True)),
    AddIndex("instruction",
        index("instruction_rule", "rule", "id", condition=Q(rule__isnull=False))),
    AddIndex("instruction",
        index("instruction_rule_agent", "rule", "agent", "id", condition=Q(rule__isnull=False))),
    AddIndex("instruction", index("instruction_holding", "agent",
        condition=Q(holds__isnull=False, state__in=("queued", "delivered"), tracked=True))),
    AddConstraint("instruction", unique("instruction_of_rule_once", "rule", "agent", "once_key",
        condition=Q(once_key__isnull=False))),
]
STEPS["0006_attempt_session_index"] = [
    AddIndex("attempt",
        index("attempt_session", "worker_id", "id", condition=Q(worker_id__startswith="session:"))),
]
STEPS["0007_daily_task_count"] = [
    CreateModel("DailyTaskCount", [
        ("agent", own_key("ledger.agent")),
        ("day", models.DateField()),
        ("tasks", models.IntegerField()),
    ]),
]
STEPS["0008_token_first_call"] = [
    AddField("token", "first_used_at", models.DateTimeField(editable=False, null=True)),
    AddField("token", "first_call", models.JSONField(editable=False,
        help_text="what the first call was and where it came from", null=True)),
    AddField("token", "first_hook", models.JSONField(editable=False,
        help_text="the first event of a coding agent's session", null=True)),
]
STEPS["0009_attempt_last_output"] = [
    AddField("attempt", "last_output",
        models.TextField(db_default="", help_text="last lines, sent with heartbeats")),
]
STEPS["0010_insight"] = [
    AddIndex("attempt", index("attempt_in_experiment", "context_variant", "started_at",
        condition=Q(context_variant__startswith="with"))),
]
STEPS["0011_session"] = [
    CreateModel("Session", [
        ("id", uuid7()),
        ("external_id", models.CharField(help_text="the caller's own name of the session",
            max_length=200, null=True)),
        ("title",
            models.CharField(db_default="", help_text="start of the first prompt", max_length=160)),
        ("tracker", models.CharField(choices=titled("todo", "llm", "none"), max_length=4)),
        ("disable_task_tracking", models.BooleanField(db_default=False,
            help_text="messages are stored and never processed")),
        ("metadata", models.JSONField(db_default={})),
        ("preferences",
            models.JSONField(db_default=[], help_text="what the user wants, in a tracker's words")),
        ("message_count", models.IntegerField(db_default=0)),
        ("pending_count", models.IntegerField(db_default=0)),
        ("running_count", models.IntegerField(db_default=0)),
        ("success_count", models.IntegerField(db_default=0)),
        ("failed_count", models.IntegerField(db_default=0)),
        ("task_count", models.IntegerField(db_default=0)),
        ("task_running_count", models.IntegerField(db_default=0)),
        ("task_success_count", models.IntegerField(db_default=0)),
        ("task_failed_count", models.IntegerField(db_default=0)),
        ("last_message_at", models.DateTimeField(help_text="or when the session was created")),
        ("last_outcome",
            models.CharField(help_text="outcome of the last batch", max_length=8, null=True)),
        ("lock_token", models.UUIDField(editable=False, null=True)),
        ("lock_until", models.DateTimeField(editable=False, null=True)),
        ("version", models.IntegerField(db_default=1)),
        ("created_at", models.DateTimeField()),
        ("updated_at", models.DateTimeField()),
        ("agent", key("ledger.agent", db_constraint=False)),
        ("project", key("ledger.project", db_constraint=False)),
    ], options={"indexes": [
        index("session_project", "project", "id"),
        index("session_agent", "agent", "id"),
        Index(F("project"), OrderBy(F("last_message_at"), descending=True),
            OrderBy(F("id"), descending=True), name="session_activity"),
        index("session_unprocessed", "last_message_at",
            condition=Q(pending_count__gt=0, running_count__gt=0, _connector="OR")),
    ], "constraints": [
        check("session_tracker_known", "tracker ~ '^(todo|llm|none)$'"),
        check("session_counts_positive",
            "least(pending_count, running_count, success_count, failed_count, task_count, "
            "task_running_count, task_success_count, task_failed_count, message_count - "
            "pending_count - running_count - success_count - failed_count) >= 0"),
        check("session_lock_has_end", "(lock_token is null) = (lock_until is null)"),
        unique("session_external_id_once", "agent", "external_id",
            condition=Q(external_id__isnull=False)),
    ]}),
    CreateModel("SessionBatch", [
        ("id", uuid7()),
        ("tracker", models.CharField(choices=titled("todo", "llm", "none"), max_length=4)),
        ("first_order", models.IntegerField(help_text="order of its first message")),
        ("last_order", models.IntegerField()),
        ("message_count", models.IntegerField()),
        ("outcome",
            models.CharField(choices=titled("success", "failed", "lost"), max_length=8, null=True)),
        ("reason", models.TextField(db_default="", help_text="why it failed")),
        ("responses",
            models.IntegerField(db_default=0, help_text="model responses that took effect")),
        ("calls", models.IntegerField(db_default=0, help_text="ledger tool calls in them")),
        ("started_at", models.DateTimeField()),
        ("ended_at", models.DateTimeField(null=True)),
        ("session", models.ForeignKey(on_delete=models.CASCADE, related_name="batch_set",
            to="ledger.session")),
    ], options={"constraints": [
        check("session_batch_outcome_has_ended_at",
            "(outcome is null) = (ended_at is null) and outcome ~ '^(success|failed|lost)$'"),
        unique("session_batch_live_once", "session", condition=Q(outcome=None)),
    ]}),
    CreateModel("SessionTask", [
        ("id", uuid7()),
        ("order", models.IntegerField(help_text="position in the session's list, from 1")),
        ("description", models.TextField()),
        ("progress", models.JSONField(db_default=[], help_text="notes, oldest first")),
        ("state", models.CharField(choices=titled("pending", "running", "success", "failed"),
            db_default="pending", max_length=8)),
        ("version", models.IntegerField(db_default=1)),
        ("created_at", models.DateTimeField()),
        ("updated_at", models.DateTimeField()),
        ("session", key("ledger.session", models.CASCADE, related_name="task_set")),
        ("task", models.ForeignKey(
            help_text="the task that a person or a producer made of it or linked to it", null=True,
            on_delete=models.SET_NULL, related_name="session_task_set", to="ledger.task")),
    ], options={"constraints": [
        check("session_task_state_known", "state ~ '^(pending|running|success|failed)$'"),
        check("session_task_order_positive", '"order" >= 1'),
        unique("session_task_order_once", "session", "order",
            deferrable=models.Deferrable["DEFERRED"]),
    ]}),
    CreateModel("Message", [
        ("id", uuid7()),
        ("order", models.IntegerField(help_text="position in the session, from 1")),
        ("role", models.CharField(max_length=9)),
        ("content", models.JSONField()),
        ("state", models.CharField(
            choices=titled("pending", "running", "success", "failed", "disabled"), max_length=8)),
        ("digest", models.BinaryField(help_text="identifies an imported message", max_length=32,
            null=True)),
        ("redactions",
            models.JSONField(db_default={}, help_text="number of masked secrets by kind")),
        ("recoveries", models.SmallIntegerField(db_default=0,
            help_text="how often a lost worker's batch returned it to the buffer")),
        ("planning", models.BooleanField(db_default=False,
            help_text="about the plan as a whole rather than one task")),
        ("sent_at", models.DateTimeField(help_text="when it was said, or else stored")),
        ("created_at", models.DateTimeField()),
        ("attempt", key("ledger.attempt", models.SET_NULL, db_constraint=False, null=True)),
        ("session", key("ledger.session", models.CASCADE, related_name="message_set")),
        ("batch",
            key("ledger.sessionbatch", models.SET_NULL, null=True, related_name="message_set")),
        ("session_task",
            key("ledger.sessiontask", models.SET_NULL, null=True, related_name="message_set")),
    ], options={"indexes": [
        index("message_unprocessed", "session", "order",
            condition=Q(state__in=("pending", "running"))),
        index("message_task", "session_task", "order", condition=Q(session_task__isnull=False)),
        index("message_batch", "batch", "order", condition=Q(batch__isnull=False)),
        index("message_attempt", "attempt", "session", "order", condition=Q(attempt__isnull=False)),
    ], "constraints": [
        check("message_state_known", "state ~ '^(pending|running|success|failed|disabled)$'"),
        check("message_task_or_planning", "not (planning and session_task_id is not null)"),
        unique("message_order_once", "session", "order"),
        unique("message_digest_once", "session", "digest", condition=Q(digest__isnull=False)),
    ]}),
]
STEPS["0012_session_attempt"] = [
    AddIndex("message",
        index("message_linked", "session", "order", condition=Q(attempt__isnull=False))),
]
STEPS["0013_session_hot"] = [
    RemoveIndex(model_name="session", name="session_unprocessed"),
    AlterField("message", "session",
        key("ledger.session", models.CASCADE, db_constraint=False, related_name="message_set")),
]
STEPS["0014_person"] = [
    CreateModel("Preference", [
        ("user", own_key(settings.AUTH_USER_MODEL)),
        ("theme", models.CharField(choices=titled("system", "light", "dark"), db_default="system",
            max_length=6)),
        ("time_zone", models.CharField(blank=True, db_default="",
            help_text="empty: that of the browser", max_length=64)),
    ]),
    CreateModel("SignIn", [
        ("id", uuid7()),
        ("session_key", models.CharField(editable=False, max_length=40, unique=True)),
        ("method", models.CharField(choices=titled("password", "single_sign_on"), max_length=14)),
        ("address", models.CharField(max_length=45)),
        ("user_agent", models.CharField(blank=True, max_length=300)),
        ("signed_in_at", models.DateTimeField(db_default=Now(), editable=False)),
        ("last_seen_at", models.DateTimeField(db_default=Now(), editable=False)),
        ("user", models.ForeignKey(on_delete=models.CASCADE, related_name="sign_ins",
            to=settings.AUTH_USER_MODEL)),
    ]),
    CreateModel("Invitation", [
        ("id", uuid7()),
        ("role", models.CharField(choices=titled("viewer", "operator", "admin"), max_length=8)),
        ("email", models.EmailField(blank=True, db_default="",
            help_text="empty: anyone with the link", max_length=254)),
        ("digest", models.BinaryField(max_length=32, unique=True)),
        ("created_by", models.CharField(max_length=150)),
        ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
        ("expires_at", models.DateTimeField()),
        ("accepted_at", models.DateTimeField(editable=False, null=True)),
        ("revoked_at", models.DateTimeField(editable=False, null=True)),
        ("accepted_by", models.ForeignKey(editable=False, null=True, on_delete=models.SET_NULL,
            related_name="+", to=settings.AUTH_USER_MODEL)),
        ("project", models.ForeignKey(on_delete=models.CASCADE, to="ledger.project")),
    ], options={"constraints": [
        check("invitation_role_known", Q(role__in=["viewer", "operator", "admin"])),
    ]}),
    CreateModel("Membership", [
        ("id", uuid7()),
        ("role", models.CharField(choices=titled("viewer", "operator", "admin"), max_length=8)),
        ("group", models.CharField(blank=True, db_default="",
            help_text="the group at the identity provider that gave the role; or empty",
            max_length=200)),
        ("added_by", models.CharField(max_length=150)),
        ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
        ("project", models.ForeignKey(on_delete=models.CASCADE, to="ledger.project")),
        ("user", key(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")),
    ], options={"constraints": [
        unique("membership_unique", "user", "project"),
        check("membership_role_known", Q(role__in=["viewer", "operator", "admin"])),
    ]}),
]
STEPS["0015_session_latest"] = [
    AddIndex("session", Index(OrderBy(F("last_message_at"), descending=True),
        OrderBy(F("id"), descending=True), name="session_latest")),
]
STEPS["0016_instruction_delivered_to"] = [
    AddField("instruction", "delivered_to", models.CharField(
        help_text="external id of the session that got it last", max_length=200, null=True)),
]

# like ledger/search_words.py, which splits what is searched
FUNCTIONS = """
create function ledger_words(text) returns tsvector language sql immutable parallel safe as $$
    select to_tsvector('simple', regexp_replace(left($1, 4000), '[^[:alnum:]]+', ' ', 'g'))
$$;
create function ledger_failure_words(text, text, text) returns tsvector
    language sql immutable parallel safe
    -- resolved now: an index is built without a search path
    return ledger_words($1 || ' ' || $2 || ' ' || $3);
create function ledger_task_text(title text, type text, ref text) returns text
    language sql immutable parallel safe as $$
    select title || ' ' || type || ' ' || coalesce(ref, '')
$$;
"""
CHANGE_WORDS = """
create or replace function ledger_change_task_words() returns trigger language plpgsql as $$
begin
    insert into ledger_taskwords (task_id, words)
    values (new.id, ledger_words(ledger_task_text(new.title, new.type, new.ref)))
    on conflict (task_id) do update set words = excluded.words;
    return null;
end $$;
"""
TRIGGER = """
create trigger ledger_task_words_changed after update of title, type, ref on ledger_task
    for each row
    when ((old.title, old.type, old.ref) is distinct from (new.title, new.type, new.ref))
    execute function ledger_change_task_words();
"""
NO_TRIGGER = """
drop trigger ledger_task_words_changed on ledger_task;
drop function ledger_change_task_words();
"""
NO_FUNCTIONS = """
drop function ledger_failure_words(text, text, text);
drop function ledger_words(text);
drop function ledger_task_text(text, text, text);
"""
STEPS["0017_search_words"] = [
    RunSQL(FUNCTIONS, NO_FUNCTIONS),
    CreateModel("InstructionWords", [
        ("instruction",
            own_key("ledger.instruction", db_constraint=False, related_name="search_words")),
        ("words", SearchVectorField()),
    ]),
    CreateModel("TaskWords", [
        ("task", own_key("ledger.task", db_constraint=False, related_name="search_words")),
        ("words", SearchVectorField()),
    ]),
    AddIndex("failure", GinIndex(
        models.Func("type", "code", "message", function="ledger_failure_words"),
        name="failure_words")),
    AddIndex("instructionwords", GinIndex(fields=["words"], name="instruction_words")),
    AddIndex("taskwords", GinIndex(fields=["words"], name="task_words")),
    RunSQL(CHANGE_WORDS + TRIGGER, NO_TRIGGER),
]
STEPS["0018_search_words_backfill"] = []  # retries' 0018 adds the words of the rows of before
STEPS["0019_event_people"] = [
    AddIndex("event", index("event_people", "id", condition=Q(actor_type="user"))),
]

# Only the deletion of a whole project sets it, for one transaction.
GUARD = """
create or replace function ledger_event_guard() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        if old.project_id::text = current_setting('tenfour.deleted_project', true) then
            return old;
        end if;
    end if;
    raise exception 'The journal is append-only: events cannot be changed or deleted.'
        using errcode = 'restrict_violation';
end $$;
"""
STEPS["0020_retention"] = [
    RunSQL(GUARD, RunSQL.noop),
    AddIndex("deadletter",
        index("dead_letter_replayed_as", "replayed_as", condition=Q(replayed_as__isnull=False))),
    AddIndex("instruction", index("instruction_task", "task", condition=Q(task__isnull=False))),
    AddIndex("instruction",
        index("instruction_resend_of", "resend_of", condition=Q(resend_of__isnull=False))),
    AddIndex("task", index("task_replay_of", "replay_of", condition=Q(replay_of__isnull=False))),
    AddIndex("task",
        index("task_replaced_by", "replaced_by", condition=Q(replaced_by__isnull=False))),
    AddIndex("task", index("task_carries", "carries", condition=Q(carries__isnull=False))),
]


class Migration(SquashedMigration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("ledger", "0002_database"),
        swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    replaces = [("ledger", name) for name in STEPS]
    steps = STEPS
