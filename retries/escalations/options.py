"""What a person can answer to an escalation, in the order of the buttons."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from ledger.models import Instruction, Task
from ledger.states import FINAL, TaskState
from ledger.text import truncate
from retries import dependents
from retries.escalations.record import Record, load_record
from retries.models import Escalation
from retries.states import Answer, Dependents, Reason

MOST_NAMES, NAME_LENGTH = 3, 60  # of the tasks that depend on one, in the text of its skip


@dataclass(frozen=True, slots=True)
class DependentsOption:
    """One of the things that can become of the dependents."""

    name: Dependents
    title: str


@dataclass(frozen=True, slots=True)
class Option:
    """An answer as it is offered."""

    name: Answer
    title: str
    description: str
    requires_text: bool = False
    confirm: bool = False
    dependents: tuple[DependentsOption, ...] = ()


def list_options(escalation: Escalation, record: Record | None = None) -> list[Option]:
    """What can be answered to an open one; `record` is that of its task, where it is at hand."""
    record = record or load_record(escalation)
    return task_options(escalation, record) if record else instruction_options(escalation)


def instruction_options(escalation: Escalation) -> list[Option]:
    agent = escalation.agent.name
    waiting = Instruction.objects.filter(agent=escalation.agent).awaiting_ack().count()
    one = waiting == 1
    withdraws = f"{waiting} instruction{'' if one else 's'} for {agent}"
    return [
        Option(
            Answer.FIX,
            "Send with other words",
            f"{agent} gets your words first of all, and is chased until it answers.",
            requires_text=True,
        ),
        Option(
            Answer.RETRY, "Send again", "The same words once more, first of all, from the start."
        ),
        Option(Answer.SKIP, "Leave it", "It stays given up; nothing is sent.", confirm=True),
        Option(
            Answer.ABORT,
            "Withdraw all that waits",
            f"Cancels the {withdraws} that wait{'s' if one else ''} for an answer."
            if waiting
            else "Nothing waits now.",
            confirm=True,
        ),
    ]


def task_options(escalation: Escalation, record: Record) -> list[Option]:
    task, agent, behind = record.task, escalation.agent.name, record.waiting
    waiting = len(behind)
    depends = f"{count_tasks(waiting)} depend{'s' if waiting == 1 else ''} on it and"
    return [
        *([answer_option(agent)] if escalation.reason == Reason.AGENT_QUESTION else []),
        Option(
            Answer.FIX,
            "Fix with an instruction",
            f"{agent} gets one more attempt and is told your words first.",
            requires_text=True,
        ),
        Option(Answer.RETRY, "Try again", f"{count_attempts(task.max_attempts)}, from now."),
        Option(
            Answer.SKIP,
            "Skip",
            f"{depends} may fail without it: {join_names(behind)}."
            if waiting
            else "Nothing depends on it.",
            confirm=True,
            dependents=dependents_options(waiting, count_downstream(record)) if waiting else (),
        ),
        abort_plan_option(task)
        if task.plan
        else Option(
            Answer.ABORT,
            "Abort",
            f"{depends} will never run." if waiting else "It ends here.",
            confirm=True,
        ),
    ]


def count_downstream(record: Record) -> int:
    """How many would be skipped with it; most that wait have nothing waiting for them in turn."""
    if any(task.needed_by for task in record.waiting):
        return dependents.count_downstream(record.task.pk)
    return len(record.waiting)


def join_names(tasks: Sequence[Task]) -> str:
    """The first of them by name, and how many more there are."""
    said = ", ".join(
        truncate(" ".join(str(each).split()), NAME_LENGTH) for each in tasks[:MOST_NAMES]
    )
    return said if len(tasks) <= MOST_NAMES else f"{said}, and {len(tasks) - MOST_NAMES} more"


def abort_plan_option(task: Task) -> Option:
    """The answer that stops the whole plan of a task, with what else of it runs and waits."""
    others = Task.objects.filter(plan=task.plan_id).exclude(pk=task.pk).exclude(state__in=FINAL)
    counts = others.aggregate(
        running=Count("pk", filter=Q(state=TaskState.RUNNING)),
        waiting=Count("pk", filter=~Q(state=TaskState.RUNNING)),
    )
    running, waiting = counts["running"], counts["waiting"]
    so = []
    if running:
        so.append(
            f"{count_tasks(running)} that {'runs is' if running == 1 else 'run are'} told to stop"
        )
    if waiting:
        so.append(f"{count_tasks(waiting)} that wait{'s' if waiting == 1 else ''} will never run")
    ref = task.plan.ref if task.plan else ""
    also = ", ".join(so) or "nothing else of it is under way"
    return Option(Answer.ABORT, "Abort the plan", f"Stops all of {ref}: {also}.", confirm=True)


def answer_option(agent: str) -> Option:
    return Option(
        Answer.ANSWER,
        "Answer the question",
        f"{agent} goes on and is told your words first. It costs no attempt.",
        requires_text=True,
    )


def dependents_options(waiting: int, downstream: int) -> tuple[DependentsOption, ...]:
    """What can become of so many dependents, and of all that follows from them."""
    one = waiting == 1
    all_of_them = f"Skip {'it' if one else 'them'} too"
    if downstream > waiting:
        all_of_them += f", and what follows: {count_tasks(downstream)} in all"
    return (
        DependentsOption(
            Dependents.CONTINUE, f"{'It goes' if one else f'All {waiting} go'} on without it"
        ),
        DependentsOption(
            Dependents.BLOCK, f"{'It stays' if one else 'They stay'} blocked until you decide"
        ),
        DependentsOption(Dependents.SKIP, all_of_them),
    )


def count_tasks(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"


def count_attempts(count: int) -> str:
    return f"{count} more attempt{'' if count == 1 else 's'}"
