"""A database that moves to another server by a dump: the journal's readers go on there (OPS-4)."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, connections, transaction

from config.local.embedded import Server, free_port, wheels
from ledger import journal
from ledger.database import server_time
from ledger.journal_storage.rebasing import is_stream_ahead
from ledger.models import Agent, IdempotencyKey, Task
from retries import sweeps
from retries.models import MetricTotal
from retries.notifications import tick
from retries.notifications.outbox import begin_reading
from tests.factories import make_token
from tests.journal_partitions import settle
from tests.retries.moves import make_task
from tests.retries.notifications.receivers import Receiver, make_webhook, receive, run_clock
from tests.services import Throwaway, ours
from tests.serving import database_of_tests

pytestmark = pytest.mark.django_db(transaction=True)

# as a server has used after some time
USE_NUMBERS = """do $$ begin for n in 1..20000 loop
    perform pg_current_xact_id(); commit; end loop; end $$"""
# One of them has the number of the transaction that loads it into the other server.
EARLY_EVENTS = """insert into ledger_event
    (tx, project_id, kind, subject_type, subject_id, actor_type)
select n::text::xid8, %s, 'agent.heard', 'agent', %s, 'system' from generate_series(3, 9000) n"""
BY_CHANCE = "select count(*) from ledger_event where xmin::text = tx::text"
NEXT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
READERS = ("notifications", "metrics", "activity", "search_words")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receive() as receiver:
        yield receiver


@contextmanager
def new_server(name: str) -> Iterator[str]:
    """Run a PostgreSQL that has done nothing yet; yield the URL of its database."""
    primary = ours().servers
    home = primary.place.folder(name)
    own = Server(free_port(), primary.postgres.password)
    servers = replace(primary, place=replace(primary.place, home=home), postgres=own)
    servers.create()
    runs = Throwaway(servers)
    runs.start("postgres")
    try:
        yield servers.urls["DATABASE_URL"]
    finally:
        connections.close_all()
        runs.stop_all()
        shutil.rmtree(home)


@contextmanager
def use_database(url: str) -> Iterator[None]:
    """Let this process work on another database, as after DATABASE_URL was changed."""
    found = urlsplit(url)
    settings, before = connection.settings_dict, dict(connection.settings_dict)
    connection.close()
    settings |= {"HOST": found.hostname, "PORT": found.port, "NAME": found.path[1:]}
    settings |= {"USER": found.username, "PASSWORD": found.password}
    try:
        yield
    finally:
        connection.close()
        settings |= before


def move(source: str, target: str, file: Path) -> None:
    run_tool("pg_dump", "--format=custom", f"--file={file}", source)
    run_tool("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={target}", str(file))


def run_tool(name: str, *options: str) -> None:
    subprocess.run([wheels()[0] / "bin" / name, *options], env={"PATH": os.defpath}, check=True)


def ask(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def rebase() -> str:
    out = StringIO()
    call_command("rebase_journal", stdout=out)
    return out.getvalue()


def read_journal() -> None:
    """Let all readers read what is settled, and send what is due."""
    settle()
    for name in READERS:
        sweeps.run(name)
    run_clock()


def list_received(receiver: Receiver) -> list[str]:
    """Return the types of the tasks that the webhook was told of, in order."""
    ids = [each.json["data"]["subject"]["id"] for each in receiver.received]
    types = {str(task.pk): task.type for task in Task.objects.all()}
    return [types[id] for id in ids]


def count_created() -> int:
    rows = MetricTotal.objects.filter(metric="tenfour_task_transitions", labels__to="queued")
    return sum(row.count for row in rows)


def count_words() -> int:
    return int(ask("select count(*) from ledger_taskwords"))


def create(agent: Agent, name: str) -> None:
    make_task(agent, type=name, now=server_time.now())


def test_readers_go_on_after_a_move_and_send_nothing_twice(
    agent: Agent, receiver: Receiver, tmp_path: Path, settings: Any
) -> None:
    settings.TENFOUR = settings.TENFOUR | {"WEBHOOK_ALLOW": [receiver.allowed]}
    make_webhook(receiver, project=agent.project, events=("task.created",))
    begin_reading(server_time.now())
    with connection.cursor() as cursor:
        cursor.execute(USE_NUMBERS)
        cursor.execute(EARLY_EVENTS, [agent.project_id, agent.pk])
    create(agent, "before")
    read_journal()
    assert list_received(receiver) == ["before"]
    position = journal.fetch_head()
    create(agent, "unread")
    moved_from = int(ask(NEXT))

    with new_server("moved") as url:
        move(database_of_tests(), url, tmp_path / "first.dump")
        with use_database(url):
            assert int(ask(NEXT)) < moved_from - 10_000
            assert ask(BY_CHANCE) == 1
            create(agent, "too_early")  # by a Tenfour that was started before the command
            with transaction.atomic(), transaction.atomic():
                create(agent, "in_savepoint")
            assert is_stream_ahead()
            tick.process_due(now=server_time.now())
            assert journal.fetch_stream(position) == []
            assert rebase() == (
                "New events follow the stored ones: the epoch is 1.\n"
                "Renumbered 2 events that this server has written.\n"
            )
            assert not is_stream_ahead()
            create(agent, "after")
            check_readers(
                agent, receiver, position, ["unread", "too_early", "in_savepoint", "after"]
            )
            assert rebase() == "New events follow the stored ones already.\n"
            newest = journal.fetch_head()
            refuse_changes()
            with connection.cursor() as cursor:
                cursor.execute(USE_NUMBERS)
                cursor.execute(USE_NUMBERS)
            create(agent, "late")
        # and to a third server, whose numbers are lower again
        with new_server("moved again") as third:
            move(url, third, tmp_path / "second.dump")
            with use_database(third):
                assert is_stream_ahead()
                assert "the epoch is 2" in rebase()
                create(agent, "again")
                assert [each["kind"] for each in settled_since(newest)][-1] == "task.created"
                read_journal()
                assert list_received(receiver)[5:] == ["late", "again"]


def check_readers(
    agent: Agent, receiver: Receiver, position: journal.Cursor, later: list[str]
) -> None:
    created = [each for each in settled_since(position) if each["kind"] == "task.created"]
    types = dict(Task.objects.values_list("pk", "type"))
    assert [types[each["subject_id"]] for each in created] == later
    read_journal()
    read_journal()
    assert list_received(receiver) == ["before", *later]
    assert count_created() == count_words() == len(types) == 1 + len(later)


def settled_since(position: journal.Cursor) -> list[dict[str, Any]]:
    settle()
    return journal.fetch_stream(position)


def refuse_changes() -> None:
    with pytest.raises(DatabaseError, match="append-only"), connection.cursor() as cursor:
        cursor.execute("update ledger_event set kind = 'x'")


def test_sequences_follow_their_rows(agent: Agent) -> None:
    """Logical replication copies rows and leaves the sequences where they began."""
    assert "sequences" not in rebase()
    make_token("agent", agent=agent)
    create(agent, "any")
    row = IdempotencyKey(token_id=ask("select id from ledger_token"), key="k", fingerprint=b"")
    row.expires_at = server_time.now()
    row.save()
    with connection.cursor() as cursor:
        cursor.execute("alter sequence ledger_idempotencykey_id_seq restart")
        cursor.execute("update ledger_idempotencykey set id = 70")
    assert "Set 1 sequences that were behind their rows." in rebase()
    assert ask("select nextval('ledger_idempotencykey_id_seq')") == 71
