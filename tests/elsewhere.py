"""A second connection, and how to know that it waits for a lock of ours."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections

from tests.waiting import PATIENCE_S


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a function on a connection of its own; the future raises what it raised."""

    def on_own_connection(work: Callable[[], Any]) -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"set lock_timeout = '{PATIENCE_S}s'")
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        yield lambda work: pool.submit(on_own_connection, work)


def waiting_for_a_lock() -> int:
    with connection.cursor() as cursor:
        # within a transaction who is connected stays as it was when first asked for
        cursor.execute("select pg_stat_clear_snapshot()")
        cursor.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database()"
        )
        return int(cursor.fetchone()[0])


@contextmanager
def blocked(future: Future[Any]) -> Iterator[None]:
    """Enter once the other connection waits for a lock of ours."""
    deadline = time.monotonic() + PATIENCE_S
    while not waiting_for_a_lock():
        assert not future.done() and time.monotonic() < deadline, "it did not wait"
        time.sleep(0.01)
    yield


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work` in `count` threads that start together; return each result or exception."""
    gate, found = threading.Barrier(count), [None] * count

    def run(n: int) -> None:
        try:
            connection.ensure_connection()
            gate.wait(PATIENCE_S)
            found[n] = work(n)
        except Exception as error:
            found[n] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return found
