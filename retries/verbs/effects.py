"""Sentences that count the effects of a verb, which the admin shows before it."""

from typing import Any

from django.db.models import QuerySet

from ledger.admin_pages.confirmation import list_effects
from ledger.models import Task
from ledger.states import FINAL
from ledger.values.text import counted
from retries.states import Dependents
from retries.tasks import actions as task_actions

DEPENDENTS = {
    Dependents.CONTINUE: "will continue without them",
    Dependents.BLOCK: "will stay blocked",
    Dependents.SKIP: "will be skipped too, with {} own dependents",
}


def describe_abort(chosen: QuerySet[Task], *, answered: int = 0) -> list[str]:
    counts = task_actions.count_abort(chosen)
    questions = counts.questions - answered
    if not counts.any:
        return []
    one = counts.dependents == 1
    return list_effects(
        (counts.waiting, f"{counted(counts.waiting, 'waiting task')} will be aborted."),
        (
            counts.running,
            f"{counted(counts.running, 'running task')} will be told to stop. A running task ends "
            "when its agent reports or its lease expires.",
        ),
        (questions, f"{counted(questions, 'open question')} will be withdrawn."),
        (
            counts.dependents,
            f"{counted(counts.dependents, 'other task')} that depend{'s' if one else ''} on these "
            "will stay blocked.",
        ),
    )


def describe_dependents(tasks: Any, choice: str) -> list[str]:
    rows = Task.objects.filter(needs__need__in=tasks).exclude(state__in=FINAL)
    number = rows.exclude(pk__in=tasks).values("pk").distinct().count()
    one = number == 1
    effect = DEPENDENTS[Dependents(choice)].format("its" if one else "their")
    return list_effects(
        (number, f"{counted(number, 'task')} that depend{'s' if one else ''} on these {effect}.")
    )


def describe_stopped(aborted: int, running: int) -> str:
    """Return how many tasks were stopped, such as "2 tasks aborted, 1 told to stop"."""
    parts = [f"{counted(aborted, 'task')} aborted"] if aborted else []
    return ", ".join([*parts, f"{running} told to stop"] if running else parts)
