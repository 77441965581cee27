"""List the answers that a person can give to an escalation, in the order of the buttons."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from ledger.models import Instruction, Task
from ledger.states import FINAL, TaskState
from ledger.values.text import truncate
from retries.escalations.record import Record, load_record
from retries.models import Escalation
from retries.states import Answer, Dependents, Reason
from retries.tasks import dependents

MOST_NAMES, NAME_LENGTH = 3, 60  # of the tasks that depend on one, in the text of its skip
INSTRUCTION_TITLES = {
    Answer.FIX: "Send new text",
    Answer.RETRY: "Send again",
    Answer.SKIP: "Leave as failed",
    Answer.ABORT: "Cancel all pending",
}
TASK_TITLES = {
    Answer.ANSWER: "Send answer",
    Answer.ACCEPT: "Accept as done",
    Answer.GRANT: "Grant more",
    Answer.FIX: "Send fix and retry",
    Answer.RETRY: "Retry",
    Answer.SKIP: "Skip",
    Answer.ABORT: "Abort",
}
PERMISSION_TITLES = {Answer.ALLOW: "Allow once", Answer.DENY: "Deny"}
ABORT_PLAN = "Abort plan"


@dataclass(frozen=True, slots=True)
class DependentsOption:
    """One of the effects that a skip can have on the dependents."""

    name: Dependents
    title: str


@dataclass(frozen=True, slots=True)
class Option:
    """An answer that a person can choose."""

    name: Answer
    title: str
    description: str
    requires_text: bool = False
    confirm: bool = False
    dependents: tuple[DependentsOption, ...] = ()


ACCEPT = Option(
    Answer.ACCEPT,
    TASK_TITLES[Answer.ACCEPT],
    "The task is done with the result that its agent reported.",
    confirm=True,
)

GRANT = Option(
    Answer.GRANT,
    TASK_TITLES[Answer.GRANT],
    "Adds the amount that you give, such as 500000 tokens or 5 USD, and queues the task.",
    requires_text=True,
)


def list_options(escalation: Escalation, record: Record | None = None) -> list[Option]:
    if escalation.permission_id:
        return permission_options(escalation)
    record = record or load_record(escalation)
    return task_options(escalation, record) if record else instruction_options(escalation)


def instruction_options(escalation: Escalation) -> list[Option]:
    agent = escalation.agent.name
    pending = Instruction.objects.filter(agent=escalation.agent).awaiting_ack().count()
    instructions = f"{pending} pending instruction{'' if pending == 1 else 's'}"
    return [
        Option(
            Answer.FIX,
            INSTRUCTION_TITLES[Answer.FIX],
            f"{agent} gets your text first, with reminders until it acknowledges.",
            requires_text=True,
        ),
        Option(
            Answer.RETRY,
            INSTRUCTION_TITLES[Answer.RETRY],
            "Sends the same text first in the queue and starts over.",
        ),
        Option(
            Answer.SKIP,
            INSTRUCTION_TITLES[Answer.SKIP],
            "It stays failed; nothing is sent.",
            confirm=True,
        ),
        Option(
            Answer.ABORT,
            INSTRUCTION_TITLES[Answer.ABORT],
            f"Cancels the {instructions} for {agent}." if pending else "Nothing is pending.",
            confirm=True,
        ),
    ]


def permission_options(escalation: Escalation) -> list[Option]:
    agent = escalation.agent.name
    return [
        Option(
            Answer.ALLOW,
            PERMISSION_TITLES[Answer.ALLOW],
            f"{agent} makes this call. The next one is asked about again.",
        ),
        Option(
            Answer.DENY,
            PERMISSION_TITLES[Answer.DENY],
            f"{agent} does not make the call and reads your text.",
        ),
    ]


def task_options(escalation: Escalation, record: Record) -> list[Option]:
    task, agent, blocked = record.task, escalation.agent.name, record.waiting
    waiting, is_of_budget = len(blocked), escalation.reason == Reason.BUDGET_USED
    depends = f"{count_tasks(waiting)} depend{'s' if waiting == 1 else ''} on it and"
    return [
        *([answer_option(agent)] if escalation.is_question else []),
        *([ACCEPT] if escalation.reason == Reason.UNPROVEN else []),
        *([GRANT] if is_of_budget else []),
        Option(
            Answer.FIX,
            TASK_TITLES[Answer.FIX],
            f"{agent} gets one more attempt and reads your text first.",
            requires_text=True,
        ),
        Option(
            Answer.RETRY,
            TASK_TITLES[Answer.RETRY],
            "Queues the task at the old limit: it waits until the budget has room."
            if is_of_budget
            else f"Grants {count_attempts(task.max_attempts)}.",
        ),
        Option(
            Answer.SKIP,
            TASK_TITLES[Answer.SKIP],
            f"{depends} may fail without it: {join_names(blocked)}."
            if waiting
            else "Nothing depends on it.",
            confirm=True,
            dependents=dependents_options(waiting, count_downstream(record)) if waiting else (),
        ),
        abort_plan_option(task)
        if task.plan
        else Option(
            Answer.ABORT,
            TASK_TITLES[Answer.ABORT],
            f"{depends} will never run." if waiting else "Ends the task.",
            confirm=True,
        ),
    ]


def name_answers(escalation: Escalation) -> list[tuple[Answer, str]]:
    """Return the answers to an open escalation with a few words each, and without a query."""
    if escalation.permission_id:
        return list(PERMISSION_TITLES.items())
    task = escalation.task
    if task is None:
        return list(INSTRUCTION_TITLES.items())
    waiting = task.needed_by
    notes = {
        Answer.RETRY: " (at the old limit)"
        if escalation.reason == Reason.BUDGET_USED
        else f" ({count_attempts(task.max_attempts)})",
        Answer.SKIP: f" ({count_tasks(waiting)} depend{'s' if waiting == 1 else ''} on it)"
        if waiting
        else "",
    }
    titles = TASK_TITLES | ({Answer.ABORT: ABORT_PLAN} if task.plan_id else {})
    return [
        (name, title + notes.get(name, ""))
        for name, title in titles.items()
        if (name != Answer.ANSWER or escalation.is_question)
        and (name != Answer.ACCEPT or escalation.reason == Reason.UNPROVEN)
        and (name != Answer.GRANT or escalation.reason == Reason.BUDGET_USED)
    ]


def count_downstream(record: Record) -> int:
    # Most dependents have none of their own, so the recursive query is rarely needed.
    if any(task.needed_by for task in record.waiting):
        return dependents.count_downstream(record.task.pk)
    return len(record.waiting)


def join_names(tasks: Sequence[Task]) -> str:
    names = ", ".join(
        truncate(" ".join(str(each).split()), NAME_LENGTH) for each in tasks[:MOST_NAMES]
    )
    return names if len(tasks) <= MOST_NAMES else f"{names}, and {len(tasks) - MOST_NAMES} more"


def abort_plan_option(task: Task) -> Option:
    others = Task.objects.filter(plan=task.plan_id).exclude(pk=task.pk).exclude(state__in=FINAL)
    counts = others.aggregate(
        running=Count("pk", filter=Q(state=TaskState.RUNNING)),
        waiting=Count("pk", filter=~Q(state=TaskState.RUNNING)),
    )
    running, waiting = counts["running"], counts["waiting"]
    effects = []
    if running:
        effects.append(f"{running} running task{' is' if running == 1 else 's are'} told to stop")
    if waiting:
        effects.append(f"{waiting} pending task{'' if waiting == 1 else 's'} will never run")
    ref = task.plan.ref if task.plan else ""
    others_too = ", ".join(effects) or "no other task is running or pending"
    return Option(Answer.ABORT, ABORT_PLAN, f"Aborts plan {ref}: {others_too}.", confirm=True)


def answer_option(agent: str) -> Option:
    return Option(
        Answer.ANSWER,
        TASK_TITLES[Answer.ANSWER],
        f"{agent} resumes and reads your text first. This uses no attempt.",
        requires_text=True,
    )


def dependents_options(waiting: int, downstream: int) -> tuple[DependentsOption, ...]:
    one = waiting == 1
    all_of_them = f"Skip {'it' if one else 'them'} too"
    if downstream > waiting:
        all_of_them += f" and their dependents: {count_tasks(downstream)} in total"
    return (
        DependentsOption(
            Dependents.CONTINUE,
            f"{'It continues' if one else f'All {waiting} continue'} without it",
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
