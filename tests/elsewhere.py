"""A second connection, and how to know that it waits for a lock of ours."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a function on a connection of its own; the future raises what it raised."""

    def on_own_connection(work: Callable[[], Any]) -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute("set lock_timeout = '10s'")
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        yield lambda work: pool.submit(on_own_connection, work)


def waiting_for_a_lock() -> int:
    with connection.cursor() as cursor:
        # within a transaction the view would say for ever what it said first
        cursor.execute("select pg_stat_clear_snapshot()")
        cursor.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database()"
        )
        return int(cursor.fetchone()[0])


@contextmanager
def blocked(future: Future[Any]) -> Iterator[None]:
    """Enter once the other connection waits for a lock of ours."""
    pause = threading.Event()
    for _ in range(500):
        if waiting_for_a_lock() or future.done():
            break
        pause.wait(0.01)
    assert not future.done(), "it did not wait"
    yield
