"""S2.30: A flush waits for the session's lock a bounded number of tries."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from ledger.models import Session
from ledger.sessions import batches
from ledger.sessions.batches import Lock
from retries.sessions import flushing, processing
from retries.sessions.flushing import WAITERS, FlushExhausted, flush_session_message_blocking
from retries.trackers.tracker import Batch, ToolBox
from tests.conftest import Api
from tests.retries.sessions.worlds import make_session, states, store

pytestmark = pytest.mark.django_db(transaction=True)

TRIES = 4


class Quiet:
    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        """Find no tasks."""


class Tries(list[bool]):
    """Whether each try got the lock; after `misses`, the other worker's lock is released."""

    release: Callable[[], None] | None = None
    misses = -1


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Tries]:
    """Watch the tries, which happen as ever."""
    settings.TENFOUR = settings.TENFOUR | {
        "SESSION_MESSAGE_FLUSH_MAX_RETRIES": TRIES,
        "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS": 0.01,
    }
    seen = Tries()

    def take_lock(session_id: UUID) -> Lock | None:
        lock = batches_take_lock(session_id)
        seen.append(lock is not None)
        if len(seen) == seen.misses and seen.release:
            seen.release()
        return lock

    batches_take_lock = batches.take_lock
    monkeypatch.setattr(batches, "take_lock", take_lock)
    monkeypatch.setitem(processing.TRACKERS, "todo", Quiet)
    yield seen


def lock_elsewhere(session: Session) -> Lock:
    lock = batches.lock_of(
        batches.sql.run(
            batches.statements.TAKE_LOCK, session=session.id, ttl_s=60, in_transaction=False
        )[0]
    )
    return lock


def token(session: Session) -> UUID | None:
    session.refresh_from_db()
    found: UUID | None = session.lock_token
    return found


def test_a_free_lock_needs_one_try(tries: Tries) -> None:
    """S2.10"""
    session = make_session()
    store(session, 3)
    assert flush_session_message_blocking(session.id) == 3
    assert tries == [True]
    assert states(session) == {"success": 3}
    assert token(session) is None


def test_misses_are_tried_again(tries: Tries) -> None:
    """S2.11: N misses, then success: N + 1 tries."""
    session = make_session()
    store(session, 2)
    other = lock_elsewhere(session)
    tries.misses, tries.release = TRIES - 1, lambda: batches.release_lock(other)
    assert flush_session_message_blocking(session.id) == 2
    assert tries == [False] * (TRIES - 1) + [True]
    assert states(session) == {"success": 2}


def test_a_stuck_lock_is_given_up(tries: Tries, coder: Api) -> None:
    """S2.12, S2.13: exactly that many tries, 503 over HTTP, and the other's lock is untouched."""
    session = make_session()
    store(session)
    other = lock_elsewhere(session)
    with pytest.raises(FlushExhausted, match=f"after {TRIES} retries"):
        flush_session_message_blocking(session.id)
    assert tries == [False] * TRIES
    response = coder("POST", f"/sessions/{session.id}/flush")
    assert (response.status_code, response.body["code"]) == (503, "flush_exhausted")
    assert (response.body["tries"], response.body["retryable"]) == (TRIES, True)
    assert "Retry-After" in response
    assert token(session) == other.token
    assert states(session) == {"pending": 1}


def test_an_error_releases_the_lock(tries: Tries, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.13"""

    class Broken:
        def respond(self, batch: Batch, ledger: ToolBox) -> None:
            with connection.cursor() as cursor:
                cursor.execute("select pg_terminate_backend(pg_backend_pid())")

    session = make_session()
    store(session)
    monkeypatch.setitem(processing.TRACKERS, "todo", Broken)
    with pytest.raises(processing.AWAY):
        flush_session_message_blocking(session.id)
    connection.close()
    assert token(session) is None
    # the next one clears up: the tracker did nothing, so its messages wait again
    monkeypatch.setitem(processing.TRACKERS, "todo", Quiet)
    assert flush_session_message_blocking(session.id) == 1
    assert states(session) == {"success": 1}


def test_a_quarter_of_the_web_threads_may_flush(tries: Tries, coder: Api) -> None:
    session = make_session()
    store(session)
    taken = 0
    try:
        while WAITERS.acquire(blocking=False):
            taken += 1
        assert taken == max(1, flushing.THREADS // 4)
        response = coder("POST", f"/sessions/{session.id}/flush")
        assert (response.status_code, response.body["tries"]) == (503, 0)
        assert response["Retry-After"] == "1"
        assert tries == []
    finally:
        for _ in range(taken):
            WAITERS.release()
    assert coder("POST", f"/sessions/{session.id}/flush").body == {"processed": 1}
