"""Two plans against a model in plain Python: imports, dependencies, aborts and restarts.

The second plan may need tasks of the first, also before the first is imported. After each step
every row must stand where the model says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger import planfile
from ledger.access import audit
from ledger.errors import InvalidTransition
from ledger.journal import Actor, Stamp
from ledger.models import DeadLetter, MissingNeed, Need, Plan, PlanState, Task
from ledger.plans import editing
from ledger.plans.import_diff import ImportOptions, PlanChanged
from ledger.states import FINAL, TaskState
from ledger.tasks.spec import read_number
from ledger.tokens import TrustedCaller
from retries import deadletters
from retries.attempts import finishing
from retries.attempts.report_fields import Report
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.plans import aborting, completing, importing, restarting
from retries.states import Answer, Dependents
from retries.tasks import actions as task_actions
from tests.factories import MINUTE, NOW, make_agent
from tests.models.examples import run_machine
from tests.retries.moves import attempt_of, claim

ANN = Actor("user", "1", "ann")
FIRST, SECOND = "03-01", "03-02"
CHECKPOINT = "checkpoint:decision"
WAITING = (TaskState.QUEUED, TaskState.RETRY)
ENDS = st.sampled_from(["success", "success", "failure", "blocked"])
NEED, NEED_SKIPPED, REPORTED = "dependency", "dependency_skipped", "reported"


# ---- what is imported


@dataclass(frozen=True)
class FileTask:
    """A task of a plan file; `needs` are whole refs of tasks or plans."""

    ref: str
    needs: tuple[str, ...] = ()
    title: str = "one"
    type: str = "auto"
    max_attempts: int = 1
    escalates: bool = True

    @property
    def plan(self) -> str:
        return self.ref.partition(":")[0]

    @property
    def full_title(self) -> str:
        """Return a title that no other task has: a merge refuses titles that swap places."""
        return f"{self.title} of {self.ref}"

    def as_json(self) -> dict[str, Any]:
        return {
            "ref": self.ref,
            "needs": list(self.needs),
            "title": self.full_title,
            "type": self.type,
            "max_attempts": self.max_attempts,
            "on_exhausted": "escalate" if self.escalates else "dead_letter",
        }


@st.composite
def plan_files(draw: st.DrawFn, plan: str) -> tuple[FileTask, ...]:
    """A task can need those before it; the first plan knows nothing of the second."""
    tasks: list[FileTask] = []
    for number in sorted(draw(st.sets(st.integers(1, 3), min_size=1))):
        before = [task.ref for task in tasks]
        if plan == SECOND:
            before += [FIRST, f"{FIRST}:task-1", f"{FIRST}:task-2"]
        least = 1 if plan == SECOND and not tasks else 0
        some = st.sets(st.sampled_from(before), min_size=least, max_size=2) if before else None
        tasks.append(
            FileTask(
                f"{plan}:task-{number}",
                tuple(sorted(draw(some))) if some is not None else (),
                draw(st.sampled_from(["one", "two"])),
                draw(st.sampled_from(["auto", "auto", "auto", CHECKPOINT])),
                draw(st.integers(1, 2)),
                draw(st.booleans()),
            )
        )
    return tuple(tasks)


# ---- the model


@dataclass(eq=False)
class ModelTask:
    """What a row should be; `needs` are rows, and `missing` refs that no one has imported."""

    file: FileTask
    run: int
    needs: set["ModelTask"] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    id: UUID | None = None
    state: TaskState = TaskState.BLOCKED
    reason: str | None = NEED
    attempts: int = 0
    limit: int = 0
    attempt: UUID | None = None
    started: int | None = None  # minute
    should_stop: bool = False
    letter: str | None = None  # of a failed task: open, dismissed or replayed
    replacement: "ModelTask | None" = None

    @property
    def plan(self) -> str:
        return self.file.plan

    @property
    def is_over(self) -> bool:
        return self.state in FINAL

    @property
    def is_met(self) -> bool:
        done = self.state in (TaskState.DONE, TaskState.SKIPPED)
        return done or self.letter == "dismissed"

    @property
    def is_asked(self) -> bool:
        return self.state == TaskState.ESCALATED or self.reason == REPORTED

    @property
    def unmet(self) -> int:
        return sum(not need.is_met for need in self.needs) + len(self.missing)

    @property
    def stands_for(self) -> "ModelTask":
        return self.replacement.stands_for if self.replacement else self

    def move(self, to: TaskState, reason: str | None = None) -> None:
        self.state, self.reason = to, reason
        if to != TaskState.RUNNING:
            self.attempt = None

    def begin(self) -> None:
        """A task that waits for nothing is queued; a checkpoint asks."""
        if self.unmet:
            self.move(TaskState.BLOCKED, NEED)
        elif self.file.type == CHECKPOINT:
            self.move(TaskState.ESCALATED)
        else:
            self.move(TaskState.QUEUED)

    def go_on(self) -> None:
        """Begin if the last need was met; what a person keeps blocked stays so."""
        if self.state == TaskState.BLOCKED and self.reason == NEED and not self.unmet:
            self.begin()

    def can_change(self) -> bool:
        waits = self.state == TaskState.QUEUED or (
            self.state == TaskState.BLOCKED and self.reason != REPORTED
        )
        return waits and not self.attempts


@dataclass
class ModelPlan:
    """What a plan should be; `source` is what the last import said of each task."""

    ref: str
    file: tuple[FileTask, ...] = ()
    source: dict[str, FileTask] = field(default_factory=dict)
    run: int = 1
    is_paused: bool = False
    is_aborted: bool = False
    is_completed: bool = False

    @property
    def state(self) -> PlanState:
        if self.is_aborted:
            return PlanState.ABORTED
        if self.is_completed:
            return PlanState.COMPLETED
        return PlanState.PAUSED if self.is_paused else PlanState.ACTIVE


@dataclass
class Model:
    """All rows, in the order in which they were made."""

    plans: dict[str, ModelPlan] = field(default_factory=dict)
    tasks: list[ModelTask] = field(default_factory=list)

    def chosen(self, *states: TaskState) -> list[ModelTask]:
        return [task for task in self.tasks if task.state in states]

    def current(self, plan: str) -> dict[str, ModelTask]:
        return {t.file.ref: t for t in self.tasks if t.plan == plan and not t.replacement}

    def dependents(self, task: ModelTask) -> list[ModelTask]:
        return [each for each in self.tasks if task in each.needs]

    def resolve(self, ref: str) -> list[ModelTask]:
        """Return the rows that a ref stands for: a plan's are those that none in it needs."""
        rows = self.current(ref.partition(":")[0])
        if ":" in ref:
            return [rows[ref]] if ref in rows else []
        needed = {need for row in rows.values() for need in row.needs}
        return [row for row in rows.values() if row not in needed]

    def rewire(self, task: ModelTask, refs: Sequence[str]) -> None:
        """Let the task need what these refs stand for now."""
        found = {ref: self.resolve(ref) for ref in refs}
        task.needs = {row for rows in found.values() for row in rows}
        task.missing = {ref for ref, rows in found.items() if not rows}

    # ---- what ends a task, and what follows

    def end(self, task: ModelTask, to: TaskState, dependents: str = Dependents.CONTINUE) -> None:
        """End a task, and treat its dependents as asked."""
        task.move(to)
        if to == TaskState.FAILED:
            task.letter = "open"
        if task.is_met:
            self.settle(task, dependents)

    def settle(self, task: ModelTask, dependents: str) -> None:
        for each in self.dependents(task):
            if dependents == Dependents.CONTINUE:
                each.go_on()
            elif dependents == Dependents.BLOCK:
                held = each.state == TaskState.BLOCKED and each.reason == NEED
                if held or each.state in WAITING:
                    each.move(TaskState.BLOCKED, NEED_SKIPPED)
            elif each.state in (*WAITING, TaskState.BLOCKED, TaskState.ESCALATED):
                each.move(TaskState.SKIPPED)
                self.settle(each, dependents)

    def fail(self, task: ModelTask) -> None:
        if task.attempts < task.limit:
            task.move(TaskState.RETRY)
        else:
            self.end(task, TaskState.ESCALATED if task.file.escalates else TaskState.FAILED)

    def abort(self, task: ModelTask) -> None:
        if task.state == TaskState.RUNNING:
            task.should_stop = True
        elif not task.is_over:
            self.end(task, TaskState.ABORTED)

    def abort_plan(self, plan: ModelPlan) -> bool:
        if plan.state not in (PlanState.ACTIVE, PlanState.PAUSED):
            return False
        plan.is_aborted = True
        for task in self.tasks:
            if task.plan == plan.ref:
                self.abort(task)
        return True

    # ---- what takes another's place

    def replace(self, pairs: dict[ModelTask, ModelTask]) -> None:
        """What waited for an old row waits for the new one; met needs and what is over stay."""
        for old, new in pairs.items():
            for each in self.dependents(old):
                if not each.is_over and not old.is_met:
                    each.needs = each.needs - {old} | {new}
            old.replacement = new

    def replay(self, old: ModelTask) -> ModelTask:
        new = ModelTask(old.file, old.run, limit=old.file.max_attempts)
        new.begin()
        self.tasks.append(new)
        self.replace({old: new})
        old.letter = "replayed"
        return new

    def restart(self, plan: ModelPlan, since: int | None) -> None:
        """Run again what is not done, with the same needs; some keep their attempts."""
        old = [row for row in self.current(plan.ref).values() if row.state != TaskState.DONE]
        plan.run += 1
        plan.is_aborted = plan.is_completed = plan.is_paused = False
        pairs = {
            row: ModelTask(row.file, plan.run, limit=row.file.max_attempts, missing={*row.missing})
            for row in old
        }
        for row, new in pairs.items():
            new.needs = {pairs.get(need, need.stands_for) for need in row.needs}
        for new in pairs.values():
            new.begin()
            self.tasks.append(new)
        self.replace(pairs)
        for row, new in pairs.items():
            row.letter = "replayed" if row.letter == "open" else row.letter
            if since is not None and row.started is not None and row.started >= since:
                new.attempts, new.started = row.attempts, row.started
                new.limit = max(row.limit, row.attempts + 1)

    # ---- imports

    def import_plan(self, ref: str, file: tuple[FileTask, ...], mode: str) -> type | None:
        """Write the file's tasks; return the refusal if there is one."""
        plan = self.plans.get(ref)
        if plan and plan.file == file:
            return None
        if plan and mode == "create":
            return PlanChanged
        if plan and plan.is_aborted:
            return InvalidTransition
        plan = self.plans.setdefault(ref, ModelPlan(ref))
        rows, source = self.current(ref), plan.source
        new = [each for each in file if each.ref not in rows]
        added = {each.ref: ModelTask(each, plan.run, limit=each.max_attempts) for each in new}
        self.tasks += added.values()
        changed: list[ModelTask] = []
        for each in file:
            row = rows.get(each.ref)
            if row and source.get(each.ref) != each and row.can_change():
                rewired = each.ref not in source or source[each.ref].needs != each.needs
                is_new = each.type == CHECKPOINT != row.file.type
                if is_new and row.state == TaskState.QUEUED:
                    row.move(TaskState.BLOCKED, NEED)
                row.file, row.limit = each, each.max_attempts
                changed.append(row)
                if not rewired:
                    continue
            elif row:
                continue
            self.rewire(added.get(each.ref) or rows[each.ref], each.needs)
        plan.source = {
            each.ref: each
            if each.ref in added or rows[each.ref] in changed
            else source.get(each.ref, each)
            for each in file
        }
        plan.file = file
        plan.is_completed &= not added
        for row in added.values():
            row.begin()
        for row in changed:
            self.recount(row)
        if mode == "replace":
            for each_ref, row in rows.items():
                spared = row.state == TaskState.RUNNING or row.is_asked
                if each_ref not in plan.source and not spared:
                    self.abort(row)
        for row in self.tasks:
            known = {r for r in row.missing if r in {ref, *added}}
            for each_ref in known:
                row.needs = row.needs | set(self.resolve(each_ref))
            row.missing = row.missing - known
            if known:
                self.recount(row)
        return None

    @staticmethod
    def recount(row: ModelTask) -> None:
        if row.state == TaskState.QUEUED and row.unmet:
            row.move(TaskState.BLOCKED, NEED)
        row.go_on()


# ---- the machine


class PlanMachine(RuleBasedStateMachine):
    """One agent with two plans; each example is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.rollback = transaction.atomic()
        self.rollback.__enter__()
        self.agent = make_agent("modeled")
        self.caller = TrustedCaller(ANN, agent=self.agent)
        self.minute = 0
        self.model = Model()

    def teardown(self) -> None:
        try:
            assert list(audit.audit()) == []
        finally:
            transaction.set_rollback(True)
            self.rollback.__exit__(None, None, None)

    @property
    def now(self) -> Any:
        return NOW + self.minute * MINUTE

    @property
    def stamp(self) -> Stamp:
        return Stamp(ANN, self.now)

    def pick(self, data: Any, tasks: Sequence[ModelTask]) -> ModelTask:
        return tasks[data.draw(st.integers(0, len(tasks) - 1))]

    def has(self, *states: TaskState) -> bool:
        return bool(self.model.chosen(*states))

    def plan(self, data: Any) -> tuple[ModelPlan, Plan]:
        ref = data.draw(st.sampled_from(sorted(self.model.plans)))
        return self.model.plans[ref], Plan.objects.get(ref=ref)

    def learn_ids(self) -> None:
        """Read the ids of the rows that an import or a restart has made."""
        ids = {(task.ref, task.run): task.pk for task in Task.objects.current()}
        for task in self.model.tasks:
            if task.id is None:
                task.id = ids[task.file.ref, task.run]

    # ---- imports

    @initialize(first=plan_files(FIRST), second=plan_files(SECOND), is_reversed=st.booleans())
    def start(
        self, first: tuple[FileTask, ...], second: tuple[FileTask, ...], is_reversed: bool
    ) -> None:
        """The second plan may be imported before what it needs."""
        for file in (second, first) if is_reversed else (first, second):
            self.import_plan(file[0].plan, file, "create")

    @rule(data=st.data(), mode=st.sampled_from(["create", "merge", "merge", "replace", "replace"]))
    def import_some_plan(self, data: Any, mode: str) -> None:
        ref = data.draw(st.sampled_from([FIRST, SECOND]))
        self.import_plan(ref, data.draw(plan_files(ref)), mode)

    @rule(data=st.data())
    def append_a_task(self, data: Any) -> None:
        """The same file with one more task, which needs the last of them."""
        plan, _ = self.plan(data)
        last = plan.file[-1].ref
        ref = f"{plan.ref}:task-{read_number(last) + 1}"
        self.import_plan(plan.ref, (*plan.file, FileTask(ref, (last,))), "merge")

    @rule(data=st.data(), title=st.sampled_from(["one", "two"]), attempts=st.integers(1, 2))
    def revise_a_task(self, data: Any, title: str, attempts: int) -> None:
        """The same file with another title and budget of one task."""
        plan, _ = self.plan(data)
        place = data.draw(st.integers(0, len(plan.file) - 1))
        revised = replace(plan.file[place], title=title, max_attempts=attempts)
        file = (*plan.file[:place], revised, *plan.file[place + 1 :])
        self.import_plan(plan.ref, file, "merge")

    def import_plan(self, ref: str, file: tuple[FileTask, ...], mode: str) -> None:
        document = {"ref": ref, "agent": "modeled", "tasks": [each.as_json() for each in file]}
        options = ImportOptions(mode=mode, allow_missing_needs=True)
        refusal = self.model.import_plan(ref, file, mode)
        try:
            importing.import_plan(
                self.agent.project, planfile.canonical(document), options=options, stamp=self.stamp
            )
        except (PlanChanged, InvalidTransition) as error:
            assert type(error) is refusal
        else:
            assert refusal is None
        self.learn_ids()

    # ---- what agents do

    @rule(end=ENDS | st.none())
    def claim(self, end: str | None) -> None:
        """An agent takes a task that may run, and may report about it at once."""
        found = claim(self.agent, now=self.now)
        can_run = {
            task.id: task
            for task in self.model.chosen(*WAITING)
            if not self.model.plans[task.plan].is_paused
        }
        assert bool(found.rows) == bool(can_run), found.reason
        if not can_run:
            return
        task = can_run[found.rows[0]["id"]]
        task.move(TaskState.RUNNING)
        task.attempt = attempt_of(found)
        task.attempts += 1
        task.started = self.minute if task.started is None else task.started
        if end:
            self.report(task, end)

    @precondition(lambda self: self.has(TaskState.RUNNING))
    @rule(data=st.data(), end=ENDS)
    def end_an_attempt(self, data: Any, end: str) -> None:
        self.report(self.pick(data, self.model.chosen(TaskState.RUNNING)), end)

    def report(self, task: ModelTask, status: str) -> None:
        """Report the end of an attempt; one that was asked to stop is aborted in any case."""
        assert task.attempt
        report = Report(status=status, message="" if status == "success" else "It broke")
        finishing.finish_attempt(task.attempt, report, caller=self.caller, now=self.now)
        if task.should_stop:
            self.model.end(task, TaskState.ABORTED)
        elif status == "success":
            self.model.end(task, TaskState.DONE)
        elif status == "blocked":
            task.move(TaskState.BLOCKED, REPORTED)
        else:
            self.model.fail(task)

    # ---- what people do with tasks

    @precondition(lambda self: any(task.is_asked for task in self.model.tasks))
    @rule(
        data=st.data(),
        action=st.sampled_from(["retry", "fix", "skip", "abort"]),
        dependents=st.sampled_from(Dependents.values),
    )
    def answer(self, data: Any, action: str, dependents: str) -> None:
        task = self.pick(data, [task for task in self.model.tasks if task.is_asked])
        words = "Try the other door" if action == "fix" else ""
        dependents = dependents if action == "skip" else Dependents.CONTINUE
        answering.answer(
            Escalation.objects.open().get(task=task.id).pk,
            Choice(Answer(action), fix=words, dependents=dependents),
            among=Escalation.objects.all(),
            stamp=self.stamp,
            channel="api",
        )
        if action == "skip":
            self.model.end(task, TaskState.SKIPPED, dependents)
        elif action == "abort":
            self.model.end(task, TaskState.ABORTED)
            self.model.abort_plan(self.model.plans[task.plan])
        else:
            granted = task.file.max_attempts if action == "retry" else 1
            task.move(TaskState.QUEUED)
            task.limit = task.attempts + granted

    @precondition(lambda self: any(not task.is_over for task in self.model.tasks))
    @rule(data=st.data(), dependents=st.sampled_from(Dependents.values))
    def skip(self, data: Any, dependents: str) -> None:
        rest = [task for task in self.model.tasks if not task.is_over]
        task = self.pick(data, [task for task in rest if self.model.dependents(task)] or rest)
        skipped = task_actions.skip([task.id], dependents=dependents, stamp=self.stamp)  # type: ignore[list-item]
        assert (task.id in skipped) == (task.state != TaskState.RUNNING)
        if skipped:
            self.model.end(task, TaskState.SKIPPED, dependents)

    @precondition(lambda self: any(not task.is_over for task in self.model.tasks))
    @rule(data=st.data())
    def abort(self, data: Any) -> None:
        task = self.pick(data, [task for task in self.model.tasks if not task.is_over])
        task_actions.abort([task.id], stamp=self.stamp)  # type: ignore[list-item]
        self.model.abort(task)

    @precondition(lambda self: any(task.reason == NEED_SKIPPED for task in self.model.tasks))
    @rule(data=st.data())
    def unblock(self, data: Any) -> None:
        task = self.pick(data, [task for task in self.model.tasks if task.reason == NEED_SKIPPED])
        task_actions.unblock([task.id], stamp=self.stamp)  # type: ignore[list-item]
        task.begin()

    @precondition(lambda self: any(task.letter == "open" for task in self.model.tasks))
    @rule(data=st.data())
    def replay(self, data: Any) -> None:
        """The new task takes the old one's place, unless the plan was aborted."""
        task = self.pick(data, [task for task in self.model.tasks if task.letter == "open"])
        letters = DeadLetter.objects.filter(task=task.id)
        ids = letters.values_list("pk", flat=True)
        replayed = deadletters.replay(ids, among=letters, stamp=self.stamp)
        assert bool(replayed) is not self.model.plans[task.plan].is_aborted
        for letter in replayed:
            self.model.replay(task).id = letter.replayed_as_id

    @precondition(lambda self: any(task.letter == "open" for task in self.model.tasks))
    @rule(data=st.data(), dependents=st.sampled_from(Dependents.values))
    def dismiss(self, data: Any, dependents: str) -> None:
        task = self.pick(data, [task for task in self.model.tasks if task.letter == "open"])
        letters = DeadLetter.objects.filter(task=task.id)
        ids = letters.values_list("pk", flat=True)
        deadletters.dismiss(ids, among=letters, dependents=dependents, stamp=self.stamp)
        task.letter = "dismissed"
        self.model.settle(task, dependents)

    # ---- what people and the clock do with plans

    @rule(data=st.data())
    def pause_or_resume(self, data: Any) -> None:
        plan, row = self.plan(data)
        can_pause, can_resume = plan.state == PlanState.ACTIVE, plan.state == PlanState.PAUSED
        assert bool(editing.resume([row.pk], stamp=self.stamp)) == can_resume
        if not can_resume:
            assert bool(editing.pause([row.pk], stamp=self.stamp)) == can_pause
        plan.is_paused = can_pause if can_pause or can_resume else plan.is_paused

    @rule(data=st.data())
    def abort_plan(self, data: Any) -> None:
        plan, row = self.plan(data)
        changed = aborting.abort([row.pk], stamp=self.stamp)
        assert bool(changed) == self.model.abort_plan(plan)

    @rule(data=st.data(), since=st.sampled_from([None, None, 0, 1, 2]), aborts_first=st.booleans())
    def restart(self, data: Any, since: int | None, aborts_first: bool) -> None:
        """Only what is over can be restarted, and only if something in it is not done."""
        plan, row = self.plan(data)
        self.minute += 1
        if aborts_first:
            aborting.abort([row.pk], stamp=self.stamp)
            self.model.abort_plan(plan)
        rest = [
            task for task in self.model.current(plan.ref).values() if task.state != TaskState.DONE
        ]
        can = plan.is_aborted or plan.is_completed
        can &= bool(rest) and all(task.is_over for task in rest)
        carry_over = None if since is None else NOW + since * MINUTE
        try:
            restarting.restart(row.pk, carry_over=carry_over, stamp=self.stamp)
        except InvalidTransition:
            assert not can
        else:
            assert can
            self.model.restart(plan, since)
            self.learn_ids()

    @rule()
    def complete(self) -> None:
        """The clock notes which plans are over, and which continue after a replay."""
        counts = {"completed": 0, "reopened": 0}
        for plan in self.model.plans.values():
            over = all(task.is_over for task in self.model.tasks if task.plan == plan.ref)
            if not plan.is_aborted and over != plan.is_completed:
                plan.is_completed = over
                counts["completed" if over else "reopened"] += 1
        assert completing.complete_plans(now=self.now) == counts

    # ---- what must hold after each

    @invariant()
    def rows_stand_where_the_model_says(self) -> None:
        names = ("state", "blocked_reason", "attempts", "attempt_limit", "run", "title", "type")
        rows = Task.objects.values_list("pk", "replaced_by", *names).order_by("pk")
        assert {pk: tuple(values) for pk, *values in rows} == {
            task.id: (
                task.replacement.id if task.replacement else None,
                task.state,
                task.reason,
                task.attempts,
                task.limit,
                task.run,
                task.file.full_title,
                task.file.type,
            )
            for task in self.model.tasks
        }
        plans = {row.ref: (row.state, row.run) for row in Plan.objects.order_by("pk")}
        assert plans == {ref: (plan.state, plan.run) for ref, plan in self.model.plans.items()}

    @invariant()
    def needs_stand_where_the_model_says(self) -> None:
        needs = set(Need.objects.values_list("task_id", "need_id"))
        tasks = self.model.tasks
        assert needs == {(task.id, need.id) for task in tasks for need in task.needs}
        missing = set(MissingNeed.objects.values_list("task_id", "ref"))
        assert missing == {(task.id, ref) for task in tasks for ref in task.missing}
        for task in self.model.chosen(*WAITING, TaskState.RUNNING):
            assert task.unmet == 0, "it began before its needs were met"

    @invariant()
    def questions_and_dead_letters_stand_for_their_tasks(self) -> None:
        asked = Escalation.objects.open().values_list("task_id", flat=True)
        assert set(asked) == {task.id for task in self.model.tasks if task.is_asked}
        letters = DeadLetter.objects.values_list("task_id", "closed_as")
        assert {id: how or "open" for id, how in letters} == {
            task.id: task.letter for task in self.model.tasks if task.letter
        }


@pytest.mark.django_db
def test_plans_follow_the_model(settings: Any) -> None:
    """S1.3, S1.32, S1.34, S1.35, S1.46: imports, needs, aborts, restarts, in any order."""
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_FAILURES": 10_000}
    run_machine(PlanMachine, examples=12, steps=40)
