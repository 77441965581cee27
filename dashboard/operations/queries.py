"""Read operations for their pages: one with its rows, and the effects of a new one."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from dashboard.agents.targets import Target, list_targets
from dashboard.frame.navigation import Scope
from dashboard.operations.listing import OPERATIONS
from ledger.models import DeadLetter, Event, Instruction, Project, Task
from ledger.states import FINAL, BreakerState
from ledger.values.text import truncate
from retries.models import Escalation, FailurePattern, Operation, OperationItem
from retries.models.operation import ItemState
from retries.verbs.verb import Verb

CHANGED_SHOWN = 25
REFUSED_SHOWN = 100
TITLE = 160


def find_operation(scope: Scope, operation_id: UUID) -> Operation | None:
    return OPERATIONS.rows(scope.project).filter(pk=operation_id).first()


@dataclass(frozen=True, slots=True)
class Subject:
    """A row of an operation with its name, its state and the name of its page's URL."""

    item: OperationItem
    title: str
    ref: str
    state: str
    page: str


@dataclass(frozen=True, slots=True)
class RefusedGroup:
    """Rows that were left for the same reason: their number, and the first of them."""

    why: str
    count: int
    subjects: list[Subject]


def list_changed(operation: Operation) -> list[Subject]:
    rows = operation.items.filter(state=ItemState.CHANGED).order_by("-at", "-id")
    return name_subjects(operation.noun, list(rows[:CHANGED_SHOWN]))


def list_refused(operation: Operation) -> list[RefusedGroup]:
    """Return the refused rows by reason, the most frequent reason first."""
    rows = operation.items.filter(state=ItemState.REFUSED)
    counts = rows.order_by().values("refusal").annotate(n=Count("*")).order_by("-n", "refusal")
    by_reason: dict[str, list[Subject]] = defaultdict(list)
    for subject in name_subjects(operation.noun, list(rows.order_by("id")[:REFUSED_SHOWN])):
        by_reason[subject.item.refusal].append(subject)
    return [RefusedGroup(row["refusal"], row["n"], by_reason[row["refusal"]]) for row in counts]


PAGES = {
    "task": "dashboard:task",
    "dead_letter": "dashboard:deadletter",
    "escalation": "dashboard:escalation",
    "instruction": "dashboard:instruction",
    "pattern": "dashboard:pattern",
}


def name_subjects(noun: str, items: list[OperationItem]) -> list[Subject]:
    names = read_names(noun, [item.subject_id for item in items]) if items else {}
    return [
        Subject(item, *names.get(item.subject_id, ("No longer exists", "", "")), PAGES[noun])
        for item in items
    ]


def read_names(noun: str, ids: list[UUID]) -> dict[UUID, tuple[str, str, str]]:
    match noun:
        case "task":
            tasks = Task.objects.filter(pk__in=ids).order_by("id")
            tasks = tasks.only("title", "type", "ref", "state")
            return {row.pk: (str(row)[:TITLE], row.ref or "", row.state) for row in tasks}
        case "dead_letter":
            letters = DeadLetter.objects.filter(pk__in=ids).select_related("task").order_by("id")
            letters = letters.only(
                "closed_as", "task__title", "task__type", "task__ref", "task__state"
            )
            return {
                row.pk: (str(row.task)[:TITLE], row.task.ref or "", row.closed_as or "open")
                for row in letters
            }
        case "escalation":
            asked = Escalation.objects.filter(pk__in=ids).order_by("id")
            asked = asked.select_related("task", "instruction", "permission").only(
                "state",
                *("task__title", "task__type", "task__ref", "instruction__content"),
                "permission__title",
            )
            return {
                row.pk: (title_of(row), row.task.ref or "" if row.task else "", row.state)
                for row in asked
            }
        case "pattern":
            patterns = FailurePattern.objects.filter(pk__in=ids).only("template", "state")
            return {row.pk: (row.template[:TITLE], "", row.state) for row in patterns}
    sent = Instruction.objects.filter(pk__in=ids).only("content", "state").order_by("id")
    return {row.pk: (truncate(" ".join(row.content.split()), TITLE), "", row.state) for row in sent}


def title_of(asked: Escalation) -> str:
    if asked.task:
        return str(asked.task)[:TITLE]
    if asked.permission:
        return truncate(asked.permission.title, TITLE)
    content = asked.instruction.content if asked.instruction else ""
    return truncate(" ".join(content.split()), TITLE)


def list_steps(operation: Operation) -> list[Event]:
    # Each project has its own copy of an operation's events.
    rows = Event.objects.about(operation.pk).order_by("id")
    steps: dict[tuple[str, datetime], Event] = {}
    for event in rows.defer("tx"):
        steps.setdefault((event.kind, event.at), event)
    return list(steps.values())


def list_project_names(operation: Operation) -> list[str]:
    rows = Project.objects.filter(pk__in=operation.project_ids).order_by("name")
    return list(rows.values_list("name", flat=True))


# ---- before an operation starts


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of chosen rows in a state, and how many of them the verb changes."""

    state: str
    count: int
    legal: int


def count_by_state(verb: Verb, chosen: QuerySet[Any]) -> list[StateCount]:
    field = "closed_as" if verb.model is DeadLetter else "state"

    def count(rows: QuerySet[Any]) -> dict[str, int]:
        found = rows.order_by().values(field).annotate(n=Count("pk", distinct=True))
        return {row[field] or "open": row["n"] for row in found.order_by(field)}

    total, legal = count(chosen), count(verb.narrow(chosen))
    rows = [StateCount(state, number, legal.get(state, 0)) for state, number in total.items()]
    # The states whose rows change come first.
    return sorted(rows, key=lambda row: (-row.legal, -row.count, row.state))


def count_dependents(verb: Verb, chosen: QuerySet[Any]) -> int:
    """Return how many other tasks wait for the tasks that the verb ends."""
    rows = verb.narrow(chosen).order_by()
    tasks = rows.exclude(task=None).values("task") if verb.model is not Task else rows.values("pk")
    waiting = Task.objects.filter(needs__need__in=tasks).exclude(state__in=FINAL)
    # A task that the verb ends, too, does not count as waiting.
    return waiting.exclude(pk__in=tasks).order_by().values("pk").distinct().count()


@dataclass(frozen=True, slots=True)
class HeldAgent:
    """An agent that gets no work now, and how many of the rows are its own."""

    name: str
    count: int


def list_held_agents(verb: Verb, chosen: QuerySet[Any]) -> list[HeldAgent]:
    """Return the agents with an open breaker whose rows would wait, the most rows first."""
    rows = verb.narrow(chosen).order_by().filter(agent__breaker__state=BreakerState.OPEN)
    found = rows.values("agent__name").annotate(n=Count("pk", distinct=True))
    return [
        HeldAgent(row["agent__name"], row["n"]) for row in found.order_by("-n", "agent__name")[:3]
    ]


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent to which tasks can be reassigned; `count` is empty if it can take all of them."""

    target: Target
    count: str


def list_new_agents(verb: Verb, chosen: QuerySet[Any], *, now: datetime) -> list[NewAgent]:
    """Return the agents of the tasks' projects that some of the tasks are not assigned to yet."""
    rows = verb.narrow(chosen).order_by().values("project_id", "agent_id")
    in_project: Counter[UUID] = Counter()
    own: dict[UUID, int] = {}
    for row in rows.annotate(n=Count("pk", distinct=True)):
        in_project[row["project_id"]] += row["n"]
        own[row["agent_id"]] = row["n"]
    total, found = in_project.total(), []
    for target in list_targets(in_project, now=now) if in_project else ():
        if count := sum(in_project[of] - own.get(id, 0) for id, of in target.agents.items()):
            takes = f"takes {count:,} of {total:,}" if count < total else ""
            found.append(NewAgent(target, takes))
    return found
