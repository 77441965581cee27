"""Statements read few of the journal's partitions, whether they are planned once or each time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.overview import breaker_marks
from ledger import journal
from ledger.database import sql
from ledger.journal_storage.months import list_partitions, month_of
from ledger.models import Event
from ledger.values.ids import first_id
from retries.insight.figures import idle_agents as idle_figures
from retries.journal_readers import metric_totals, new_words
from retries.journal_readers import positions as stream_position
from tests.factories import make_agent
from tests.journal_partitions import lay_out

pytestmark = pytest.mark.django_db
MONTHS = 24


@pytest.fixture
def two_years(db: None) -> None:
    lay_out(month_of(timezone.now() - timedelta(days=30 * MONTHS)), months=MONTHS)


def partitions_of(plan: str) -> set[str]:
    return {each.name for each in list_partitions()} & set(re.findall(r"ledger_event_\w+", plan))


def planned(statement: str, values: dict[str, Any], *, mode: str) -> set[str]:
    """Return the partitions that a prepared statement reads."""
    text, names = sql.numbered(statement)
    with connection.cursor() as cursor:
        cursor.execute(f"set local plan_cache_mode = {mode}")
        raw = cursor.connection.cursor()
        raw.execute(b"prepare pruned as " + text)
        given = ", ".join("null" if values[n] is None else f"'{values[n]}'" for n in names)
        raw.execute(f"explain (costs off) execute pruned{f' ({given})' if names else ''}")
        plan = "\n".join(row[0] for row in raw.fetchall())
        raw.execute("deallocate pruned")
    return partitions_of(plan)


POSITION = str(first_id(timezone.now()))
PROJECT = POSITION
START: dict[str, Any] = {"tx": "700", "id": POSITION, "project": None, "limit": 100, "size": 100}
BATCH: dict[str, Any] = {"after_tx": "700", "after_id": POSITION, "tx": "900", "id": POSITION}
RANGE: dict[str, Any] = {
    "project": PROJECT,
    "since": timezone.now() - timedelta(days=30),
    "floor": str(first_id(timezone.now() - timedelta(days=30))),
    "now": timezone.now(),
    "duty": timedelta(minutes=30),
    "silent": timedelta(minutes=5),
}
STATEMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "stream": (journal.STREAM, START),
    "head": (journal.HEAD, {}),
    "batch": (stream_position.LAST, START),
    "breakers": (breaker_marks.MOVES, RANGE),
    "idle": (idle_figures.IDLE, RANGE),
    "new words": (new_words.WRITE_TASKS, BATCH),
    "counts": (metric_totals.TOTALS[0].statement().partition("select ")[2], BATCH),
}


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_stream_reads_the_newest_months(two_years: None, name: str, mode: str) -> None:
    statement, values = STATEMENTS[name]
    if name == "counts":  # what it inserts
        statement = "select " + statement.partition("on conflict")[0]
    read = planned(statement, values, mode=mode)
    assert 1 <= len(read) <= 4 and len(list_partitions()) == MONTHS + 2


def test_a_stream_from_the_start_reads_all(two_years: None) -> None:
    values = START | {"tx": "0", "id": str(UUID(int=0))}
    for mode in ("force_generic_plan", "force_custom_plan"):
        assert len(planned(journal.STREAM, values, mode=mode)) == MONTHS + 2


def test_a_history_and_a_range_of_time_read_their_months(two_years: None) -> None:
    """Older months than the subject, and others than the range, are not opened."""
    month = timedelta(days=31)
    now = datetime.now(UTC)
    young = first_id(now - month)
    assert len(partitions_of(Event.objects.about(young).order_by("id").explain())) <= 4
    several = Event.objects.about_any([first_id(now), young]).order_by("-id")
    assert len(partitions_of(several.explain())) <= 4
    ranged = Event.objects.since(now - 12 * month).until(now - 11 * month)
    assert 1 <= len(partitions_of(ranged.order_by("id").explain())) <= 3


def test_the_pages_of_a_subject_read_no_older_months(two_years: None) -> None:
    """Its history in the admin, the activity about it, and its counts."""
    young = make_agent()
    client = Client()
    client.force_login(User.objects.create_superuser("mara"))
    with CaptureQueriesContext(connection) as captured:
        for path in (f"/admin/ledger/agent/{young.pk}/history/", f"/activity/?q=about:{young.pk}"):
            assert client.get(path).status_code == 200
    read = [each["sql"] for each in captured.captured_queries]
    about = [each for each in read if "ledger_event" in each and young.pk.hex in each]
    assert len(about) >= 3
    with connection.cursor() as cursor:
        for statement in about:
            cursor.execute(f"explain {statement}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert len(partitions_of(plan)) <= 4, statement
