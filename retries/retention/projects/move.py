"""Move a project here from another installation, with its history and its tokens.

The other installation is a database of the same version. From the start, it answers the project's
tokens with `project_moving`, and its members only read. All rows are copied in one transaction.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import psycopg
from django.db import connection, transaction
from psycopg.rows import DictRow, dict_row

from ledger.database import sql
from ledger.journal_storage.rebasing import advance_sequences
from ledger.models import Project
from ledger.models.project import DEFAULT
from retries.journal_readers import counts as activity_counts
from retries.journal_readers import metric_totals, new_words
from retries.models import StreamCursor
from retries.models.notification_channel import ChannelState, DisabledBecause
from retries.notifications import outbox
from retries.retention.projects.deletion import RUNNING, RUNNING_TASKS
from retries.retention.projects.tables import TABLES

# Processes of the other installation end their statements and read the journal within this time.
PATIENCE = timedelta(seconds=60)
PAUSE_S = 0.2
COPIES = 3

BEGIN = """with moving as (
    update ledger_project set moving_since = coalesce(moving_since, now())
    where id = %(project)s returning id, moving_since
), tokens as (
    update ledger_token t set revoked_at = m.moving_since from moving m
    where t.project_id = m.id and t.revoked_at is null
) select pg_current_xact_id()::text as tx"""
CANCEL = """with moving as (
    select id, moving_since from ledger_project where id = %(project)s for update
), tokens as (
    update ledger_token t set revoked_at = null from moving m
    where t.project_id = m.id and t.revoked_at = m.moving_since
) update ledger_project p set moving_since = null from moving m where p.id = m.id"""
IS_SETTLED = "select pg_snapshot_xmin(pg_current_snapshot()) > %(tx)s::text::xid8 as holds"
# Running attempts go on here. Others would do the same work in both installations.
WORKING = [each for noun, each in RUNNING.items() if noun != RUNNING_TASKS]
UNREAD = """(e.tx, e.id) > (select tx::text::xid8, event_id from retries_streamcursor
    order by 1, 2 limit 1)"""
IS_READ = f"""select not exists(
    select from ledger_event e where e.project_id = %(project)s and {UNREAD}) as holds"""
NEWEST = "select coalesce(max(tx), '0')::text as tx from ledger_event"
HAS_LATER = """select exists(select from ledger_event where tx > %(tx)s::text::xid8
    and project_id = %(project)s and actor_type <> 'system') as holds"""
MEMBERS = "select user_id from ledger_membership where project_id = %(project)s"
APPLIED = """select array_agg(app || '.' || name order by app, name) as names
from django_migrations where app in ('ledger', 'retries', 'dashboard')"""
PEOPLE = "select id, username from auth_user"
# An id from a sequence is not taken along: it may be another row's here.
COLUMNS = """select attname::text as name,
    attname = 'id' and pg_get_serial_sequence(%(table)s, 'id') is not null as is_numbered
from pg_attribute
where attrelid = %(table)s::text::regclass and attnum > 0 and not attisdropped
    and attgenerated = ''
order by attnum"""
DISABLE_CHANNELS = f"""update retries_channel set state = '{ChannelState.DISABLED}',
    disabled_because = '{DisabledBecause.BY_HAND}', disabled_at = now()
where project_id = %(project)s and state <> '{ChannelState.DISABLED}'"""
TO_PEOPLE = {
    "ledger_membership": "user_id",
    "ledger_invitation": "accepted_by_id",
    "ledger_task": "assignee_id",
    "retries_escalation": "assignee_id",
    "retries_failurepattern": "assignee_id",
    "retries_channel": "person_id",
}
# A trigger counts the failures that are copied, which are not all that were counted there.
COUNTS = "retries_failurecount"
# The readers here are beyond an event with this number.
OLDEST_TX = "'1'::xid8"
READERS = {activity_counts.READER, *metric_totals.READERS, new_words.READER, outbox.READER}

Source = psycopg.Connection[DictRow]


class CannotMove(Exception):
    """The project can't be moved; the text says why and what to do."""


class WrittenMeanwhile(Exception):
    """A request or a person changed the project's rows after they were read."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A project that was copied here; `rows` by table, and the members without an account here."""

    project_id: UUID
    rows: dict[str, int]
    strangers: list[str]


@contextmanager
def connect(url: str) -> Iterator[Source]:
    try:
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as source:
            source.execute("set statement_timeout = 0")
            yield source
    except psycopg.OperationalError as error:
        raise CannotMove(
            f"The other installation's database failed: {str(error).strip()}. Run this again."
        ) from error


def move_here(source: Source, name: str, *, new_name: str) -> Moved:
    """Copy a project's rows here and stop its work there; raises CannotMove."""
    project = check(source, name, new_name)
    [begun] = source.execute(BEGIN, {"project": project}).fetchall()
    try:
        wait_for_end(source, project, begun["tx"])
        moved = copy_until_complete(source, project, new_name)
        source.execute(DISABLE_CHANNELS, {"project": project})
    except BaseException:
        # Once the project is here, its tokens must not work there again.
        if not Project.objects.filter(pk=project).exists():
            source.execute(CANCEL, {"project": project})
        raise
    return moved


def cancel(project: Project) -> None:
    """Let a project's tokens and members work in this installation again."""
    sql.run(CANCEL, project=project.pk)


def check(source: Source, name: str, new_name: str) -> UUID:
    if name == DEFAULT:
        raise CannotMove(f"The project '{DEFAULT}' exists in each installation; it can't move.")
    [there], [here] = source.execute(APPLIED).fetchall(), sql.run(APPLIED)
    if there["names"] != here["names"]:
        raise CannotMove("The installations have different versions. Update the older one first.")
    if READERS - set(StreamCursor.objects.filter(tx__gt=1).values_list("name", flat=True)):
        raise CannotMove(
            "The worker of this installation has not read its journal yet. Start the installation, "
            "create a token, and run this again in a minute."
        )
    found = source.execute("select id from ledger_project where name = %s", [name]).fetchone()
    if found is None:
        raise CannotMove(f"The other installation has no project '{name}'.")
    project: UUID = found["id"]
    if Project.objects.filter(pk=project).exists():
        raise CannotMove(f"The project '{name}' is here already.")
    if Project.objects.filter(name=new_name).exists():
        raise CannotMove(f"A project '{new_name}' is here already. Choose another name with --as.")
    return project


def wait_for_end(source: Source, project: UUID, tx: str) -> None:
    """Wait until all that began before the move has ended there, and its events were read."""
    wait(lambda: holds(source, IS_SETTLED, tx=tx), "a transaction that began before the move")
    wait(
        lambda: not any(count(source, each, project) for each in WORKING),
        "a session or an operation",
    )
    wait(lambda: holds(source, IS_READ, project=project), "the worker, which reads the journal,")


def copy_until_complete(source: Source, project: UUID, new_name: str) -> Moved:
    for _ in range(COPIES):
        try:
            return copy(source, project, new_name)
        except WrittenMeanwhile:
            continue
    raise CannotMove(
        "In the other installation, the project's rows changed during each copy. Nothing was "
        "moved. Run this again when its people do not change it."
    )


def wait(has_ended: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE.total_seconds()
    while not has_ended():
        if time.monotonic() > until:
            raise CannotMove(
                f"In the other installation, {what} did not end within {PATIENCE.seconds} s. "
                "Nothing was moved. Run this again."
            )
        time.sleep(PAUSE_S)


def holds(source: Source, statement: str, **values: object) -> bool:
    return bool(source.execute(statement, values).fetchall()[0]["holds"])


def count(source: Source, statement: str, project: UUID) -> int:
    return int(source.execute(statement, {"project": project}).fetchall()[0]["n"])


def copy(source: Source, project: UUID, new_name: str) -> Moved:
    with transaction.atomic():
        sql.run("set constraints all deferred")
        with source.transaction():
            source.execute("set transaction isolation level repeatable read, read only")
            there = {row["id"]: row["username"] for row in source.execute(PEOPLE).fetchall()}
            here = {row["username"]: row["id"] for row in sql.run(PEOPLE)}
            people = {id: here[name] for id, name in there.items() if name in here}
            rows = {
                table: sum(
                    copy_rows(source, statement, table, columns)
                    for statement, columns in selections(table, project, new_name, people)
                )
                for table in order_tables(project)
            }
            members = source.execute(MEMBERS, {"project": project}).fetchall()
            [newest] = source.execute(NEWEST).fetchall()
        # A request whose token was valid may write only now.
        if holds(source, HAS_LATER, project=project, tx=newest["tx"]):
            raise WrittenMeanwhile
        advance_sequences()
    strangers = [there[row["user_id"]] for row in members if row["user_id"] not in people]
    return Moved(project, rows, sorted(strangers))


def order_tables(project: UUID) -> Iterator[str]:
    yield from (table for table in TABLES if table != COUNTS)
    sql.run(f"delete from {COUNTS} where {TABLES[COUNTS]}", project=project)
    yield COUNTS


def selections(
    table: str, project: UUID, new_name: str, people: dict[int, int]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the statements that read a table's rows there, with the columns that they fill here."""
    found = sql.run(COLUMNS, table=table)
    columns = [row["name"] for row in found if not row["is_numbered"]]
    literal = psycopg.sql.quote
    values = {name: f't."{name}"' for name in columns}
    condition = TABLES[table].replace("%(project)s", literal(str(project)))
    if table == "ledger_project":
        values |= {"name": literal(new_name), "moving_since": "null::timestamptz"}
    if table == "ledger_token":
        since = f"(select moving_since from ledger_project where id = {literal(str(project))})"
        values["revoked_at"] = f"nullif(t.revoked_at, {since})"
    if column := TO_PEOPLE.get(table):
        pairs = ", ".join(f"({a}, {b})" for a, b in people.items()) or "(null::int, null::int)"
        values[column] = f"(select b from (values {pairs}) p(a, b) where a = t.{column})"
        if table == "ledger_membership":
            condition += f" and {values[column]} is not null"
    if table != "ledger_event":
        yield select(table, values, condition), columns
        return
    # Readers here must not read again what was read there. They read the rest as new events.
    is_unread = UNREAD.replace("e.", "t.")
    values["tx"] = OLDEST_TX
    yield select(table, values, f"{condition} and not {is_unread}"), columns
    del values["tx"]
    yield select(table, values, f"{condition} and {is_unread}"), list(values)


def select(table: str, values: dict[str, str], condition: str) -> str:
    return f"select {', '.join(values.values())} from {table} t where {condition}"


def copy_rows(source: Source, statement: str, table: str, columns: list[str]) -> int:
    names = ", ".join(f'"{name}"' for name in columns)
    read = f"copy ({statement}) to stdout (format binary)"
    write = f"copy {table} ({names}) from stdin (format binary)"
    with connection.cursor() as writer, source.cursor() as reader:
        with reader.copy(read) as outgoing, writer.copy(write) as incoming:
            for piece in outgoing:
                incoming.write(piece)
        return int(writer.rowcount)
