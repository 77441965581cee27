"""Count what the admin's actions on tasks, plans and escalations would change."""

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from ledger.confirmation import list_effects
from ledger.models import Breaker, Instruction, Plan, Task
from ledger.states import (
    TASK_MOVES,
    BlockedReason,
    BreakerState,
    TaskState,
)
from ledger.text import counted
from retries.escalations import choices
from retries.escalations.choices import Choice
from retries.failures import patterns
from retries.failures.stuck_tasks import stuck_tasks
from retries.models import Escalation, FailurePattern
from retries.states import QUESTIONS, Answer, Dependents
from retries.verbs.effects import describe_abort, describe_dependents

SKIPPABLE = tuple(state for state in TaskState if TaskState.SKIPPED in TASK_MOVES[state])


def read_dependents(request: HttpRequest) -> str:
    """Return the posted choice for the dependents of skipped tasks."""
    choice = request.POST.get("dependents", "")
    return choice if choice in Dependents.values else Dependents.CONTINUE


# ---- tasks and plans


def abort_plans(request: HttpRequest, chosen: QuerySet[Plan]) -> list[str]:
    under_way = chosen.filter(completed_at=None, aborted_at=None).order_by()
    plans = under_way.count()
    tasks = describe_abort(Task.objects.filter(plan__in=under_way.values("pk")))
    return [*list_effects((plans, f"{counted(plans, 'plan')} will be aborted.")), *tasks]


def restart_plans(request: HttpRequest, chosen: QuerySet[Plan]) -> list[str] | None:
    over = chosen.exclude(completed_at=None, aborted_at=None).order_by()
    rest = Task.objects.current().filter(plan__in=over.values("pk")).exclude(state=TaskState.DONE)
    tasks, plans = rest.count(), rest.values("plan").distinct().count()
    effects = list_effects(
        (plans, f"{counted(plans, 'plan')} will start again."),
        (tasks, f"{counted(tasks, 'unfinished task')} will run again as new tasks."),
    )
    return effects or None


# ---- escalations


def answer_again(answer: Answer) -> Any:
    """Return the effects of a retry, or of a fix."""

    def describe(request: HttpRequest, chosen: QuerySet[Escalation]) -> list[str] | None:
        fix = request.POST.get("fix", "") if answer == Answer.FIX else ""
        choices.check(Choice(answer, fix=fix))
        tasks, sent = count_open(chosen)
        attempts = "one more attempt" if answer == Answer.FIX else "a new round of attempts"
        text = "your text" if answer == Answer.FIX else "the same text"
        effects = list_effects(
            (tasks, f"{counted(tasks, 'task')} will get {attempts}."),
            (sent, f"{counted(sent, 'instruction')} will be sent again with {text}."),
        )
        return effects or None

    return describe


def answer_questions(request: HttpRequest, chosen: QuerySet[Escalation]) -> list[str]:
    """Describe an answer to questions; each question checks the values when it is answered."""
    number = open_among(chosen).filter(reason__in=QUESTIONS).count()
    others = open_among(chosen).count() - number
    return list_effects(
        (number, f"{counted(number, 'question')} will be answered, and the asker continues."),
        (
            others if number else 0,
            f"{counted(others, 'escalation')} will stay open, because no question was asked.",
        ),
    )


def answer_skip(request: HttpRequest, chosen: QuerySet[Escalation]) -> list[str] | None:
    tasks, sent = count_open(chosen)
    of_them = open_among(chosen).exclude(task=None).values("task")
    effects = [
        *list_effects(
            (tasks, f"{counted(tasks, 'task')} will be skipped."),
            (sent, f"{counted(sent, 'instruction')} will stay failed, and nothing is sent."),
        ),
        *describe_dependents(of_them, read_dependents(request)),
    ]
    return effects or None


def answer_abort(request: HttpRequest, chosen: QuerySet[Escalation]) -> list[str] | None:
    """Describe an abort, which stops the whole plan of an escalated task."""
    rows = open_among(chosen)
    plans = rows.exclude(task__plan=None).values("task__plan")
    number = plans.distinct().count()
    agents = rows.exclude(instruction=None).values("agent")
    of = counted(agents.distinct().count(), "agent")
    pending = Instruction.objects.filter(agent__in=agents).cancellable().count()
    tasks = Task.objects.filter(Q(plan__in=plans) | Q(pk__in=rows.values("task")))
    whole = (
        f"{counted(number, 'plan')} will be aborted with all {'its' if number == 1 else 'their'}"
    )
    sent = rows.exclude(instruction=None).count()
    effects = [
        *list_effects((number, f"{whole} tasks.")),
        *describe_abort(tasks, answered=rows.exclude(task=None).count()),
        *list_effects(
            (sent, f"{counted(sent, 'instruction')} will stay failed."),
            (pending, f"{counted(pending, 'pending instruction')} of {of} will be cancelled."),
        ),
    ]
    return effects or None


def open_among(chosen: QuerySet[Escalation]) -> QuerySet[Escalation]:
    return chosen.order_by().filter(pk__in=Escalation.objects.open().values("pk"))


def count_open(chosen: QuerySet[Escalation]) -> tuple[int, int]:
    """Return the numbers of open escalations about tasks and about instructions."""
    rows = open_among(chosen)
    return rows.exclude(task=None).count(), rows.exclude(instruction=None).count()


# ---- dead letters, patterns and breakers


def retry_patterns(request: HttpRequest, chosen: QuerySet[FailurePattern]) -> list[str]:
    ids = list(chosen.values_list("pk", flat=True))
    states = [task.state for task in stuck_tasks(ids)[: patterns.BATCH_SIZE]]
    dead, waiting, asked = map(
        states.count, (TaskState.FAILED, TaskState.RETRY, TaskState.ESCALATED)
    )
    return list_effects(
        (dead, f"{counted(dead, 'dead letter')} will be replayed."),
        (waiting, f"{counted(waiting, 'pending retry', 'pending retries')} will start at once."),
        (asked, f"{counted(asked, 'open question')} will be answered with “retry”."),
    )


def reset_breakers(request: HttpRequest, chosen: QuerySet[Any]) -> list[str]:
    agents = chosen.values("agent" if chosen.model is Breaker else "pk")
    rows = Breaker.objects.filter(agent__in=agents).exclude(state=BreakerState.CLOSED, failures=0)
    number = rows.count()
    its = "its" if number == 1 else "their"
    held = Task.objects.filter(
        agent__in=rows.values("agent"),
        state=TaskState.BLOCKED,
        blocked_reason=BlockedReason.BREAKER_OPEN,
    ).count()
    return list_effects(
        (number, f"{counted(number, 'breaker')} will close and forget {its} failures."),
        (held, f"{counted(held, 'held task')} will return to the queue."),
    )
