"""Count failures by pattern and agent: triggers keep the counts from now on.

Triggers also count what processes of an earlier version report, and what they merge. Reports wait
only while the triggers are created. The earlier failures are counted beside later reports, as a
second connection sees them: its snapshot ends where the triggers begin. A run that was cut short is
run again from the start.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

import django.db.models.deletion
import psycopg
from django.db import OperationalError, migrations, models, transaction

import ledger.models.fields

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


class Migration(migrations.Migration):
    # Each step commits, and can run again after one that failed.
    atomic = False
    dependencies = [
        ("ledger", "0028_task_retried"),
        ("retries", "0018_search_words_by_clock"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="FailureCount",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "pattern_id",
                                "agent_id",
                                "id",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        (
                            "id",
                            models.UUIDField(
                                db_default=ledger.models.fields.UUIDv7(), editable=False
                            ),
                        ),
                        ("failures", models.IntegerField()),
                        ("last_at", models.DateTimeField()),
                        (
                            "is_sum",
                            models.BooleanField(
                                db_default=False, help_text="whether the clock has added it up"
                            ),
                        ),
                        (
                            "agent",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.PROTECT,
                                to="ledger.agent",
                            ),
                        ),
                        (
                            "pattern",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="failure_counts",
                                to="retries.failurepattern",
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                condition=models.Q(("is_sum", False)),
                                fields=["pattern"],
                                name="failure_count_new",
                            )
                        ],
                    },
                ),
            ],
        ),
        migrations.RunPython(create_table, drop_table),
        migrations.RunPython(count_failures, remove_triggers),
    ]
