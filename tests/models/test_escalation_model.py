"""Escalations of one agent against a model in plain Python.

About tasks: attempts that are used up, what an agent reports, and its questions. About
instructions: those that are given up. After each step every row must stand where the model says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger import instructions
from ledger.access import audit
from ledger.errors import Invalid, InvalidTransition, VersionMismatch
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import DeadLetter, Event, Instruction, Task
from ledger.states import FailureType, InstructionState, TaskState
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries import breaker_actions
from retries.attempts import finishing, questions
from retries.attempts.report_fields import Report
from retries.escalations import answering, assignment, expiry, snoozing
from retries.escalations.answering import HumanRequired, UndoTooLate
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired, Question
from retries.models import Escalation
from retries.states import PERMISSION_ANSWERS, Answer, EscalationState, Reason
from retries.tasks import actions as task_actions
from tests.factories import NOW, make_agent, pull, send, tick
from tests.models.examples import run_machine
from tests.retries.moves import attempt_of, claim, make_task

ANN = Actor("user", "1", "ann")
A_SECOND = timedelta(seconds=1)
AT_ONCE = Backoff(base_delay_ms=1, max_delay_ms=1, jitter=False)
UNDO_FOR = timedelta(seconds=10)
SHORTEST = timedelta(seconds=300)  # before a question of an agent may expire
REMINDED_AFTER = timedelta(hours=1)
A_DAY = timedelta(days=1)
ROUND = 3  # the questions of an agent that may expire without a person's answer
CHOICES = [{"name": "yes", "title": "Drop it", "description": ""}]

WAITING = (TaskState.QUEUED, TaskState.RETRY)
ASKED = (TaskState.ESCALATED, TaskState.BLOCKED)
UNSETTLED = (InstructionState.QUEUED, InstructionState.DELIVERED)
ENDS = {Answer.SKIP: TaskState.SKIPPED, Answer.ABORT: TaskState.ABORTED}
OPEN, RESOLVED = EscalationState.OPEN, EscalationState.RESOLVED


@dataclass(eq=False)
class ModelTask:
    """What a task should be."""

    id: UUID
    round: int  # the attempts that a round grants
    limit: int
    state: TaskState = TaskState.QUEUED
    attempts: int = 0
    failures: int = 0
    attempt: UUID | None = None
    due_at: datetime | None = None
    should_stop: bool = False

    def queue(self, limit: int, due_at: datetime | None = None) -> None:
        self.state = TaskState.RETRY if due_at else TaskState.QUEUED
        self.limit, self.due_at = limit, due_at


@dataclass(eq=False)
class ModelInstruction:
    """What an instruction should be; nothing is said twice before it is given up."""

    id: UUID
    content: str
    state: InstructionState = InstructionState.QUEUED


@dataclass(eq=False)
class ModelEscalation:
    """What an escalation should be, and where its task stood when it was opened."""

    subject: ModelTask | ModelInstruction
    reason: Reason
    opened_at: datetime
    choices: Sequence[dict[str, str]] = ()
    expires_at: datetime | None = None
    on_expiry: str | None = None
    was: tuple[Any, ...] = ()
    state: EscalationState = OPEN
    action: Answer | None = None
    words: str = ""
    undo_until: datetime | None = None
    remind_at: datetime | None = None
    snoozed_until: datetime | None = None
    assignee: int | None = None
    version: int = 1
    comments: int = 0
    resent_as: UUID | None = None
    cancelled: int | None = None

    def __post_init__(self) -> None:
        self.remind_at = self.opened_at + REMINDED_AFTER
        if isinstance(self.subject, ModelTask):
            task = self.subject
            self.was = (task.state, task.attempts, task.limit, task.failures)

    @property
    def is_question(self) -> bool:
        return self.reason in (Reason.AGENT_QUESTION, Reason.QUESTIONS_EXHAUSTED)

    def close(self, to: EscalationState) -> None:
        self.state, self.snoozed_until = to, None
        self.version += 1

    @property
    def refusal(self) -> type[Exception]:
        """What an answer raises when the escalation is closed."""
        return EscalationExpired if self.state == EscalationState.EXPIRED else AlreadyResolved


@dataclass
class Model:
    tasks: list[ModelTask] = field(default_factory=list)
    instructions: list[ModelInstruction] = field(default_factory=list)
    escalations: dict[UUID, ModelEscalation] = field(default_factory=dict)

    def tasks_in(self, *states: TaskState) -> list[ModelTask]:
        return [task for task in self.tasks if task.state in states]

    def instructions_in(self, *states: InstructionState) -> list[ModelInstruction]:
        return [each for each in self.instructions if each.state in states]

    def about(self, subject: ModelTask | ModelInstruction) -> list[ModelEscalation]:
        return [each for each in self.escalations.values() if each.subject is subject]

    def open(self) -> list[ModelEscalation]:
        return [each for each in self.escalations.values() if each.state == OPEN]

    def withdraw(self, task: ModelTask) -> None:
        for each in self.about(task):
            if each.state == OPEN:
                each.close(EscalationState.WITHDRAWN)

    def count_questions(self, task: ModelTask) -> int:
        """Return how many questions the agent has asked since a person's last answer."""
        count = 0
        for each in self.about(task):
            count = 0 if each.state == RESOLVED else count + each.is_question
        return count


class EscalationMachine(RuleBasedStateMachine):
    """One agent with its escalations; each example is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.rollback = transaction.atomic()
        self.rollback.__enter__()
        self.agent = make_agent("modeled")
        self.ann = User.objects.create_superuser("ann")
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

    def pick_task(self, data: Any, *states: TaskState) -> ModelTask:
        task: ModelTask = data.draw(st.sampled_from(self.model.tasks_in(*states)))
        return task

    def pick(self, data: Any, *, is_open: bool) -> tuple[UUID, ModelEscalation]:
        found = [*self.model.escalations.items()]
        number = data.draw(
            st.sampled_from(
                [n for n, (_, each) in enumerate(found) if is_open == (each in self.open)]
            )
        )
        return found[number]

    @property
    def open(self) -> list[ModelEscalation]:
        return self.model.open()

    @property
    def closed(self) -> list[ModelEscalation]:
        return [each for each in self.model.escalations.values() if each.state != OPEN]

    def opened(self, subject: ModelTask | ModelInstruction, reason: Reason, **more: Any) -> None:
        """Expect an escalation that was just opened."""
        about = "task_id" if isinstance(subject, ModelTask) else "instruction_id"
        id = Escalation.objects.open().get(**{about: subject.id}).pk
        assert id not in self.model.escalations
        self.model.escalations[id] = ModelEscalation(subject, reason, self.now, **more)

    # ---- what happens to tasks

    @initialize(attempts=st.integers(1, 2))
    def start_first(self, attempts: int) -> None:
        self.start(attempts)

    @precondition(lambda self: len(self.model.tasks_in(TaskState.RUNNING, *WAITING, *ASKED)) < 3)
    @rule(attempts=st.integers(1, 2))
    def start(self, attempts: int) -> None:
        """Enqueue a task and let its agent start what is next."""
        id = make_task(
            self.agent,
            now=self.now,
            max_attempts=attempts,
            on_exhausted="escalate",
            backoff=AT_ONCE,
            lease_s=86_400,
        )
        self.model.tasks.append(ModelTask(id, attempts, attempts))
        self.claim()

    @precondition(lambda self: self.model.tasks_in(*WAITING))
    @rule()
    def claim(self) -> None:
        """Start the task of an answer at its time, and not before."""
        breaker_actions.reset([self.agent], stamp=self.stamp)
        found = claim(self.agent, now=self.now)
        due = [
            task
            for task in self.model.tasks_in(*WAITING)
            if task.due_at is None or task.due_at <= self.now
        ]
        assert bool(found.rows) == bool(due)
        if found.rows:
            [task] = [task for task in due if task.id == found.rows[0]["id"]]
            task.state, task.attempt, task.due_at = TaskState.RUNNING, attempt_of(found), None
            task.attempts += 1

    def end_attempt(self, task: ModelTask, to: TaskState) -> bool:
        """Expect the end of an attempt; return False for a task that was asked to stop."""
        task.state, task.attempt = TaskState.ABORTED if task.should_stop else to, None
        return not task.should_stop

    @precondition(lambda self: self.model.tasks_in(TaskState.RUNNING))
    @rule(data=st.data(), status=st.sampled_from(["failure", "failure", "blocked", "success"]))
    def report(self, data: Any, status: str) -> None:
        task = self.pick_task(data, TaskState.RUNNING)
        assert task.attempt
        kind = FailureType.EXECUTION_ERROR if status == "failure" else None
        report = Report(status=status, type=kind, message="it broke")
        finishing.finish_attempt(task.attempt, report, caller=self.caller, now=self.now)
        if status == "success":
            self.end_attempt(task, TaskState.DONE)
        elif status == "blocked":
            if self.end_attempt(task, TaskState.BLOCKED):
                self.opened(task, Reason.BLOCKED)
        elif self.end_attempt(task, TaskState.RETRY):
            task.failures += 1
            if task.attempts >= task.limit:
                task.state = TaskState.ESCALATED
                self.opened(task, Reason.MAX_RETRIES_EXCEEDED)
        self.now += A_SECOND  # the backoff is over

    @precondition(lambda self: self.model.tasks_in(TaskState.RUNNING))
    @rule(
        data=st.data(),
        seconds=st.sampled_from([None, 300, 7200]),
        on_expiry=st.sampled_from(["retry", "fail"]),
    )
    def ask(self, data: Any, seconds: int | None, on_expiry: str) -> None:
        """After three questions without a person's answer the next one does not expire."""
        task = self.pick_task(data, TaskState.RUNNING)
        if task.should_stop:
            self.refuse_question(task, InvalidTransition, seconds, on_expiry)
            return
        question = self.send_question(task, seconds, on_expiry)
        expires = {"expires_at": question.expires_at, "on_expiry": question.on_expiry}
        reason = Reason.AGENT_QUESTION
        if self.model.count_questions(task) >= ROUND:
            reason, expires = Reason.QUESTIONS_EXHAUSTED, {}
        self.end_attempt(task, TaskState.ESCALATED)
        self.opened(task, reason, choices=CHOICES, **expires)

    @precondition(lambda self: len(self.open) < 3)
    @rule(data=st.data(), status=st.sampled_from(["ask", "ask", "failure", "blocked"]))
    def start_and_escalate(self, data: Any, status: str) -> None:
        self.start(attempts=1)
        if not self.model.tasks_in(TaskState.RUNNING):
            return
        if status == "ask":
            self.ask(data, seconds=300, on_expiry=data.draw(st.sampled_from(["retry", "fail"])))
        else:
            self.report(data, status)

    @precondition(lambda self: self.model.tasks_in(TaskState.RUNNING))
    @rule(data=st.data(), then=st.sampled_from([(299, "retry"), (300, "skip"), (300, "abort")]))
    def ask_badly(self, data: Any, then: tuple[int, str]) -> None:
        """A question leaves a person time, and ends its agent's task only as failed."""
        self.refuse_question(self.pick_task(data, TaskState.RUNNING), Invalid, *then)

    def refuse_question(
        self, task: ModelTask, refusal: type[Exception], seconds: int | None, on_expiry: str
    ) -> None:
        with pytest.raises(refusal):
            self.send_question(task, seconds, on_expiry)

    def send_question(self, task: ModelTask, seconds: int | None, on_expiry: str) -> Question:
        assert task.attempt
        question = Question(
            text="Drop the table?",
            choices=CHOICES,
            expires_at=self.now + timedelta(seconds=seconds) if seconds else None,
            on_expiry=on_expiry if seconds else None,
        )
        questions.ask(task.attempt, question, caller=self.caller, now=self.now)
        return question

    @precondition(lambda self: self.model.tasks_in(TaskState.RUNNING, *WAITING, *ASKED))
    @rule(data=st.data(), verb=st.sampled_from(["spare", "abort", "skip"]))
    def end_by_hand(self, data: Any, verb: str) -> None:
        """A person ends what a person is asked about; a producer's abort spares it."""
        task = self.pick_task(data, TaskState.RUNNING, *WAITING, *ASKED)
        if verb == "skip":
            skipped = task_actions.skip([task.id], stamp=self.stamp)
            assert bool(skipped) == (task.state != TaskState.RUNNING)
        else:
            task_actions.abort([task.id], spare_asked=verb == "spare", stamp=self.stamp)
        if task.state == TaskState.RUNNING:
            task.should_stop |= verb != "skip"
        elif task.state in WAITING or verb != "spare":
            task.state = TaskState.SKIPPED if verb == "skip" else TaskState.ABORTED
            self.model.withdraw(task)

    @precondition(lambda self: self.model.tasks_in(TaskState.RETRY))
    @rule(data=st.data())
    def retry_now(self, data: Any) -> None:
        task = self.pick_task(data, TaskState.RETRY)
        if task_actions.retry_now([task.id], stamp=self.stamp):
            task.due_at = self.now

    # ---- what happens to instructions

    @precondition(lambda self: len(self.model.instructions) < 4)
    @rule()
    def send(self) -> None:
        content = f"Note {len(self.model.instructions)}"
        id = send(self.agent, content, now=self.now, max_retries=0, on_failed="escalate")
        self.model.instructions.append(ModelInstruction(id, content))

    @precondition(lambda self: self.model.instructions_in(*UNSETTLED))
    @rule()
    def give_up(self) -> None:
        """Let the agent read everything and acknowledge nothing."""
        pull(self.agent, now=self.now)
        unsettled = self.model.instructions_in(*UNSETTLED)
        assert tick(self.now) == (0, len(unsettled))
        for each in unsettled:
            each.state = InstructionState.FAILED
            self.opened(each, Reason.INSTRUCTION_IGNORED)

    @precondition(lambda self: self.model.instructions)
    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        """An ack that comes too late answers no escalation."""
        each = data.draw(st.sampled_from(self.model.instructions))
        instructions.acknowledge_instruction(each.id, now=self.now)
        if each.state in UNSETTLED:
            each.state = InstructionState.ACKNOWLEDGED

    @precondition(lambda self: self.model.instructions_in(InstructionState.FAILED))
    @rule(data=st.data())
    def send_again(self, data: Any) -> None:
        """Sending a given-up instruction again answers its escalation with a retry."""
        old = data.draw(st.sampled_from(self.model.instructions_in(InstructionState.FAILED)))
        sent = answering.send_failed_again([old.id], channel="page", stamp=self.stamp)
        is_new = self.resent(old.content, sent.get(old.id))
        asked = [each for each in self.model.about(old) if each.state == OPEN]
        assert bool(sent) == (is_new or bool(asked))
        for each in asked:
            each.action, each.resent_as = Answer.RETRY, sent[old.id]
            each.close(RESOLVED)

    def resent(self, content: str, id: UUID | None) -> bool:
        """Expect a new instruction, unless one with this text is unsettled already."""
        unsettled = self.model.instructions_in(*UNSETTLED)
        if known := [each for each in unsettled if each.content == content]:
            assert id in (known[0].id, None)
            return False
        assert id is not None
        self.model.instructions.append(ModelInstruction(id, content))
        return True

    # ---- what people do with escalations

    @precondition(lambda self: self.open)
    @rule(data=st.data(), words=st.sampled_from(["yes", "Try the other door"]))
    def answer(self, data: Any, words: str) -> None:
        self.answer_with(data, data.draw(st.sampled_from(Answer)), words, is_from_page=False)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), action=st.sampled_from([Answer.RETRY, Answer.FIX]))
    def answer_on_page(self, data: Any, action: Answer) -> None:
        self.answer_with(data, action, "Try the other door", is_from_page=True)

    def answer_with(self, data: Any, action: Answer, words: str, *, is_from_page: bool) -> None:
        id, each = self.pick(data, is_open=True)
        choice = Choice(action, fix=words if action in (Answer.FIX, Answer.ANSWER) else "")
        is_for_others = action in (Answer.ACCEPT, *PERMISSION_ANSWERS)
        if is_for_others or (action == Answer.ANSWER and not each.is_question):
            with pytest.raises(Invalid):
                self.give_answer(id, choice, is_from_page)
            return
        done = self.give_answer(id, choice, is_from_page)
        if isinstance(each.subject, ModelTask):
            self.follow_answer(each, each.subject, action, is_from_page)
        elif action in (Answer.RETRY, Answer.FIX):
            self.resent(choice.fix or each.subject.content, done.resent_as_id)
            each.resent_as = done.resent_as_id
        elif action == Answer.ABORT:
            unsettled = self.model.instructions_in(*UNSETTLED)
            each.cancelled = len(unsettled)
            for other in unsettled:
                other.state = InstructionState.CANCELLED
        each.action, each.words = action, choice.fix
        each.close(RESOLVED)

    def give_answer(self, id: UUID, choice: Choice, is_from_page: bool, **more: Any) -> Escalation:
        return answering.answer(
            id,
            choice,
            among=Escalation.objects.all(),
            stamp=self.stamp,
            channel="page" if is_from_page else "api",
            undo_for=UNDO_FOR if is_from_page else timedelta(),
            **more,
        )

    def follow_answer(
        self, each: ModelEscalation, task: ModelTask, action: Answer, is_from_page: bool
    ) -> None:
        """A retry and a fix from the page wait for an undo; an answer costs no attempt."""
        if action in ENDS:
            task.state = ENDS[action]
            return
        if action == Answer.ANSWER:
            task.queue(task.limit + 1)
            return
        each.undo_until = self.now + UNDO_FOR if is_from_page else None
        task.queue(task.attempts + (task.round if action == Answer.RETRY else 1), each.undo_until)
        if action == Answer.RETRY:
            task.failures = 0

    @precondition(lambda self: self.model.escalations)
    @rule(data=st.data())
    def answer_too_late(self, data: Any) -> None:
        """A second answer, and the answer to an old version, are refused."""
        id, each = self.pick(data, is_open=not self.closed)
        choice = Choice(Answer.SKIP)
        if each.state != OPEN:
            with pytest.raises(each.refusal):
                self.give_answer(id, choice, is_from_page=True)
        elif each.version > 1:
            with pytest.raises(VersionMismatch):
                self.give_answer(id, choice, is_from_page=True, version=each.version - 1)

    @precondition(lambda self: self.closed)
    @rule(data=st.data())
    def undo(self, data: Any) -> None:
        """While the task still waits, its counters and its question are as they were."""
        closed = [id for id, each in self.model.escalations.items() if each in self.closed]
        undoable = [id for id in closed if self.can_undo(self.model.escalations[id])]
        id = data.draw(st.sampled_from(undoable or closed))
        each, every = self.model.escalations[id], Escalation.objects.all()
        if not undoable:
            with pytest.raises(UndoTooLate):
                answering.undo(id, among=every, stamp=self.stamp)
            return
        answering.undo(id, among=every, stamp=self.stamp)
        task = each.subject
        assert isinstance(task, ModelTask)
        task.state, task.attempts, task.limit, task.failures = each.was
        task.due_at = None
        each.state, each.action, each.words, each.undo_until = OPEN, None, "", None
        each.version += 1

    def can_undo(self, each: ModelEscalation) -> bool:
        task = each.subject
        return (
            isinstance(task, ModelTask)
            and task.state == TaskState.RETRY
            and task.attempts == each.was[1]
            and each.undo_until is not None
            and task.due_at == each.undo_until > self.now
        )

    @precondition(lambda self: self.model.escalations)
    @rule(data=st.data(), by_person=st.booleans())
    def withdraw(self, data: Any, by_person: bool) -> None:
        """An agent takes back what it asked, but not after several questions."""
        is_open = data.draw(st.booleans()) if self.open and self.closed else bool(self.open)
        id, each = self.pick(data, is_open=is_open)
        refusal: type[Exception] | None = None
        if not by_person and each.reason != Reason.AGENT_QUESTION:
            refusal = HumanRequired
        elif not each.is_question:
            refusal = InvalidTransition
        elif each.state != OPEN:
            refusal = each.refusal
        if refusal:
            with pytest.raises(refusal):
                self.take_back(id, by_person)
            return
        self.take_back(id, by_person)
        assert isinstance(each.subject, ModelTask)
        each.subject.queue(each.subject.limit + 1)
        each.close(EscalationState.WITHDRAWN)

    def take_back(self, id: UUID, by_person: bool) -> None:
        every = Escalation.objects.all()
        questions.withdraw(id, among=every, stamp=self.stamp, by_person=by_person)

    @precondition(lambda self: self.model.escalations)
    @rule(data=st.data(), verb=st.sampled_from(["snooze", "snooze", "assign", "comment"]))
    def look_after(self, data: Any, verb: str) -> None:
        if verb == "snooze":
            self.snooze(data, data.draw(st.sampled_from([None, 0, 60, 7200])))
        elif verb == "assign":
            self.assign(data, data.draw(st.sampled_from(["ann", None, "nobody"])))
        else:
            id = data.draw(st.sampled_from([*self.model.escalations]))
            assignment.comment(id, "Look", among=Escalation.objects.all(), stamp=self.stamp)
            self.model.escalations[id].comments += 1

    def snooze(self, data: Any, seconds: int | None) -> None:
        is_open = bool(self.open)
        id, each = self.pick(data, is_open=is_open)
        until = None if seconds is None else self.now + timedelta(seconds=seconds)
        refusal = Invalid if until == self.now else None if is_open else each.refusal
        if refusal:
            with pytest.raises(refusal):
                snoozing.snooze(id, until, among=Escalation.objects.all(), stamp=self.stamp)
            return
        snoozing.snooze(id, until, among=Escalation.objects.all(), stamp=self.stamp)
        if until:
            assert each.remind_at
            each.remind_at = max(each.remind_at, until)
        elif each.snoozed_until is None:
            return
        else:
            each.remind_at = self.now + REMINDED_AFTER
        each.snoozed_until = until
        each.version += 1

    def assign(self, data: Any, user: str | None) -> None:
        is_open = bool(self.open)
        id, each = self.pick(data, is_open=is_open)
        refusal = Invalid if user == "nobody" else None
        if refusal := refusal if is_open else each.refusal:
            with pytest.raises(refusal):
                assignment.assign(id, user, among=Escalation.objects.all(), stamp=self.stamp)
            return
        assignment.assign(id, user, among=Escalation.objects.all(), stamp=self.stamp)
        each.assignee = self.ann.pk if user else None
        each.version += 1

    # ---- what time does

    @rule(seconds=st.sampled_from([1, 9, 10, 300]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(seconds=st.sampled_from([0, 300, 7200, 86_400]))
    def run_clock(self, seconds: int) -> None:
        """Questions expire, snoozes end, and people are reminded ever less often."""
        self.now += timedelta(seconds=seconds)
        found = expiry.process_due(now=self.now)
        expired = [e for e in self.open if e.expires_at and e.expires_at <= self.now]
        for each in expired:
            assert isinstance(each.subject, ModelTask)
            if each.on_expiry == "retry":
                each.subject.queue(each.subject.limit + 1)
            else:
                each.subject.state = TaskState.FAILED
            each.close(EscalationState.EXPIRED)
        returned = [e for e in self.open if e.snoozed_until and e.snoozed_until <= self.now]
        for each in returned:
            each.snoozed_until = None
            each.version += 1
        reminded = [e for e in self.open if e.remind_at and e.remind_at <= self.now]
        for each in reminded:
            waited = max(REMINDED_AFTER, self.now - each.opened_at)
            each.remind_at = self.now + min(A_DAY, waited)
        counts = {"expired": expired, "returned": returned, "reminded": reminded}
        assert {name: found[name] for name in counts} == {k: len(v) for k, v in counts.items()}

    # ---- what must hold after each

    @invariant()
    def tasks_stand_where_the_model_says(self) -> None:
        names = ("state", "attempts", "attempt_limit", "retry_count")
        rows = Task.objects.values_list("pk", *names).order_by("pk")
        expected = {
            task.id: (task.state, task.attempts, task.limit, task.failures)
            for task in self.model.tasks
        }
        assert {id: tuple(values) for id, *values in rows} == expected
        dead = DeadLetter.objects.values_list("task_id", flat=True).order_by("pk")
        failed = [task.id for task in self.model.tasks_in(TaskState.FAILED)]
        assert sorted(dead) == sorted(failed)

    @invariant()
    def instructions_stand_where_the_model_says(self) -> None:
        rows = Instruction.objects.values_list("pk", "state", "content").order_by("pk")
        expected = {each.id: (each.state, each.content) for each in self.model.instructions}
        assert {id: tuple(values) for id, *values in rows} == expected

    @invariant()
    def escalations_stand_where_the_model_says(self) -> None:
        names = ("state", "reason", "choices", "expires_at", "on_expiry", "action", "fix")
        more = ("undo_until", "notify_again_at", "snoozed_until", "assignee_id", "version")
        last = ("resent_as_id", "cancelled")
        rows = Escalation.objects.values_list("pk", *names, *more, *last).order_by("pk")
        expected = {
            id: (
                *(e.state, e.reason, list(e.choices), e.expires_at, e.on_expiry, e.action, e.words),
                *(e.undo_until, e.remind_at, e.snoozed_until, e.assignee, e.version),
                *(e.resent_as, e.cancelled),
            )
            for id, e in self.model.escalations.items()
        }
        assert {id: tuple(values) for id, *values in rows} == expected

    @invariant()
    def just_what_waits_for_a_person_has_one_open_escalation(self) -> None:
        asked = Escalation.objects.open().exclude(task=None).order_by("task_id")
        assert list(asked.values_list("task_id", flat=True)) == sorted(
            task.id for task in self.model.tasks_in(*ASKED)
        )
        ignored = list(
            Escalation.objects.open()
            .exclude(instruction=None)
            .values_list("instruction_id", flat=True)
            .order_by("pk")
        )
        failed = {each.id for each in self.model.instructions_in(InstructionState.FAILED)}
        assert len(ignored) == len(set(ignored)) and set(ignored) <= failed

    @invariant()
    def comments_are_kept(self) -> None:
        count = Event.objects.filter(kind="escalation.commented").count()
        assert count == sum(each.comments for each in self.model.escalations.values())


@pytest.mark.django_db
def test_escalations_follow_the_model() -> None:
    """S1.38-47, and the escalations of design.md sections 3 and 5, in any order of moves."""
    run_machine(EscalationMachine, examples=25, steps=40)
