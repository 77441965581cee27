"""Tasks, the breaker and escalations of one agent against a model in plain Python.

Hypothesis makes sequences of moves; after each, every row must stand where the model says, and at
the end the journal must be a legal history of the rows.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger.access import audit
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Attempt, Breaker, DeadLetter, Task
from ledger.states import FailureType, TaskState
from ledger.tasks import Change
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries import breaker, breaker_actions, deadletters
from retries.attempts import finishing, leases
from retries.attempts.report_fields import Report
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from retries.tasks import actions as task_actions
from tests.factories import NOW, make_agent
from tests.models.examples import run_machine
from tests.retries.moves import attempt_of, claim, fail, make_task

ANN = Actor("user", "1", "ann")
A_SECOND = timedelta(seconds=1)
AT_ONCE = Backoff(base_delay_ms=1, max_delay_ms=1, jitter=False)
CONFIG = breaker.CircuitBreakerConfig()
WAITING = (TaskState.QUEUED, TaskState.RETRY)
ASKED = (TaskState.ESCALATED, TaskState.BLOCKED)
FINAL = (TaskState.DONE, TaskState.FAILED, TaskState.SKIPPED, TaskState.ABORTED)


@dataclass
class ModelTask:
    """What a task should be."""

    round: int  # the attempts that a round grants
    escalates: bool  # what happens when no attempt is left
    limit: int = 0
    state: TaskState = TaskState.QUEUED
    attempts: int = 0
    attempt: UUID | None = None
    should_stop: bool = False
    replayed: bool = False


@dataclass
class ModelBreaker:
    """Five consecutive failures open it; after a minute, single probes decide."""

    state: str = "closed"
    failures: int = 0
    successes: int = 0
    opened_at: datetime = NOW
    probe: UUID | None = None
    is_kept: bool = False  # by a person, so the clock leaves it open

    def count(self, attempt: UUID | None, *, ok: bool, now: datetime) -> None:
        if self.state == "open" or (self.state == "half_open" and attempt != self.probe):
            return
        if not ok:
            self.failures += 1
            if self.state == "half_open" or self.failures >= CONFIG.failure_threshold:
                self.open(now)
        elif self.state == "closed":
            self.failures = 0
        else:
            self.successes += 1
            if self.successes >= CONFIG.success_threshold:
                self.state, self.failures = "closed", 0

    def open(self, now: datetime) -> None:
        self.state, self.opened_at, self.probe, self.is_kept = "open", now, None, False

    def half_open(self) -> None:
        self.state, self.successes, self.probe, self.is_kept = "half_open", 0, None, False

    def is_due(self, now: datetime) -> bool:
        late = now >= self.opened_at + CONFIG.open_for
        return self.state == "open" and late and not self.is_kept


@dataclass
class Model:
    tasks: dict[UUID, ModelTask] = field(default_factory=dict)
    breaker: ModelBreaker = field(default_factory=ModelBreaker)

    def chosen(self, *states: TaskState) -> list[UUID]:
        return [id for id, task in self.tasks.items() if task.state in states]

    def end(self, id: UUID, to: TaskState, *, ok: bool | None, now: datetime) -> None:
        """End the attempt. One that was asked to stop says nothing about the agent."""
        task = self.tasks[id]
        if ok is not None and not task.should_stop:
            self.breaker.count(task.attempt, ok=ok, now=now)
        task.state = TaskState.ABORTED if task.should_stop else to
        task.attempt = None

    def fail(self, id: UUID, *, now: datetime) -> None:
        """A failed attempt: try again while attempts are left, else give up."""
        task = self.tasks[id]
        if task.attempts < task.limit:
            to = TaskState.RETRY
        else:
            to = TaskState.ESCALATED if task.escalates else TaskState.FAILED
        self.end(id, to, ok=False, now=now)


class TaskMachine(RuleBasedStateMachine):
    """One agent with its tasks; each example is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.rollback = transaction.atomic()
        self.rollback.__enter__()
        self.agent = make_agent("modeled")
        self.now = NOW
        self.model = Model()
        self.caller = TrustedCaller(SYSTEM, agent=self.agent)

    def teardown(self) -> None:
        try:
            assert list(audit.audit()) == []
        finally:
            transaction.set_rollback(True)
            self.rollback.__exit__(None, None, None)

    @property
    def stamp(self) -> Stamp:
        return Stamp(ANN, self.now)

    def pick(self, data: Any, *states: TaskState) -> UUID:
        id: UUID = data.draw(st.sampled_from(self.model.chosen(*states)))
        return id

    def has(self, *states: TaskState) -> bool:
        return bool(self.model.chosen(*states))

    # ---- what happens to tasks

    @initialize(attempts=st.integers(1, 3), escalates=st.booleans())
    def enqueue_first(self, attempts: int, escalates: bool) -> None:
        """Most examples leave some rules out, among them the one that enqueues."""
        self.enqueue(attempts, escalates)

    @rule(attempts=st.integers(1, 3), escalates=st.booleans())
    def enqueue(self, attempts: int, escalates: bool) -> None:
        id = make_task(
            self.agent,
            now=self.now,
            max_attempts=attempts,
            on_exhausted="escalate" if escalates else "dead_letter",
            backoff=AT_ONCE,
            lease_s=86_400,
        )
        self.model.tasks[id] = ModelTask(attempts, escalates, limit=attempts)

    @rule()
    def claim(self) -> None:
        found = claim(self.agent, now=self.now)
        circuit, waiting = self.model.breaker, self.model.chosen(*WAITING)
        if circuit.is_due(self.now):
            circuit.half_open()
        probed = circuit.probe in {task.attempt for task in self.model.tasks.values()} - {None}
        if circuit.state == "open" or (circuit.state == "half_open" and probed):
            assert found.rows == [] and found.reason == "breaker_open"
            return
        if not waiting:
            assert found.rows == [] and found.reason == "no_task"
            return
        assert found.rows[0]["id"] in waiting
        task = self.model.tasks[found.rows[0]["id"]]
        task.state, task.attempt = TaskState.RUNNING, attempt_of(found)
        task.attempts += 1
        if circuit.state == "half_open":
            circuit.probe = task.attempt

    @precondition(lambda self: self.has(TaskState.RUNNING))
    @rule(data=st.data())
    def succeed(self, data: Any) -> None:
        id = self.pick(data, TaskState.RUNNING)
        task = self.model.tasks[id]
        assert task.attempt
        report = Report(status="success")
        finishing.finish_attempt(task.attempt, report, caller=self.caller, now=self.now)
        self.model.end(id, TaskState.DONE, ok=True, now=self.now)

    @precondition(lambda self: self.has(TaskState.RUNNING))
    @rule(data=st.data())
    def fail(self, data: Any) -> None:
        id = self.pick(data, TaskState.RUNNING)
        attempt = self.model.tasks[id].attempt
        assert attempt
        fail(self.agent, attempt, now=self.now, type=FailureType.EXECUTION_ERROR)
        self.model.fail(id, now=self.now)
        self.now += A_SECOND  # the backoff is over

    @precondition(lambda self: self.has(TaskState.RUNNING))
    @rule(data=st.data())
    def lose_lease(self, data: Any) -> None:
        id = self.pick(data, TaskState.RUNNING)
        Attempt.objects.filter(pk=self.model.tasks[id].attempt).update(
            lease_expires_at=self.now - A_SECOND
        )
        assert leases.expire(now=self.now) == 1
        self.model.fail(id, now=self.now)
        self.now += A_SECOND

    @precondition(lambda self: self.has(TaskState.RUNNING))
    @rule(data=st.data())
    def report_blocked(self, data: Any) -> None:
        id = self.pick(data, TaskState.RUNNING)
        attempt = self.model.tasks[id].attempt
        assert attempt
        report = Report(status="blocked", message="The key is missing")
        finishing.finish_attempt(attempt, report, caller=self.caller, now=self.now)
        self.model.end(id, TaskState.BLOCKED, ok=None, now=self.now)

    @precondition(lambda self: self.has(*ASKED))
    @rule(data=st.data(), action=st.sampled_from(["retry", "fix", "skip", "abort"]))
    def answer(self, data: Any, action: str) -> None:
        id = self.pick(data, *ASKED)
        escalation = Escalation.objects.open().get(task=id)
        words = "Try the other door" if action == "fix" else ""
        answering.answer(
            escalation.pk,
            Choice(Answer(action), fix=words),
            among=Escalation.objects.all(),
            stamp=self.stamp,
            channel="api",
        )
        task = self.model.tasks[id]
        if action == "retry":
            task.state, task.limit = TaskState.QUEUED, task.attempts + task.round
        elif action == "fix":
            task.state, task.limit = TaskState.QUEUED, task.attempts + 1
        else:
            task.state = TaskState.SKIPPED if action == "skip" else TaskState.ABORTED

    @precondition(lambda self: self.has(TaskState.RUNNING, *WAITING, *ASKED))
    @rule(data=st.data())
    def abort(self, data: Any) -> None:
        id = self.pick(data, TaskState.RUNNING, *WAITING, *ASKED)
        task_actions.abort([id], stamp=self.stamp)
        task = self.model.tasks[id]
        if task.state == TaskState.RUNNING:
            task.should_stop = True
        else:
            task.state = TaskState.ABORTED

    @precondition(lambda self: self.has(TaskState.RUNNING, *WAITING, *ASKED))
    @rule(data=st.data(), attempts=st.integers(1, 3))
    def change_max_attempts(self, data: Any, attempts: int) -> None:
        self.set_max_attempts(self.pick(data, TaskState.RUNNING, *WAITING, *ASKED), attempts)

    @precondition(lambda self: self.has(TaskState.RETRY))
    @rule(data=st.data())
    def lower_max_attempts(self, data: Any) -> None:
        self.set_max_attempts(self.pick(data, TaskState.RETRY), 1)

    def set_max_attempts(self, id: UUID, attempts: int) -> None:
        """Expect the limit to move along; an attempt that was begun or granted stays."""
        version = Task.objects.get(pk=id).version
        task_actions.change(id, Change(max_attempts=attempts), version=version, stamp=self.stamp)
        task = self.model.tasks[id]
        least = task.attempts + (task.state in WAITING)
        task.limit = max(least, task.limit + attempts - task.round)
        task.round = attempts

    @precondition(lambda self: self.has(TaskState.FAILED))
    @rule(data=st.data())
    def replay(self, data: Any) -> None:
        old = self.model.tasks[self.pick(data, TaskState.FAILED)]
        letters = DeadLetter.objects.filter(
            task=next(id for id, task in self.model.tasks.items() if task is old)
        )
        replayed = deadletters.replay(
            letters.values_list("pk", flat=True), among=letters.all(), stamp=self.stamp
        )
        assert bool(replayed) is not old.replayed
        for letter in replayed:
            letter.refresh_from_db()
            assert letter.replayed_as_id
            old.replayed = True
            self.model.tasks[letter.replayed_as_id] = ModelTask(
                old.round, old.escalates, limit=old.round
            )

    # ---- what happens to the breaker

    @rule()
    def sweep(self) -> None:
        circuit = self.model.breaker
        due = [self.agent.pk] if circuit.is_due(self.now) else []
        assert breaker.half_open_due(stamp=Stamp(SYSTEM, self.now)) == due
        if due:
            circuit.half_open()

    @rule()
    def trip(self) -> None:
        circuit = self.model.breaker
        changed = breaker_actions.trip([self.agent], reason="Look", stamp=self.stamp)
        assert bool(changed) == (circuit.state != "open")
        if changed:
            circuit.open(self.now)

    @precondition(lambda self: self.model.breaker.state != "closed")
    @rule()
    def keep_open(self) -> None:
        circuit = self.model.breaker
        changed = breaker_actions.keep_open([self.agent], reason="Wait", stamp=self.stamp)
        assert bool(changed) == (circuit.state != "closed" and not circuit.is_kept)
        if circuit.state == "half_open":
            circuit.open(self.now)
        circuit.is_kept = True

    @rule()
    def probe(self) -> None:
        changed = breaker_actions.probe([self.agent], stamp=self.stamp)
        assert bool(changed) == (self.model.breaker.state == "open")
        if changed:
            self.model.breaker.half_open()

    @rule()
    def close(self) -> None:
        circuit = self.model.breaker
        breaker_actions.reset([self.agent], stamp=self.stamp)
        circuit.state, circuit.failures, circuit.is_kept = "closed", 0, False

    @rule(seconds=st.sampled_from([1, 30, 60]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # ---- what must hold after each

    @invariant()
    def rows_stand_where_the_model_says(self) -> None:
        rows = Task.objects.values_list("pk", "state", "attempts", "attempt_limit").order_by("pk")
        expected = {
            id: (task.state.value, task.attempts, task.limit)
            for id, task in self.model.tasks.items()
        }
        assert {id: tuple(values) for id, *values in rows} == expected

    @invariant()
    def questions_and_dead_letters_stand_for_their_tasks(self) -> None:
        asked = Escalation.objects.open().values_list("task_id", flat=True).order_by("pk")
        assert sorted(asked) == sorted(self.model.chosen(*ASKED))
        letters = DeadLetter.objects.filter(replayed_as=None).values_list("task_id", flat=True)
        dead = [
            id for id in self.model.chosen(TaskState.FAILED) if not self.model.tasks[id].replayed
        ]
        assert sorted(letters.order_by("pk")) == sorted(dead)

    @invariant()
    def only_running_tasks_have_a_live_attempt(self) -> None:
        live = Attempt.objects.filter(outcome=None).values_list("pk", flat=True).order_by("pk")
        expected = [task.attempt for task in self.model.tasks.values() if task.attempt]
        assert sorted(live) == sorted(expected)

    @invariant()
    def breaker_stands_where_the_model_says(self) -> None:
        row = Breaker.objects.filter(pk=self.agent.pk).first()
        assert (row.state if row else "closed") == self.model.breaker.state
        kept = row is not None and row.kept_open_at is not None
        assert kept == self.model.breaker.is_kept
        if row and row.state == "closed":
            assert row.failures == self.model.breaker.failures


@pytest.mark.django_db
def test_tasks_follow_the_model() -> None:
    """The states of design.md and the breaker, in any order of moves."""
    run_machine(TaskMachine, examples=40, steps=40)
