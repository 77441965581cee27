"""PostgreSQL's time, continued by this process's steady clock."""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from ledger.database import server_time
from ledger.database.server_time import Measurement


@pytest.fixture(autouse=True)
def _own_measurement(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(server_time, "newest", None)
    monkeypatch.setattr(server_time, "logged_at", None)
    yield
    connection.close()


def test_agreeing_measurements_narrow_each_other() -> None:
    first = Measurement(low=100.0, high=100.4, at=50)
    exact = Measurement(low=100.29, high=100.31, at=60)
    assert exact.narrow(first) == exact
    slow = Measurement(low=99.0, high=109.0, at=70).narrow(exact)
    assert (round(slow.low, 3), round(slow.high, 3)) == (100.285, 100.315)
    assert slow.at == 70


def test_a_clock_that_was_set_replaces_what_was_known() -> None:
    known = Measurement(low=100.0, high=100.1, at=50)
    for low in (50.0, 3700.0):  # PostgreSQL's clock was set, or this host was suspended
        later = Measurement(low, low + 0.1, at=60)
        assert later.narrow(known) == later


@pytest.mark.django_db(transaction=True)
def test_it_is_postgresqls_time() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select clock_timestamp()")
        before = cursor.fetchone()[0]
        ours = server_time.now()
        cursor.execute("select clock_timestamp()")
        after = cursor.fetchone()[0]
    slack = timedelta(seconds=server_time.newest.high - server_time.newest.low)  # type: ignore[union-attr]
    assert before - slack <= ours <= after + slack


@pytest.mark.django_db(transaction=True)
def test_it_asks_once_until_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = []
    take = server_time.take_sample

    def count() -> Measurement:
        samples.append(take())
        return samples[-1]

    monkeypatch.setattr(server_time, "take_sample", count)
    for _ in range(1000):
        server_time.now()
    assert len(samples) == server_time.FIRST_SAMPLES
    monkeypatch.setattr(server_time, "MEASURE_EVERY_S", -1)

    def read(_: int) -> None:
        try:
            server_time.now()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))
    server_time.now()
    assert server_time.FIRST_SAMPLES < len(samples) <= server_time.FIRST_SAMPLES + 5


@pytest.mark.django_db(transaction=True)
def test_a_transaction_keeps_its_first_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have to be one that sets the isolation level, and a broken one takes no statement."""
    server_time.now()
    measured = server_time.newest
    monkeypatch.setattr(server_time, "MEASURE_EVERY_S", -1)
    with transaction.atomic():
        server_time.now()
        with connection.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read")
    with pytest.raises(DatabaseError), transaction.atomic():
        with pytest.raises(DatabaseError), connection.cursor() as cursor:
            cursor.execute("select 1 / 0")
        monkeypatch.setattr(server_time, "LONGEST_S", -1)
        server_time.now()
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    assert server_time.newest is measured
    with transaction.atomic():
        server_time.now()
    assert server_time.newest is not measured


@pytest.mark.django_db(transaction=True)
def test_a_wrong_clock_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = time.time
    monkeypatch.setattr(server_time, "MEASURE_EVERY_S", -1)
    with caplog.at_level(logging.WARNING, logger=server_time.__name__):
        server_time.now()
        assert not caplog.records
        monkeypatch.setattr(time, "time", lambda: real() - 90)
        assert -91 < server_time.measure_difference() < -89
        for _ in range(3):
            server_time.now()
    assert caplog.messages == [
        "this host's clock is 90 s behind PostgreSQL's: synchronize both hosts with a time server"
    ]
    monkeypatch.setattr(server_time, "LOG_EVERY_S", 0)
    server_time.now()
    assert len(caplog.messages) == 2


@pytest.mark.django_db(transaction=True)
def test_without_a_database_it_fails_as_other_statements_do() -> None:
    parameters = connection.settings_dict
    host, port = parameters["HOST"], parameters["PORT"]
    connection.close()
    parameters["HOST"], parameters["PORT"] = "127.0.0.1", "1"
    try:
        with pytest.raises(DatabaseError):
            server_time.now()
    finally:
        parameters["HOST"], parameters["PORT"] = host, port
