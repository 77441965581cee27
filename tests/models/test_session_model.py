"""The buffers of sessions against a model in plain Python.

The model has what PostgreSQL and Redis have: messages, locks, timers and jobs. Jobs run in any
order, workers stop in the middle of a batch and come back, and Redis loses what it had. After each
step everything must stand where the model says, and at the end no message may be left behind.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

import pytest
import redis
from django.db import transaction
from django.test import TestCase
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledger.access import audit
from ledger.journal import SYSTEM, Stamp
from ledger.models import Message, Session
from ledger.sessions import batches, storing
from ledger.sessions.batches import Lock, LockLost, TakenBatch
from ledger.sessions.message_parts import Text
from ledger.sessions.storing import NewMessage
from ledger.sessions.tool_calls import ToolCall
from ledger.states import MessageState
from ledger.tokens import TrustedCaller
from retries.sessions import buffering, processing, retrying, sweeping
from retries.sessions.buffering import BUFFER_JOB, INSERT_JOB, InsertNewMessage, connect_redis
from retries.sessions.flushing import FlushExhausted, flush_session_message_blocking
from retries.trackers.tracker import Batch, ToolBox
from tests.factories import NOW, make_agent
from tests.models.examples import run_machine
from tests.retries.sessions.worlds import QUEUE, forget_jobs, make_session

TURNS, MOST = 16, 32  # of a full buffer, and of a batch
# Longer than a test runs: timers and locks end when the machine says.
HOUR = timedelta(hours=1)
PLANNED = ToolCall("append_messages_to_planning_section", {"message_ids": [0]})
OUTCOMES = st.sampled_from(["nothing", "finish", "fail", "plan", "plan, then fail"])
UNSETTLED = (MessageState.PENDING, MessageState.RUNNING)


class ScriptedTracker:
    """A tracker that does what the machine says next, and notes how large the batches were."""

    outcome: ClassVar[str] = "nothing"
    sizes: ClassVar[list[int]] = []

    def respond(self, batch: Batch, ledger: ToolBox) -> None:
        self.sizes.append(len(batch.messages))
        if "plan" in self.outcome:
            ledger.call_all([PLANNED])
        if "fail" in self.outcome:
            raise ValueError("The model said no.")
        if self.outcome == "finish":
            ledger.call_all([ToolCall("finish", {})])


# ---- the model


@dataclass
class ModelMessage:
    """What a message should be."""

    id: UUID
    state: MessageState
    stored_at: datetime
    returned: int = 0  # how often it came back from a lost worker
    is_planning: bool = False

    def settle(self, outcome: str, *, is_first: bool) -> None:
        self.is_planning |= is_first and "plan" in outcome
        self.state = MessageState.FAILED if "fail" in outcome else MessageState.SUCCESS


@dataclass
class ModelSession:
    """A buffer: its messages, its timer, and the owner of its lock."""

    session: Session
    messages: list[ModelMessage] = field(default_factory=list)
    has_timer: bool = False
    owner: UUID | None = None
    is_lock_live: bool = False

    def chosen(self, *states: MessageState) -> list[ModelMessage]:
        return [each for each in self.messages if each.state in states]

    @property
    def pending(self) -> list[ModelMessage]:
        return self.chosen(MessageState.PENDING)

    @property
    def timer_key(self) -> str:
        return f"buffer_timer.{self.session.project_id}.{self.session.pk}"

    def event(self, message_id: object, *, flagged: bool) -> InsertNewMessage:
        project, id = self.session.project_id, self.session.pk
        return InsertNewMessage(str(project), str(id), str(message_id), flagged)

    def owns(self, token: UUID) -> bool:
        return self.owner == token and self.is_lock_live

    def recover(self) -> None:
        """Return what a lost worker left to the buffer once; what has a place is done."""
        for each in self.chosen(MessageState.RUNNING):
            if each.is_planning:
                each.state = MessageState.SUCCESS
            else:
                each.state = MessageState.FAILED if each.returned else MessageState.PENDING
            each.returned += 1

    def process(self, outcome: str) -> list[int]:
        """Process the buffer, the oldest messages first; return the sizes of the batches."""
        self.recover()
        pending, sizes = self.pending, []
        for start in range(0, len(pending), MOST):
            batch = pending[start : start + MOST]
            sizes.append(len(batch))
            for place, each in enumerate(batch):
                each.settle(outcome, is_first=place == 0)
        return sizes


@dataclass(frozen=True)
class Job:
    """A job in the queue; one that waits has a time at which it may start."""

    name: str
    event: InsertNewMessage
    waits: bool


@dataclass
class StoppedWorker:
    """A worker that stopped in the middle of a batch."""

    of: ModelSession
    lock: Lock
    batch: TakenBatch
    messages: list[ModelMessage]


# ---- the machine


class SessionMachine(RuleBasedStateMachine):
    """Two sessions with buffers and one without; each example is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.rollback = transaction.atomic()
        self.rollback.__enter__()
        forget_jobs()
        self.now = NOW
        agent = make_agent("modeled")
        self.buffered = [ModelSession(make_session(agent)) for _ in range(2)]
        self.disabled = ModelSession(make_session(agent, disable_task_tracking=True))
        self.sessions = [*self.buffered, self.disabled]
        self.jobs: list[Job] = []
        self.workers: list[StoppedWorker] = []
        self.agrees = True  # at the last look

    def teardown(self) -> None:
        try:
            if self.agrees:
                self.end_everything()
            assert list(audit.audit()) == []
        finally:
            forget_jobs()
            connect_redis().delete(*(each.timer_key for each in self.sessions))
            transaction.set_rollback(True)
            self.rollback.__exit__(None, None, None)

    def end_everything(self) -> None:
        """Let every lock and timer run out: the clock alone must settle all messages."""
        for _ in range(4):
            for each in self.sessions:
                if each.is_lock_live:
                    self.end_lock(each)
                self.end_timer(each)
            self.now += 2 * HOUR
            self.sweep()
            for _ in range(len(self.jobs)):
                self.run_job(0, "nothing")
            self.everything_stands_where_the_model_says()
        left = [message for each in self.buffered for message in each.chosen(*UNSETTLED)]
        assert left == [], "messages stay in their buffer for ever"

    def draw(self, data: Any, sessions: Sequence[ModelSession]) -> ModelSession:
        return sessions[data.draw(st.integers(0, len(sessions) - 1))]

    # ---- what agents do

    @rule(data=st.data(), count=st.sampled_from([1, 1, 2, 14, 16, 33]), is_redis_away=st.booleans())
    def say(self, data: Any, count: int, is_redis_away: bool) -> None:
        """Only the first message of a window sets a timer; a full buffer rings at once."""
        one = self.draw(data, self.sessions)
        stored = self.store(one, count)
        if is_redis_away:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(buffering, "connect_redis", lambda: NOWHERE)
                self.announce(stored)
            return
        self.announce(stored)
        if len(one.pending) >= TURNS:
            last = one.event(one.messages[-1].id, flagged=False)
            self.jobs.append(Job(BUFFER_JOB, last, waits=False))
        elif len(one.pending) == count or (one.pending and one.owner):
            self.set_timer(one, one.messages[-1].id)

    def store(self, one: ModelSession, count: int) -> storing.Stored:
        stored = storing.store_messages(
            one.session.pk,
            [NewMessage("user", [Text("Go on")])] * count,
            caller=TrustedCaller(SYSTEM, project_id=one.session.project_id),
            now=self.now,
        )
        state = MessageState.DISABLED if one is self.disabled else MessageState.PENDING
        one.messages += [ModelMessage(id, state, self.now) for id in stored.message_ids]
        return stored

    def announce(self, stored: storing.Stored) -> None:
        with TestCase.captureOnCommitCallbacks(execute=True):
            buffering.announce(stored)

    def set_timer(self, one: ModelSession, message_id: object, *, waits: bool = True) -> bool:
        if one.has_timer:
            return False
        one.has_timer = True
        event = one.event(message_id, flagged=True)
        self.jobs.append(Job(BUFFER_JOB, event, waits=waits))
        return True

    @rule(data=st.data(), outcome=OUTCOMES)
    def flush(self, data: Any, outcome: str) -> None:
        """A flush processes all that waits, or gives up and touches nothing."""
        one = self.draw(data, self.sessions)
        with self.expect_batches(one, outcome) as expected:
            try:
                processed = flush_session_message_blocking(one.session.pk)
            except FlushExhausted:
                processed = -1
        assert processed == (sum(expected) if expected is not None else -1)

    @rule(data=st.data())
    def retry_failed(self, data: Any) -> None:
        one = self.draw(data, self.buffered)
        failed = one.chosen(MessageState.FAILED)
        for each in failed:
            each.state = MessageState.SUCCESS if each.is_planning else MessageState.PENDING
            each.returned = 0
        returned = [each for each in failed if not each.is_planning]
        with TestCase.captureOnCommitCallbacks(execute=True):
            found = retrying.retry_failed(one.session, stamp=Stamp(SYSTEM, self.now))
        assert found == len(returned)
        if returned:
            self.jobs.append(Job(BUFFER_JOB, one.event("", flagged=True), waits=False))

    # ---- what workers do

    def expect_batches(self, one: ModelSession, outcome: str) -> "ExpectedBatches":
        return ExpectedBatches(one, outcome)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), outcome=OUTCOMES)
    def run_some_job(self, data: Any, outcome: str) -> None:
        self.run_job(data.draw(st.integers(0, len(self.jobs) - 1)), outcome)

    def run_job(self, place: int, outcome: str) -> None:
        """Run a job from the queue: its event counts if it is flagged, or of the newest message."""
        raw = connect_redis().lindex(QUEUE, -1 - place)
        connect_redis().lrem(QUEUE, 1, raw)
        job, read = self.jobs.pop(place), read_job(raw)
        assert read == job
        one = next(each for each in self.buffered if str(each.session.pk) == job.event.session_id)
        newest = str(one.pending[-1].id) if one.pending else None
        counts = bool(newest) and (job.event.skip_latest_check or job.event.message_id == newest)
        if job.name == INSERT_JOB:
            buffering.insert_new_message(read.event)
            rings = job.event.skip_latest_check or len(one.pending) >= TURNS
            if counts and rings:
                self.jobs.append(Job(BUFFER_JOB, job.event, waits=False))
            elif counts:
                self.set_timer(one, job.event.message_id)
        elif not counts:
            ScriptedTracker.sizes.clear()
            assert processing.buffer_new_message(read.event) == 0
            assert ScriptedTracker.sizes == []
        else:
            with self.expect_batches(one, outcome) as expected:
                processed = processing.buffer_new_message(read.event)
            assert processed == sum(expected or [])
            if expected is None:
                self.jobs.append(Job(INSERT_JOB, job.event, waits=True))

    @rule(data=st.data())
    def stop_in_a_batch(self, data: Any) -> None:
        """A worker takes a batch and stops; a second one can't."""
        one = self.draw(data, self.buffered)
        lock = batches.take_lock(one.session.pk)
        assert (lock is None) == one.is_lock_live
        if lock is None:
            return
        one.recover()
        taken = one.pending[:MOST]
        batch = batches.begin_batch(lock, most=MOST, last=lock.last_order, now=self.now)
        assert [row["id"] for row in (batch.messages if batch else [])] == [e.id for e in taken]
        if batch is None:
            batches.release_lock(lock)
            one.owner = None
            return
        one.owner, one.is_lock_live = lock.token, True
        for each in taken:
            each.state = MessageState.RUNNING
        self.workers.append(StoppedWorker(one, lock, batch, taken))

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), outcome=OUTCOMES)
    def go_on(self, data: Any, outcome: str) -> None:
        """A stopped worker ends its batch, or changes nothing if it has lost its lock."""
        worker = self.workers.pop(data.draw(st.integers(0, len(self.workers) - 1)))
        one, token = worker.of, worker.lock.token
        ScriptedTracker.outcome = outcome
        is_lost = False
        try:
            processing.process_batch(worker.lock, worker.batch)
        except LockLost:
            is_lost = True
        assert is_lost is not one.owns(token)
        if one.owns(token):
            for place, each in enumerate(worker.messages):
                each.settle(outcome, is_first=place == 0)
        processing.release(worker.lock)
        if one.owner == token:
            one.owner, one.is_lock_live = None, False

    @precondition(lambda self: any(each.is_lock_live for each in self.sessions))
    @rule(data=st.data())
    def end_some_lock(self, data: Any) -> None:
        self.end_lock(self.draw(data, [each for each in self.sessions if each.is_lock_live]))

    def end_lock(self, one: ModelSession) -> None:
        past = timezone.now() - timedelta(seconds=1)
        Session.objects.filter(pk=one.session.pk).update(lock_until=past)
        one.is_lock_live = False

    # ---- what time and bad luck do

    @rule(data=st.data())
    def end_some_timer(self, data: Any) -> None:
        self.end_timer(self.draw(data, self.buffered))

    def end_timer(self, one: ModelSession) -> None:
        connect_redis().delete(one.timer_key)
        one.has_timer = False

    @rule()
    def lose_redis(self) -> None:
        """Every job and every timer is gone."""
        forget_jobs()
        self.jobs.clear()
        for each in self.sessions:
            self.end_timer(each)

    @rule(elapsed=st.sampled_from([timedelta(seconds=1), HOUR]))
    def wait(self, elapsed: timedelta) -> None:
        self.now += elapsed

    @rule()
    def sweep(self) -> None:
        """The clock finds what is overdue, and what a lost worker left."""
        recovered = announced = 0
        overdue = []
        for one in self.buffered:
            waits = one.chosen(*UNSETTLED)
            running = one.chosen(MessageState.RUNNING)
            is_late = bool(waits) and waits[0].stored_at <= self.now - HOUR
            if not one.is_lock_live and (running or is_late):
                overdue.append((one, one.pending[-1].id if one.pending else "", running))
        for one, newest, running in overdue:
            if running:
                recovered += 1
                one.recover()
                one.owner = None
            announced += self.set_timer(one, newest, waits=False)
        found = sweeping.sweep_sessions(now=self.now)
        assert found == {"recovered": recovered, "announced": announced}
        queued = read_jobs()
        assert Counter(queued) == Counter(self.jobs)
        self.jobs = queued  # sessions are found in any order

    # ---- what must hold after each

    @invariant()
    def everything_stands_where_the_model_says(self) -> None:
        self.agrees = False
        rows = Message.objects.order_by("session_id", "order").values_list(
            "id", "state", "recoveries", "planning"
        )
        assert list(rows) == [
            (each.id, each.state, each.returned, each.is_planning)
            for one in sorted(self.sessions, key=lambda one: one.session.pk)
            for each in one.messages
        ]
        counts = ("pending_count", "running_count", "success_count", "failed_count")
        names = ("message_count", "lock_token", *counts)
        stored = {row[0]: row[1:] for row in Session.objects.values_list("pk", *names)}
        for one in self.sessions:
            expected = [len(one.chosen(MessageState(name[:-6]))) for name in counts]
            assert stored[one.session.pk] == (len(one.messages), one.owner, *expected)
            assert connect_redis().get(one.timer_key) == (b"1" if one.has_timer else None)
        assert read_jobs() == self.jobs
        self.agrees = True


class ExpectedBatches:
    """Compares the batches of a call with the model's; none at all while the lock is held."""

    def __init__(self, one: ModelSession, outcome: str) -> None:
        self.one = one
        self.expected = None if one.is_lock_live else one.process(outcome)
        ScriptedTracker.outcome = outcome
        ScriptedTracker.sizes.clear()

    def __enter__(self) -> list[int] | None:
        return self.expected

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            assert ScriptedTracker.sizes == (self.expected or [])
            if self.expected is not None:
                self.one.owner = None


NOWHERE = redis.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.2)


def read_jobs() -> list[Job]:
    """Return the jobs in the queue, oldest first."""
    return [read_job(raw) for raw in reversed(connect_redis().lrange(QUEUE, 0, -1))]


def read_job(raw: bytes) -> Job:
    """Return a job as Celery has written it to its queue."""
    message = json.loads(raw)
    event = json.loads(base64.b64decode(message["body"]))[1]["event"]
    headers = message["headers"]
    return Job(headers["task"], InsertNewMessage.from_json(event), headers["eta"] is not None)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    monkeypatch.setitem(processing.TRACKERS, "todo", ScriptedTracker)
    seconds = int(HOUR.total_seconds())
    settings.TENFOUR = settings.TENFOUR | {
        "SESSION_MESSAGE_BUFFER_TTL_SECONDS": seconds,
        "SESSION_MESSAGE_PROCESSING_TIMEOUT_SECONDS": seconds,
        "SESSION_MESSAGE_FLUSH_MAX_RETRIES": 2,
        "SESSION_MESSAGE_SESSION_LOCK_WAIT_SECONDS": 0,
    }
    assert settings.TENFOUR["SESSION_MESSAGE_BUFFER_MAX_TURNS"] == TURNS
    yield


@pytest.mark.django_db
@pytest.mark.usefixtures("scripted")
def test_buffers_follow_the_model() -> None:
    """S2.8, S2.10, S2.12-14, S2.16, S2.17, S2.20-29, S2.31"""
    run_machine(SessionMachine, examples=15, steps=30)
