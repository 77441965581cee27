"""The journal's partitions: an event always has a place, and months come and go."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from ledger import journal
from ledger.access import audit
from ledger.journal import Cursor
from ledger.journal_storage import months as journal_months
from ledger.journal_storage.months import Busy, list_partitions, month_of, next_month
from ledger.models import Agent, Event, Task
from ledger.values.ids import first_id, timestamp_of
from tests.elsewhere import at_once
from tests.factories import make_agent, send
from tests.journal_partitions import (
    allow_truncate,
    insert_event,
    lay_out,
    own_partitions,
    partition_of,
    set_truncate_triggers,
    settle,
    split_now,
)
from tests.retries.moves import claim, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
SHAPE = """select (select count(*) from pg_index i where i.indrelid = c.oid and i.indisvalid),
    (select count(*) from pg_constraint n where n.conrelid = c.oid and n.contype = 'c'),
    (select array_agg(t.tgname::text order by t.tgname) from pg_trigger t where t.tgrelid = c.oid),
    (select array_agg(o order by o) from unnest(c.reloptions) o)
from pg_class c where c.oid = %s::regclass"""


def shape_of(partition: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(SHAPE, [partition])
        return cursor.fetchone()


def names() -> list[str]:
    return [each.name for each in list_partitions()]


def in_months(count: int) -> datetime:
    return months_after(month_of(timezone.now()), count)


def months_after(month: datetime, count: int) -> datetime:
    for _ in range(count):
        month = next_month(month)
    return month


@pytest.fixture
def months() -> Iterator[None]:
    with own_partitions():
        yield


@pytest.fixture
def fresh(db: None) -> None:
    """Two partitions: a clock of another test may have made months."""
    first = list_partitions()[0].end
    assert first
    lay_out(first, months=0)


def test_every_partition_is_like_the_first(fresh: None, agent: Agent) -> None:
    """Indexes, checks, triggers, and storage; no event changes in any of them."""
    journal_months.make_months(now=in_months(3))
    assert len(list_partitions()) > 4
    with connection.cursor() as cursor:
        set_truncate_triggers(cursor, "enable")
        first = shape_of(names()[0])
        assert first[0] == 7 and len(first[2]) == 2 and len(first[3]) == 3
        assert [shape_of(name) for name in names()] == [first] * len(names())
        for partition in list_partitions():
            at = partition.end or (partition.start or timezone.now()) + 2 * DAY
            id = insert_event(agent, after=at - DAY - timezone.now())
            assert partition_of(id) == partition.name
            for change in ("update {} set kind = 'x'", "delete from {}", "truncate {}"):
                with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
                    cursor.execute(change.format(partition.name))
        allow_truncate(cursor)


def test_an_event_of_any_time_has_a_place_and_a_random_id_has_none(agent: Agent) -> None:
    kept = [
        insert_event(agent, after=DAY * days) for days in (-20_000, -400, -31, 0, 31, 400, 20_000)
    ]
    found = Event.objects.filter(pk__in=kept).order_by("pk")
    assert list(found.values_list("pk", flat=True)) == kept
    with pytest.raises(IntegrityError, match="ledger_event_version"), transaction.atomic():
        insert_event(agent, id=uuid4())


def test_months_are_made_once_and_have_the_events_of_their_time(fresh: None, agent: Agent) -> None:
    """Across a month's end, order and streams continue; ids come from the database's clock."""
    start = list_partitions()[0].end
    assert start and journal_months.find_missing_month(now=start) == start
    assert journal_months.make_months(now=start) == 4
    assert journal_months.make_months(now=start) == 0
    assert journal_months.find_missing_month(now=start) is None
    end = next_month(start)
    assert names()[1] == f"ledger_event_{start:%Y%m}" and names()[-1] == "ledger_event_tail"
    second = timedelta(seconds=1)
    ids = [
        insert_event(agent, after=each - timezone.now())
        for each in (start - second, start + second, end - second, end + second)
    ]
    assert [partition_of(id) for id in ids] == [names()[0], *[names()[1]] * 2, names()[2]]
    newest = Event.objects.about(agent.pk).order_by("-pk")
    assert list(newest.values_list("pk", flat=True)[:4]) == ids[::-1]
    older = newest.filter(pk__lt=ids[2]).values_list("pk", flat=True)
    assert list(older[:2]) == ids[1::-1]


def test_a_tail_with_events_becomes_a_partition_and_a_new_tail_follows(
    fresh: None, agent: Agent
) -> None:
    """The clock was away, or the time jumped."""
    start = list_partitions()[0].end
    assert start
    late = insert_event(agent, after=start + 40 * DAY - timezone.now())
    assert partition_of(late) == "ledger_event_tail"
    journal_months.make_months(now=start)
    end = next_month(month_of(timestamp_of(late)))
    assert partition_of(late) == journal_months.name_of(start, end) == names()[1]
    assert shape_of(names()[1])[0] == shape_of(names()[-1])[0] == 7
    far = insert_event(agent, after=DAY * 9000)
    assert partition_of(far) == "ledger_event_tail"
    assert Event.objects.filter(pk__in=[late, far]).count() == 2


def test_no_move_waits_for_a_scan_of_a_tail_with_events(fresh: None, agent: Agent) -> None:
    """Also after a run that was interrupted between the steps."""
    start = list_partitions()[0].end
    assert start
    insert_event(agent, after=start + 5 * DAY - timezone.now())
    journal_months.bound_tail(start)
    late = insert_event(agent, after=next_month(start) - DAY / 2 - timezone.now())
    notices: list[str] = []
    connection.connection.add_notice_handler(
        lambda notice: notices.append(notice.message_primary or "")
    )
    with connection.cursor() as cursor:
        cursor.execute("set local client_min_messages = debug1")
        journal_months.make_months(now=start)
        cursor.execute("set local client_min_messages = notice")
    # It was the last day of a month: more events may come while the check is there.
    assert partition_of(late) == names()[1] == journal_months.name_of(start, months_after(start, 2))
    implied = f'partition constraint for table "{names()[1]}" is implied by existing constraints'
    assert implied in notices
    assert shape_of(names()[1])[:2] == shape_of(names()[0])[:2]


@pytest.mark.django_db(transaction=True)
def test_two_makers_at_once_make_each_month_once(months: None) -> None:
    now = in_months(2)
    made = at_once(2, lambda _: journal_months.make_months(now=now))
    assert all(isinstance(each, int | Busy) for each in made), made
    count = sum(each for each in made if isinstance(each, int))
    assert len(set(names())) == len(names()) == 2 + count and count >= journal_months.AHEAD


@pytest.mark.django_db(transaction=True)
def test_a_stream_goes_on_over_the_end_of_a_month(months: None) -> None:
    agent = make_agent()
    send(agent, "before")
    split_now()
    settle()
    start = journal.fetch_head()
    assert start != Cursor()
    send(agent, "after")
    settle()
    whole = journal.fetch_stream(Cursor())
    assert {partition_of(row["id"]) for row in whole} == set(names())
    assert [row["id"] for row in journal.fetch_stream(start)] == [whole[-1]["id"]]
    assert str(whole[-1]["id"]) == journal.fetch_head().id


@pytest.mark.django_db(transaction=True)
def test_a_month_is_dropped_beside_a_reader_and_no_move_waits(months: None, elsewhere: Any) -> None:
    """A drop that a long reader delays continues at the next call."""
    agent = make_agent()
    lay_out(in_months(2), months=0)
    journal_months.make_months(now=in_months(2))
    past = list_partitions()[1]
    gone = insert_event(agent, after=in_months(2) + DAY - timezone.now())
    assert partition_of(gone) == past.name
    with transaction.atomic():
        assert Event.objects.filter(pk=gone).exists()  # a reader of all partitions

        def drop() -> None:
            with connection.cursor() as cursor:
                cursor.execute("set lock_timeout = '200ms'")
            journal_months.drop_month(past)

        with pytest.raises(Busy):
            elsewhere(drop).result(PATIENCE_S)
        elsewhere(lambda: send(agent, "meanwhile")).result(PATIENCE_S)
        assert Event.objects.filter(kind="instruction.queued").count() == 1
    halfway = journal_months.list_months_past(before=in_months(3))[-1]
    assert (halfway.name, halfway.is_detaching) == (past.name, True)
    journal_months.drop_month(halfway)
    assert past.name not in names() and not Event.objects.filter(pk=gone).exists()
    assert list(audit.audit()) == []


@pytest.mark.django_db(transaction=True)
def test_a_drop_that_was_interrupted_halfway_is_finished(months: None) -> None:
    journal_months.make_months(now=in_months(2))
    month = list_partitions()[1]
    with connection.cursor() as cursor:
        # With a view of the month, it can be detached and not deleted.
        cursor.execute(f"create view month_report as select id from {month.name}")
        try:
            with pytest.raises(DatabaseError, match="month_report depends on"):
                journal_months.drop_month(month)
        finally:
            cursor.execute("drop view month_report")
    assert month.name not in names() and exists(month.name)
    assert journal_months.drop_detached() == 1
    assert journal_months.drop_detached() == 0
    assert not exists(month.name)


@pytest.mark.django_db(transaction=True)
def test_a_month_that_someone_detached_or_restored_stays(months: None, elsewhere: Any) -> None:
    """Also after a drop of it was put off before it had detached anything."""
    journal_months.make_months(now=in_months(2))
    month, restored = list_partitions()[1], "ledger_event_201901"
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("lock table only ledger_event in share update exclusive mode")

        def drop() -> None:
            with connection.cursor() as own:
                own.execute("set lock_timeout = '200ms'")
            journal_months.drop_month(month)

        with pytest.raises(Busy):
            elsewhere(drop).result(PATIENCE_S)
    assert list_partitions()[1] == replace(month, is_marked=True)
    assert journal_months.drop_detached() == 0
    assert list_partitions()[1] == month
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"alter table ledger_event detach partition {month.name}")
            cursor.execute(f"create table {restored} (like ledger_event including all)")
            with pytest.raises(Busy):  # a run that has archived it meanwhile
                journal_months.drop_month(month)
            assert journal_months.drop_detached() == 0
            assert exists(month.name) and exists(restored)
        finally:
            cursor.execute(f"drop table if exists {month.name}, {restored}")


def exists(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("select to_regclass(%s) is not null", [table])
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_the_audit_begins_where_the_journal_does(months: None) -> None:
    """A history without its first events is no finding; a wrong state after them is one."""
    agent = make_agent()
    task, lost = make_task(agent), make_task(agent)
    sent = send(agent, "Look at it")
    time.sleep(0.002)  # ids count milliseconds
    split_now()
    claim(agent, task=task)
    young = make_task(agent)
    journal_months.drop_month(list_partitions()[0])
    assert Event.objects.about(sent).count() == Event.objects.about(lost).count() == 0
    assert [each.to_state for each in Event.objects.about(task)] == ["running"]
    assert list(audit.audit()) == []
    rows = Task.objects.filter(pk__in=[task, young])
    rows.update(state="done", current_attempt=None, completed_at=timezone.now())
    found = {each.subject for each in audit.audit() if each.what == "task"}
    assert found == {str(task), str(young)}


def test_the_planner_hears_of_growth_once(fresh: None, agent: Agent) -> None:
    with connection.cursor() as cursor:
        # what other tests left there: the planner's figures are not rolled back
        cursor.execute(f"analyze {journal_months.PARENT}")
        cursor.execute(
            "insert into ledger_event (project_id, kind, subject_type, subject_id, actor_type)"
            " select %s, 'agent.heard', 'agent', %s, 'system' from generate_series(1, 5000)",
            [agent.project_id, agent.pk],
        )
        cursor.execute(f"analyze {names()[0]}")
    assert journal_months.analyze_if_stale() is True
    assert journal_months.analyze_if_stale() is False


def test_the_floor_of_a_time_is_below_its_ids_in_sql_as_in_python() -> None:
    at = datetime(2026, 3, 29, 1, 30, 0, 123000, tzinfo=UTC)
    with connection.cursor() as cursor:
        cursor.execute("set local timezone = 'Europe/Berlin'")
        cursor.execute(
            "select ledger_event_floor(%s), ledger_event_floor(null), ledger_event_floor(%s, '1 day')",
            [at, at],
        )
        floor, unknown, day_before = cursor.fetchone()
    assert floor == journal_months.bound_of(at) <= first_id(at)
    assert unknown.int == 0 and day_before == journal_months.bound_of(at - DAY)
