"""From counted failures to the sources of attempts; each step is a migration that was squashed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

import psycopg
from django.db import OperationalError, models, transaction
from django.db.migrations import (
    AddConstraint, AddField, CreateModel, RemoveConstraint, RunPython, SeparateDatabaseAndState,
)
from django.db.migrations.operations.base import Operation
from django.db.models import Q

from ledger.migrations._steps import (
    SquashedMigration, check, index, key, own_key, titled,
)
from ledger.models.fields import UUIDv7

STEPS: dict[str, list[Operation]] = {}

# Triggers also count what processes of an earlier version report, and what they merge. Reports wait
# only while the triggers are created. The earlier failures are counted beside later reports, as a
# second connection sees them: its snapshot ends where the triggers begin. A run that was cut short
# is run again from the start.

# Reports that wait behind the lock wait no longer than this. It is longer than the second after
# which PostgreSQL ends an autovacuum that is in the way.
LOCK_TIMEOUT = "set local lock_timeout = '2s'"
ATTEMPTS = 60
PAUSE_S = 1.0
ROWS_READ = 5000

# No failure is added between the triggers and the snapshot. The order is that of a report, which
# locks the failures before it writes to a pattern. What a run counted that was cut short goes.
TRIGGERS = """
lock table retries_grouped in share row exclusive mode;
truncate retries_failurecount;
create or replace function retries_count_failures() returns trigger language plpgsql as $$
begin
    insert into retries_failurecount (pattern_id, agent_id, failures, last_at)
    select pattern_id, agent_id, count(*), max(at) from added group by 1, 2;
    return null;
end $$;
create or replace trigger retries_failures_counted after insert on retries_grouped
    referencing new table as added for each statement execute function retries_count_failures();
create or replace function retries_move_failure_counts() returns trigger language plpgsql as $$
begin
    -- the kept pattern may have a sum of its own: the clock adds up what is new
    update retries_failurecount set pattern_id = new.merged_into_id, is_sum = false
    where pattern_id = new.id;
    return null;
end $$;
create or replace trigger retries_failure_counts_moved after update of merged_into_id
    on retries_failurepattern for each row
    when (new.merged_into_id is distinct from old.merged_into_id and new.merged_into_id is not null)
    execute function retries_move_failure_counts();
"""
NO_TRIGGERS = """
drop trigger retries_failure_counts_moved on retries_failurepattern;
drop function retries_move_failure_counts();
drop trigger retries_failures_counted on retries_grouped;
drop function retries_count_failures();
"""
LOOK = """
begin isolation level repeatable read, read only;
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
declare earlier no scroll cursor for
select pattern_id, agent_id, sum(failures)::bigint, max(last_at) from (
    select pattern_id, agent_id, count(*) as failures, max(at) as last_at
    from retries_grouped group by 1, 2
    union all
    select pattern_id, agent_id, failures, last_at from retries_pastfailures
) counted group by 1, 2
"""

# A merge of patterns waits for this lock and moves the counts, or has ended before it is taken.
ADD = """
with held as (
    select id, coalesce(merged_into_id, id) as kept_id from retries_failurepattern
    where id = any(%(patterns)s::uuid[]) order by id for key share
)
insert into retries_failurecount (pattern_id, agent_id, failures, last_at)
select h.kept_id, c.agent_id, sum(c.failures), max(c.last_at)
from unnest(%(patterns)s::uuid[], %(agents)s::uuid[], %(failures)s::bigint[],
        %(last)s::timestamptz[]) c(pattern_id, agent_id, failures, last_at)
    join held h on h.id = c.pattern_id
group by 1, 2
"""


def create_table(apps: Any, editor: Any) -> None:
    if "retries_failurecount" not in editor.connection.introspection.table_names():
        with editor.connection.schema_editor() as own:  # with the index, in one transaction
            own.create_model(apps.get_model("retries", "FailureCount"))


def drop_table(apps: Any, editor: Any) -> None:
    editor.delete_model(apps.get_model("retries", "FailureCount"))


def count_failures(apps: Any, editor: Any) -> None:
    with create_triggers(editor.connection) as earlier:
        add_earlier(editor.connection, earlier)


def remove_triggers(apps: Any, editor: Any) -> None:
    with editor.connection.cursor() as cursor:
        cursor.execute(NO_TRIGGERS)


@contextmanager
def create_triggers(connection: Any) -> Iterator[Any]:
    """Create the triggers; yield a second connection's cursor on the counts of what they missed."""
    other = connection.copy()
    try:
        with other.cursor() as earlier:
            for attempt in range(ATTEMPTS):
                try:
                    create_and_look(connection, earlier)
                    break
                except OperationalError as error:
                    is_busy = isinstance(error.__cause__, psycopg.errors.LockNotAvailable)
                    if not is_busy or attempt == ATTEMPTS - 1:
                        raise
                    sleep(PAUSE_S)  # the reports that have waited go first
            yield earlier
    finally:
        other.close()


def create_and_look(connection: Any, earlier: Any) -> None:
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUT)
        cursor.execute(TRIGGERS)
        earlier.execute(LOOK)


def add_earlier(connection: Any, earlier: Any) -> None:
    """Add the counts that the cursor yields, some in each transaction."""
    with connection.cursor() as cursor:
        while rows := fetch(earlier):
            patterns, agents, failures, last = (list(each) for each in zip(*rows, strict=True))
            cursor.execute(
                ADD, {"patterns": patterns, "agents": agents, "failures": failures, "last": last}
            )


def fetch(earlier: Any) -> list[Any]:
    earlier.execute(f"fetch {ROWS_READ} from earlier")
    rows: list[Any] = earlier.fetchall()
    return rows


STEPS["0019_failure_count"] = [
    SeparateDatabaseAndState(state_operations=[
        CreateModel("FailureCount", [
            ("pk", models.CompositePrimaryKey("pattern_id", "agent_id", "id", serialize=False)),
            ("id", models.UUIDField(db_default=UUIDv7(), editable=False)),
            ("failures", models.IntegerField()),
            ("last_at", models.DateTimeField()),
            ("is_sum", models.BooleanField(db_default=False,
                help_text="whether the clock has added it up")),
            ("agent", key("ledger.agent", db_constraint=False)),
            ("pattern", key("retries.failurepattern", models.CASCADE, db_constraint=False,
                related_name="failure_counts")),
        ], options={"indexes": [
            index("failure_count_new", "pattern", condition=Q(is_sum=False)),
        ]}),
    ]),
    RunPython(create_table, drop_table),
    RunPython(count_failures, remove_triggers),
]

# The rule of `retries.notifications.shown_addresses` when this was written.
PARTS = re.compile(r"([^:/?#]*://)?([^/?#]*)(/[^/?#]*)?(.*)", re.DOTALL)
KEY = re.compile(r"/(?=\D*\d)[\w-]{16,}")


def shorten_addresses(apps: Any, editor: Any) -> None:
    channels = apps.get_model("retries", "Channel").objects
    for channel_id, shown in channels.values_list("pk", "shown_address"):
        if shorten(shown) != shown:
            channels.filter(pk=channel_id).update(shown_address=shorten(shown))


def shorten(url: str) -> str:
    found = PARTS.fullmatch(url)
    assert found
    scheme, host, first, rest = (part or "" for part in found.groups())
    if KEY.fullmatch(first):
        first, rest = "", first
    if rest.strip("/"):
        first = first.rstrip("/") + "/…"
    return scheme + host + first


STEPS["0020_shown_addresses"] = [
    RunPython(shorten_addresses, RunPython.noop),
]
STEPS["0021_sealed_answers"] = [
    AddField("escalation", "sealed", models.TextField(db_default="", editable=False,
        help_text="an answer with a secret, as typed, encrypted; the others are masked")),
    AddField("operation", "sealed", models.TextField(db_default="", editable=False,
        help_text="options with a secret, as typed, encrypted; the others are masked")),
]
STEPS["0022_evidence_level"] = [
    AddField("retrypolicy", "evidence", models.CharField(blank=True,
        choices=titled("record", "ask", "require"),
        help_text="what is asked for before a task is done", max_length=8, null=True)),
]
STEPS["0023_accept_answer"] = [
    RemoveConstraint("escalation", "escalation_answer_where_resolved"),
    AddConstraint("escalation", check("escalation_answer_where_resolved", Q(
        Q(action__in=["retry", "fix", "skip", "abort", "answer", "accept"], state="resolved"),
        Q(Q(state="resolved", _negated=True), ("action__isnull", True)), _connector="OR"))),
]
STEPS["0024_experiment_share"] = [
    AddField("contextexperiment", "share", models.SmallIntegerField(db_default=10,
        help_text="percentage of the tasks that do without it")),
    AddConstraint("contextexperiment", check("experiment_share_range", Q(share__range=(1, 50)))),
]
STEPS["0025_attempt_diff"] = [
    CreateModel("AttemptDiff", [
        ("attempt", own_key("ledger.attempt", related_name="source")),
        ("diff", models.TextField(db_default="")),
        ("environment", models.JSONField(help_text="folder, branch, and versions of tools, by name",
            null=True)),
        ("check_key", models.CharField(db_default="",
            help_text="the project and the command that checks the work", max_length=32)),
    ], options={"indexes": [
        index("attempt_diff_check", "check_key", "attempt",
            condition=Q(check_key="", _negated=True)),
    ]}),
]


class Migration(SquashedMigration):
    dependencies = [("retries", "0009_squashed_0018_search_words_by_clock")]
    replaces = [("retries", name) for name in STEPS]
    steps = STEPS
    # Each operation of this step commits, and can run again after one that failed.
    not_atomic = {"0019_failure_count"}
