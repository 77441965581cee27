"""S2.30: One timer for each session and window, on a real Redis and with the real queue."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
import redis
from django.conf import settings as django_settings

from ledger.models import Session
from ledger.sessions import batches
from ledger.sessions.storing import Stored
from retries.sessions import buffering, processing, sweeping
from retries.sessions.buffering import (
    BUFFER_JOB,
    INSERT_JOB,
    InsertNewMessage,
    announce,
    check_buffer_timer_or_set,
    connect_redis,
    insert_new_message,
)
from retries.sessions.processing import buffer_new_message
from retries.trackers.tracker import Batch, ToolBox
from tests.conftest import Api
from tests.retries.sessions.worlds import forget_jobs, make_session, sent_jobs, states, store
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Counting:
    """A tracker that counts its batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self) -> "Counting":
        return self

    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        self.sizes.append(len(batch.messages))


@pytest.fixture(autouse=True)
def tracker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    forget_jobs()
    found = Counting()
    monkeypatch.setitem(processing.TRACKERS, "todo", found)
    yield found
    forget_jobs()


def say(session: Session, count: int = 1) -> Stored:
    """Store messages one by one, as an agent sends them."""
    for _ in range(count):
        stored = store(session)
        announce(stored)
    return stored


def event_of(stored: Stored, *, flagged: bool = False) -> InsertNewMessage:
    return InsertNewMessage(
        str(stored.project_id), str(stored.session_id), str(stored.message_ids[-1]), flagged
    )


def key(session: Session) -> str:
    return f"buffer_timer.{session.project_id}.{session.id}"


def test_the_first_message_sets_the_timer(coder: Api) -> None:
    """S2.14, S2.15, S2.20"""
    id = coder("POST", "/sessions", {}).body["id"]
    coder("POST", f"/sessions/{id}/messages", {"role": "user", "content": "Hi"})
    session = Session.objects.get(pk=id)
    assert connect_redis().get(key(session)) == b"1"
    ttl = django_settings.TENFOUR["SESSION_MESSAGE_BUFFER_TTL_SECONDS"]
    assert 0 < connect_redis().ttl(key(session)) <= ttl == 8
    (job,) = sent_jobs(session.id)
    assert job["name"] == BUFFER_JOB and job["eta"]
    assert job["event"] == {
        "project_id": str(session.project_id),
        "session_id": id,
        "message_id": str(session.message_set.get().id),
        "skip_latest_check": True,
    }


def test_later_messages_of_the_window_set_none() -> None:
    """S2.16, S2.26, S2.28: fifteen messages set one timer; the sixteenth rings at once."""
    session = make_session()
    say(session)
    connect_redis().expire(key(session), 5)
    say(session, 14)
    assert len(sent_jobs(session.id)) == 1
    assert connect_redis().ttl(key(session)) <= 5, "a later message extended the timer"
    last = say(session)
    jobs = sent_jobs(session.id)
    assert [(job["eta"] is None, job["event"]["skip_latest_check"]) for job in jobs] == [
        (False, True),
        (True, False),
    ]
    assert jobs[1]["event"]["message_id"] == str(last.message_ids[-1])


def test_messages_that_find_others_waiting_ask_for_no_timer() -> None:
    """S2.16: nothing is asked of Redis, unless a worker has just taken what waited."""
    session = make_session()
    say(session)
    connect_redis().delete(key(session))
    say(session)
    assert connect_redis().get(key(session)) is None and len(sent_jobs(session.id)) == 1
    lock = batches.take_lock(session.id)
    assert lock
    say(session)
    assert connect_redis().get(key(session)) == b"1" and len(sent_jobs(session.id)) == 2
    batches.release_lock(lock)


def test_sessions_and_projects_have_timers_of_their_own() -> None:
    """S2.17"""
    one, other = make_session(), make_session()
    say(one)
    say(other)
    assert [len(sent_jobs(each.id)) for each in (one, other)] == [1, 1]
    assert check_buffer_timer_or_set(uuid4(), one.id, 8)
    assert not check_buffer_timer_or_set(one.project_id, one.id, 8)


def test_another_process_sees_the_timer_and_it_ends() -> None:
    """S2.18, S2.19"""
    session, foreign = uuid4(), uuid4()
    assert check_buffer_timer_or_set(session, foreign, 1)
    assert check_buffer_timer_or_set(session, "ours", 60)
    code = (
        "import django; django.setup()\n"
        "from retries.sessions.buffering import check_buffer_timer_or_set as check\n"
        f"print(check('{session}', 'ours', 60), check('{session}', 'theirs', 60))"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    child = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert child.stdout.split() == ["False", "True"]
    assert not check_buffer_timer_or_set(session, "theirs", 60)
    wait_until(lambda: check_buffer_timer_or_set(session, foreign, 1))


def test_the_timer_processes_whatever_is_pending(tracker: Counting) -> None:
    """S2.22, S2.23: though later messages came, and none of them set a timer."""
    session = make_session()
    first = say(session)
    say(session, 4)
    (job,) = sent_jobs(session.id)
    event = InsertNewMessage.from_json(job["event"])
    assert event == event_of(first, flagged=True)
    assert buffer_new_message(event) == 5
    assert tracker.sizes == [5]
    assert states(session) == {"success": 5}


def test_a_normal_event_is_ignored_once_a_newer_message_came(tracker: Counting) -> None:
    """S2.20, S2.21: by both consumers, without a lock or a timer."""
    session = make_session()
    old = store(session)
    new = store(session)
    body = event_of(old).as_json()
    del body["skip_latest_check"]  # of an older version
    event = InsertNewMessage.from_json(body)
    assert event.skip_latest_check is False
    insert_new_message(event)
    assert buffer_new_message(event) == 0
    assert connect_redis().get(key(session)) is None and sent_jobs(session.id) == []
    session.refresh_from_db()
    assert (session.lock_token, states(session), tracker.sizes) == (None, {"pending": 2}, [])
    insert_new_message(event_of(new))
    assert len(sent_jobs(session.id)) == 1
    assert buffer_new_message(event_of(new)) == 2
    with pytest.raises(KeyError):
        InsertNewMessage.from_json({"project_id": "a", "session_id": "b"})


def test_a_timer_that_meets_a_held_lock_comes_back(tracker: Counting) -> None:
    """S2.25, S2.29: it keeps its flag; the messages are processed once the lock is free."""
    session = make_session()
    first = say(session)
    say(session)
    forget_jobs()
    lock = batches.take_lock(session.id)
    assert lock
    assert buffer_new_message(event_of(first, flagged=True)) == 0
    (job,) = sent_jobs(session.id)
    assert (job["name"], job["event"]["skip_latest_check"]) == (INSERT_JOB, True)
    assert job["eta"], "it waits a second"
    batches.release_lock(lock)
    forget_jobs()
    insert_new_message(InsertNewMessage.from_json(job["event"]))
    (job,) = sent_jobs(session.id)
    assert (job["name"], job["eta"]) == (BUFFER_JOB, None)
    assert buffer_new_message(InsertNewMessage.from_json(job["event"])) == 2
    assert tracker.sizes == [2]
    assert states(session) == {"success": 2}


def test_a_timer_with_nothing_pending_ends_early(tracker: Counting) -> None:
    """S2.24, S2.27: a full buffer was processed at once, so its older timer has nothing to do."""
    session = make_session()
    first = say(session, 15)
    last = say(session)
    assert buffer_new_message(event_of(last)) == 16
    # a held lock shows that it is not even tried
    lock = batches.take_lock(session.id)
    assert lock
    forget_jobs()
    assert buffer_new_message(event_of(first, flagged=True)) == 0
    assert sent_jobs(session.id) == [], "it tried the lock"
    assert tracker.sizes == [16]


def test_a_lost_redis_loses_no_message(
    tracker: Counting, monkeypatch: pytest.MonkeyPatch, coder: Api
) -> None:
    """The messages are stored and the request succeeds; the sweep finds them."""
    session = make_session()
    away = redis.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.2)
    with monkeypatch.context() as patched:
        patched.setattr(buffering, "connect_redis", lambda: away)
        sent = coder(
            "POST", f"/sessions/{session.id}/messages", [{"role": "user", "content": "Hi"}] * 17
        )
        assert (sent.status_code, sent.body["pending"]) == (201, 17)
    assert sent_jobs(session.id) == []
    session.refresh_from_db()
    ttl = django_settings.TENFOUR["SESSION_MESSAGE_BUFFER_TTL_SECONDS"]
    later = session.last_message_at + timedelta(seconds=ttl + 1)
    assert sweeping.sweep_sessions(now=session.last_message_at)["announced"] == 0
    # an agent that keeps talking does not delay the sweep
    Session.objects.filter(pk=session.pk).update(last_message_at=later)
    assert sweeping.sweep_sessions(now=later)["announced"] == 1
    assert sweeping.sweep_sessions(now=later)["announced"] == 0, "once in its window"
    (job,) = sent_jobs(session.id)
    assert buffer_new_message(InsertNewMessage.from_json(job["event"])) == 17
    assert states(session) == {"success": 17}


def test_the_sweep_works_while_redis_is_away(
    tracker: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session()
    store(session, 2)
    session.refresh_from_db()
    away = redis.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.2)
    monkeypatch.setattr(buffering, "connect_redis", lambda: away)
    later = session.last_message_at + timedelta(seconds=60)
    sweeping.sweep_sessions(now=later)
    assert states(session) == {"success": 2}
