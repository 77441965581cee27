"""The journal: append-only, one event a move, and read as a stream that misses nothing."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from ledger import journal
from ledger.journal_storage.months import list_partitions
from ledger.models import Agent, Event
from ledger.states import InstructionState
from tests.factories import MINUTE, NOW, make_agent, make_instruction, send
from tests.journal_partitions import set_truncate_triggers, settle
from tests.waiting import PATIENCE_S

Kind = journal.Kind
LATER = NOW + MINUTE


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change", ["update ledger_event set kind = 'x'", "delete from ledger_event"]
)
def test_the_database_refuses_to_change_an_event(agent: Agent, change: str) -> None:
    before = list(Event.objects.values())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(change)
    assert before and list(Event.objects.values()) == before


@pytest.mark.django_db
def test_the_database_refuses_to_truncate_the_journal(agent: Agent) -> None:
    cursor = connection.cursor()
    with transaction.atomic():
        set_truncate_triggers(cursor, "enable")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute("truncate ledger_event cascade")
        for partition in list_partitions():
            with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
                cursor.execute(f"truncate {partition.name}")
        set_truncate_triggers(cursor, "disable")


@pytest.mark.django_db
def test_every_kind_is_a_noun_and_a_past_verb() -> None:
    import re

    assert all(re.fullmatch(r"[a-z_]+\.[a-z_]+", kind) and len(kind) <= 40 for kind in Kind)


@pytest.mark.django_db
@pytest.mark.parametrize("state", list(InstructionState))
def test_a_move_leaves_exactly_one_event(agent: Agent, state: str) -> None:
    row = make_instruction(state, agent=agent)
    moves = (
        Event.objects.filter(subject_id=row.id).order_by("id").values_list("from_state", "to_state")
    )
    path = [None, "queued"]
    path += ["delivered"] if state in (InstructionState.DELIVERED, InstructionState.FAILED) else []
    path += [state] if path[-1] != state else []
    assert list(moves) == list(itertools.pairwise(path))


@pytest.mark.django_db(transaction=True)
def test_a_reader_never_passes_a_transaction_that_is_still_running() -> None:
    """A late commit holds lower numbers than what is already visible: the stream waits for it."""
    agent = make_agent()
    begun, may_commit = threading.Event(), threading.Event()

    def slow() -> None:
        try:
            with transaction.atomic():
                send(agent, "slow", now=LATER)
                begun.set()
                assert may_commit.wait(PATIENCE_S)
        finally:
            connection.close()

    settle()
    start = journal.fetch_head()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(slow)
        assert begun.wait(PATIENCE_S)
        send(agent, "quick", now=LATER)
        assert Event.objects.filter(kind=Kind.INSTRUCTION_QUEUED).count() == 1
        assert journal.fetch_stream(start) == [] and journal.fetch_head() == start
        assert journal.fetch_start(LATER) == start
        may_commit.set()
        running.result(PATIENCE_S)
    settle()
    seen = journal.fetch_stream(start)
    assert journal.fetch_stream(journal.fetch_start(LATER)) == seen
    assert [row["kind"] for row in seen] == ["instruction.queued"] * 2
    assert [str(row["tx"]) for row in seen] == sorted(str(row["tx"]) for row in seen)
    last = seen[-1]
    assert journal.fetch_head() == journal.Cursor(int(last["tx"]), str(last["id"]))
    assert journal.fetch_stream(journal.fetch_head()) == []


@pytest.mark.django_db(transaction=True)
def test_a_stream_goes_on_exactly_where_it_stopped() -> None:
    agent: Any = make_agent()
    for number in range(6):
        send(agent, f"thing {number}")
    settle()
    whole = [row["id"] for row in journal.fetch_stream(journal.Cursor())]
    pieces: list[Any] = []
    at = journal.Cursor()
    while rows := journal.fetch_stream(at, limit=2):
        pieces += [row["id"] for row in rows]
        at = journal.Cursor(int(rows[-1]["tx"]), str(rows[-1]["id"]))
    assert pieces == whole and len(whole) >= 7


@pytest.mark.django_db
def test_the_stream_is_read_on_while_a_newer_version_adds_a_column(agent: Agent) -> None:
    """Processes of the former version serve while the next one migrates the database."""
    assert Event.objects.exists()
    journal.fetch_stream(journal.Cursor())
    with connection.cursor() as cursor:
        cursor.execute(
            "select statement from pg_prepared_statements where statement like %s",
            ["%from ledger_event e%"],
        )
        assert cursor.fetchall(), "it is not prepared"
    # Below psycopg, which forgets what it has prepared when it sends such a statement itself.
    done = connection.connection.pgconn.exec_(b"alter table ledger_event add column later integer")
    assert done.command_status == b"ALTER TABLE"
    journal.fetch_stream(journal.Cursor())
