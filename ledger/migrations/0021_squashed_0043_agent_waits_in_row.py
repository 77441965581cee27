"""From saved views to waits in a row; each step is a migration that was squashed."""

from typing import Any

from django.db import models
from django.db.migrations import (
    AddConstraint, AddField, AddIndex, AlterField, CreateModel, RemoveConstraint, RunPython, RunSQL,
    SeparateDatabaseAndState,
)
from django.db.migrations.operations.base import Operation
from django.db.models import Q
from django.db.models.functions import Now

from ledger.migrations._journal_index import build_index, run_soon
from ledger.migrations._steps import (
    SquashedMigration, build_beside_writers, check, index, key, titled, unique, uuid7,
)
from ledger.models.fields import IsTrue

STEPS: dict[str, list[Operation]] = {}
STEPS["0021_saved_view"] = [
    CreateModel("SavedView", [
        ("id", uuid7()),
        ("list",
            models.CharField(help_text="the list that it filters, such as tasks", max_length=16)),
        ("name", models.CharField(max_length=40)),
        ("query", models.CharField(blank=True, max_length=300)),
        ("sort", models.CharField(blank=True, db_default="", max_length=20)),
        ("created_by", models.CharField(max_length=150)),
        ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
        ("project", key("ledger.project", models.CASCADE)),
    ], options={"constraints": [
        unique("saved_view_name_once", "project", "list", "name"),
    ]}),
]

# The journal is partitioned by month on its id, which begins with its creation time. The existing
# table becomes the first partition as it is: no row is written again. It holds all events until the
# end of the next month. `ledger.journal_months` adds the months that follow. Each operation
# commits: the scan of the existing table takes no lock that stops moves. All can run again after
# one that failed.

# Statements bound the ids of events with these. Their bodies are immutable, so that PostgreSQL can
# choose partitions when it plans a statement.
FLOORS = """
create or replace function ledger_event_floor(at timestamptz, slack interval default '0')
    returns uuid language sql immutable parallel safe as $$
select (lpad(to_hex(greatest(0, floor(extract(epoch from
    coalesce(at, timestamptz '1970-01-01 00:00+00') at time zone 'UTC' - slack) * 1000))::bigint),
    12, '0') || repeat('0', 20))::uuid
$$;
comment on function ledger_event_floor is
    'the lowest id of events since a time; of all events where the time is not known';
"""

# Settings of storage, and triggers on TRUNCATE, hold for one partition only.
ADD_PARTITION = """
create or replace function ledger_event_add_partition(name text, low uuid, high uuid)
    returns void language plpgsql as $$
begin
    execute format('create table %I (like ledger_event including all) with (
        autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 2000,
        autovacuum_analyze_threshold = 2000)', name);
    execute format('create trigger ledger_event_no_truncate before truncate on %I
        for each statement execute function ledger_event_guard()', name);
    execute format('alter table ledger_event attach partition %I for values from (%s) to (%s)',
        name, coalesce(quote_literal(low), 'minvalue'), coalesce(quote_literal(high), 'maxvalue'));
end $$;
"""

# A check that is valid already lets the table become a partition without another scan of it.
BOUND = """
do $$
declare
    newest timestamptz := (
        select uuid_extract_timestamp(id) from ledger_event order by id desc limit 1);
    high uuid := ledger_event_floor(
        (date_trunc('month', greatest(now(), newest) at time zone 'UTC') + interval '2 months')
        at time zone 'UTC');
begin
    if exists (select from pg_partitioned_table where partrelid = 'ledger_event'::regclass) then
        return;
    end if;
    alter table ledger_event drop constraint if exists ledger_event_bound,
        drop constraint if exists ledger_event_version;
    alter table ledger_event add constraint ledger_event_version
        check (uuid_extract_version(id) = 7) not valid;
    execute format('alter table ledger_event add constraint ledger_event_bound
        check (id < %L) not valid', high);
end $$
"""
VALIDATE = """
do $$
begin
    if not exists (select from pg_partitioned_table where partrelid = 'ledger_event'::regclass) then
        alter table ledger_event validate constraint ledger_event_version,
            validate constraint ledger_event_bound;
    end if;
end $$
"""
PARTS = """
    create index event_stream on ledger_event (tx, id);
    create index event_subject on ledger_event (subject_id, id);
    create index event_people on ledger_event (id) where actor_type = 'user';
    create index event_at on ledger_event using brin (at)
        with (pages_per_range = 32, autosummarize = on);
    create trigger ledger_event_append_only before update or delete on ledger_event
        for each row execute function ledger_event_guard();
    create trigger ledger_event_no_truncate before truncate on ledger_event
        for each statement execute function ledger_event_guard();
"""
VIEW = """
    create or replace view task_history as
    select id, subject_id as task_id, from_state, to_state, data ->> 'error' as error,
        at as timestamp
    from ledger_event
    where subject_type = 'task' and from_state is not null and to_state is not null;
"""
SWAP = """
do $$
declare
    high uuid;
    name text;
begin
    if exists (select from pg_partitioned_table where partrelid = 'ledger_event'::regclass) then
        return;
    end if;
    lock table ledger_event in access exclusive mode;
    select substring(pg_get_constraintdef(oid) from '[0-9a-f]{8}(?:-[0-9a-f]+){4}') into high
    from pg_constraint
    where conrelid = 'ledger_event'::regclass and conname = 'ledger_event_bound';
    name := 'ledger_event_before_' || to_char(
        to_timestamp(('x' || left(replace(high::text, '-', ''), 12))::bit(48)::bigint / 1000)
        at time zone 'UTC', 'YYYYMM');

    execute format('alter table ledger_event rename to %I', name);
    execute format('alter index ledger_event_pkey rename to %I', name || '_pkey');
    execute format('alter index event_stream rename to %I', name || '_stream');
    execute format('alter index event_subject rename to %I', name || '_subject');
    execute format('alter index event_people rename to %I', name || '_people');
    execute format('alter index event_at rename to %I', name || '_at');
    execute format('drop trigger ledger_event_append_only on %I', name);

    execute format('create table ledger_event (like %I including defaults including storage
        including compression including comments) partition by range (id)', name);
    alter table ledger_event
        add constraint ledger_event_pkey primary key (id),
        add constraint ledger_event_version check (uuid_extract_version(id) = 7);
""" + PARTS + """
    execute format('alter table ledger_event attach partition %I for values from (minvalue)
        to (%L)', name, high);
    execute format('alter table %I drop constraint ledger_event_bound', name);
    perform ledger_event_add_partition('ledger_event_tail', high, null);
""" + VIEW + """end $$
"""

# This writes all rows again.
UNDO = """
do $$
begin
    lock table ledger_event in access exclusive mode;
    create table ledger_event_whole (like ledger_event including defaults including storage
        including compression including comments);
    insert into ledger_event_whole select * from ledger_event;
    drop view task_history;
    drop table ledger_event;
    alter table ledger_event_whole rename to ledger_event;
    alter table ledger_event add constraint ledger_event_pkey primary key (id);
    alter table ledger_event set (autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_vacuum_insert_threshold = 2000, autovacuum_analyze_threshold = 2000);
""" + PARTS + VIEW + """end $$
"""
STEPS["0022_journal_months"] = [
    RunSQL(FLOORS, "drop function ledger_event_floor"),
    RunSQL(ADD_PARTITION, "drop function ledger_event_add_partition"),
    RunSQL(BOUND, RunSQL.noop),
    RunSQL(VALIDATE, RunSQL.noop),
    RunSQL(SWAP, UNDO),
]
STEPS["0023_sign_in_record"] = [
    CreateModel("SignInRecord", [
        ("id", uuid7()),
        ("at", models.DateTimeField(db_default=Now(), editable=False)),
        ("outcome",
            models.CharField(choices=titled("signed_in", "signed_out", "refused"), max_length=10)),
        ("username",
            models.CharField(blank=True, help_text="empty: no such account", max_length=150)),
        ("method", models.CharField(max_length=14)),
        ("address", models.CharField(blank=True, max_length=45)),
        ("user_agent", models.CharField(blank=True, max_length=300)),
    ], options={"indexes": [
        index("sign_in_record_of", "username", "id"),
    ]}),
]
STEPS["0024_attempt_usage"] = [
    AddField("attempt", "usage",
        models.JSONField(help_text="tokens and cost, as its report says", null=True)),
    AddIndex("attempt",
        index("attempt_with_usage", "agent", "id", condition=Q(usage__isnull=False))),
]
STEPS["0025_attempt_trace"] = [
    AddField("attempt", "trace_id", models.CharField(db_default="", max_length=32)),
    AddField("attempt", "span_id", models.CharField(db_default="", max_length=16)),
]
STEPS["0026_task_done_changed"] = [
    AddIndex("task", index("task_done_changed", "updated_at", condition=Q(state="done"))),
]
STEPS["0027_breaker_kept_open"] = [
    AddField("breaker", "kept_open_at", models.DateTimeField(
        help_text="when a person decided that it stays open; null if the clock decides",
        null=True)),
]
STEPS["0028_task_retried"] = [
    AddIndex("task", index("task_retried", "state", "id", condition=Q(attempts__gt=1))),
]
STEPS["0029_dead_letter_open_task"] = build_beside_writers("deadletter", index(
    "dead_letter_open_task", "task", condition=Q(closed_at=None)))
STEPS["0030_preference_hides_first_steps"] = [
    AddField("preference", "hides_first_steps", models.BooleanField(db_default=False,
        help_text="whether Overview leaves out the steps to begin with")),
]
STEPS["0031_event_token_acts"] = []  # its index is dropped by the next step

# Acts of the audit log, by who did them. To prove that a query's list of kinds is in the condition
# of an index, the planner compared the two lists member by member for every month: 35 ms in a
# journal of 18 months. With `is true`, it chooses its indexes at once.
KINDS = [
    "instruction.requeued", "instruction.cancelled", "standing_instruction.created",
    "standing_instruction.updated", "standing_instruction.paused", "standing_instruction.resumed",
    "standing_instruction.retired", "task.changed", "task.due", "task.requeued",
    "task.answer_undone", "task.skipped", "task.aborted", "task.abort_requested", "task.replayed",
    "task.dismissed", "plan.imported", "plan.updated", "plan.paused", "plan.resumed",
    "plan.aborted", "plan.restarted", "escalation.resolved", "escalation.reopened",
    "escalation.assigned", "escalation.commented", "escalation.snoozed", "escalation.returned",
    "pattern.ignored", "pattern.resolved", "pattern.reopened", "pattern.merged",
    "pattern.fix_promoted", "pattern.fix_retired", "pattern.fix_reset", "agent.paused",
    "agent.resumed", "agent.limited", "agent.briefed", "agent.target_set", "agent.reset",
    "project.policies_changed", "channel.created", "channel.updated", "channel.rotated",
    "channel.enabled", "channel.disabled", "channel.deleted", "notification_rule.created",
    "notification_rule.updated", "notification_rule.deleted", "operation.started",
    "operation.stopped", "operation.undone",
]
LIST = ", ".join(f"'{kind}'" for kind in KINDS)
ACTS = f"(id) where actor_type = 'token' and (kind in ({LIST})) is true"
ACTOR = f"""(actor_name, id)
    where actor_type = 'user' or (actor_type = 'token' and (kind in ({LIST})) is true)"""


def replace(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        build_index(cursor, "event_acts", ACTS)
        build_index(cursor, "event_actor", ACTOR)
        drop_indexes(cursor, "event_token_acts")


def restore(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        drop_indexes(cursor, "event_acts", "event_actor")


def drop_indexes(cursor: Any, *names: str) -> None:
    run_soon(cursor, f"drop index if exists {', '.join(names)}")
    cursor.execute("reset lock_timeout")


TOKEN_ACT = Q(IsTrue(Q(("kind__in", KINDS))), ("actor_type", "token"))
STEPS["0032_event_actor"] = [
    SeparateDatabaseAndState(
        database_operations=[RunPython(replace, restore)],
        state_operations=[
            AddIndex("event", index("event_acts", "id", condition=TOKEN_ACT)),
            AddIndex("event", index("event_actor", "actor_name", "id",
                condition=Q(("actor_type", "user"), TOKEN_ACT, _connector="OR"))),
        ],
    ),
]
STEPS["0033_daily_session_bytes"] = [
    AddField("dailytaskcount", "session_bytes", models.BigIntegerField(db_default=0)),
]
STEPS["0034_session_task_dropped"] = [
    AddField("session", "task_dropped_count", models.IntegerField(db_default=0)),
    AlterField("sessiontask", "state", models.CharField(
        choices=titled("pending", "running", "success", "failed", "dropped"), db_default="pending",
        max_length=8)),
    RemoveConstraint("sessiontask", "session_task_state_known"),
    AddConstraint("sessiontask",
        check("session_task_state_known", "state ~ '^(pending|running|success|failed|dropped)$'")),
]
STEPS["0035_agent_waits"] = [
    AddField("agent", "waits_until", models.DateTimeField(editable=False, null=True)),
    AddField("agent", "waits_for", models.TextField(db_default="", editable=False)),
    AddField("agent", "wait_step_s", models.SmallIntegerField(db_default=0, editable=False)),
]
STEPS["0036_proof"] = [
    AddField("attempt", "checks",
        models.JSONField(help_text="commands that checked its work, oldest first", null=True)),
    AddField("attempt", "tree",
        models.JSONField(help_text="commit and differences that it left", null=True)),
    AddField("task", "proof", models.CharField(
        choices=titled("proven", "stale", "claimed", "person"), max_length=8, null=True)),
    AddConstraint("task", check("task_done_has_proof",
        "proof is null or state = 'done' and proof ~ '^(proven|stale|claimed|person)$'")),
]

# tasks that were verified before proofs were stored; others count as claimed
BACKFILL = """
update ledger_task t set proof = 'proven'
from ledger_attempt a
where t.state = 'done' and t.proof is null and a.task_id = t.id and a.number = t.attempts
    and a.outcome = 'success' and a.decision ->> 'reason' = 'verified'
"""
STEPS["0037_proof_backfill"] = [
    RunSQL(BACKFILL, RunSQL.noop),
]
STEPS["0038_evidence_level"] = [
    AddField("plan", "evidence",
        models.CharField(choices=titled("record", "ask", "require"), max_length=8, null=True)),
    AddField("task", "evidence",
        models.CharField(choices=titled("record", "ask", "require"), max_length=8, null=True)),
]
STEPS["0039_task_rare_proof"] = build_beside_writers("task", index(
    "task_rare_proof", "proof", "id", condition=Q(proof__in=["stale", "person"])))
STEPS["0040_instruction_receipts"] = [
    AddField("instruction", "first_delivered_at", models.DateTimeField(null=True)),
    AddField("instruction", "delivered_via", models.CharField(choices=[
        ("tool_call", "with a tool call"), ("stop", "when it wanted to stop"),
        ("prompt", "with a prompt"), ("heartbeat", "at a heartbeat"), ("pull", "by a pull"),
        ("mcp", "over MCP"), ("cli", "by the command line")], max_length=16, null=True)),
    AddField("instruction", "delivered_call", models.IntegerField(
        help_text="number of the session's tool call that the last delivery came with", null=True)),
    AddField("instruction", "unread", models.BooleanField(db_default=False,
        help_text="its agent has made no step since the last delivery")),
    AddField("instruction", "read_at",
        models.DateTimeField(help_text="its agent's first step after a delivery", null=True)),
]
STEPS["0041_instruction_unread"] = build_beside_writers("instruction", index(
    "instruction_unread", "agent", condition=Q(state="delivered", unread=True)))
STEPS["0042_plan_file_agreed"] = [
    AddField("plan", "file_agreed_at", models.DateTimeField(null=True)),
]
STEPS["0043_agent_waits_in_row"] = [
    AddField("agent", "waits_in_row", models.IntegerField(db_default=0, editable=False)),
    AddField("agent", "waits_since", models.DateTimeField(editable=False, null=True)),
]


class Migration(SquashedMigration):
    dependencies = [("ledger", "0003_squashed_0020_retention")]
    replaces = [("ledger", name) for name in STEPS]
    steps = STEPS
    not_atomic = {
        "0022_journal_months",
        "0029_dead_letter_open_task",
        "0032_event_actor",
        "0039_task_rare_proof",
        "0041_instruction_unread",
    }
