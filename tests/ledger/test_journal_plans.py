"""Statements read few of the journal's partitions, whether they are planned once or each time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from ledger import journal, sql
from ledger.ids import first_id
from ledger.journal_months import list_partitions, month_of
from ledger.models import Event
from retries import metric_totals, stream_position
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
START: dict[str, Any] = {"tx": "700", "id": POSITION, "project": None, "limit": 100, "size": 100}
BATCH: dict[str, Any] = {"after_tx": "700", "after_id": POSITION, "tx": "900", "id": POSITION}
STATEMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "stream": (journal.STREAM, START),
    "head": (journal.HEAD, {}),
    "batch": (stream_position.LAST, START),
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
    ranged = Event.objects.since(now - 12 * month).until(now - 11 * month)
    assert 1 <= len(partitions_of(ranged.order_by("id").explain())) <= 3
