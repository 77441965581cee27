"""Count what the admin's actions on tasks, plans and escalations would change."""

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from ledger.admin_pages.confirmation import count, list_effects
from ledger.models import Breaker, DeadLetter, Instruction, Plan, Task
from ledger.states import (
    FINAL,
    TASK_MOVES,
    BlockedReason,
    BreakerState,
    TaskState,
)
from retries.escalations import choices
from retries.escalations.choices import Choice
from retries.failures import patterns
from retries.failures.stuck_tasks import stuck_tasks
from retries.models import Escalation, FailurePattern
from retries.states import QUESTIONS, Answer, Dependents
from retries.tasks import actions as task_actions

SKIPPABLE = tuple(state for state in TaskState if TaskState.SKIPPED in TASK_MOVES[state])


def read_dependents(request: HttpRequest) -> str:
    """Return the posted choice for the dependents of skipped tasks."""
    choice = request.POST.get("dependents", "")
    return choice if choice in Dependents.values else Dependents.CONTINUE


# ---- tasks and plans


def describe_abort(chosen: QuerySet[Task], *, answered: int = 0) -> list[str]:
    """Describe an abort of tasks, which also answers some of their open questions."""
    counts = task_actions.count_abort(chosen)
    questions = counts.questions - answered
    if not counts.any:
        return []
    one = counts.dependents == 1
    others = count(counts.dependents, "other task")
    return list_effects(
        (counts.waiting, f"{count(counts.waiting, 'waiting task')} will be aborted."),
        (
            counts.running,
            f"{count(counts.running, 'running task')} will be told to stop. A running task ends "
            "when its agent reports or its lease expires.",
        ),
        (questions, f"{count(questions, 'open question')} will be withdrawn."),
        (
            counts.dependents,
            f"{others} that depend{'s' if one else ''} on these will stay blocked.",
        ),
    )


def abort_tasks(request: HttpRequest, chosen: QuerySet[Task]) -> list[str]:
    return describe_abort(chosen)


def abort_plans(request: HttpRequest, chosen: QuerySet[Plan]) -> list[str]:
    under_way = chosen.filter(completed_at=None, aborted_at=None).order_by()
    plans = under_way.count()
    tasks = describe_abort(Task.objects.filter(plan__in=under_way.values("pk")))
    return [*list_effects((plans, f"{count(plans, 'plan')} will be aborted.")), *tasks]


def restart_plans(request: HttpRequest, chosen: QuerySet[Plan]) -> list[str] | None:
    over = chosen.exclude(completed_at=None, aborted_at=None).order_by()
    rest = Task.objects.current().filter(plan__in=over.values("pk")).exclude(state=TaskState.DONE)
    tasks, plans = rest.count(), rest.values("plan").distinct().count()
    effects = list_effects(
        (plans, f"{count(plans, 'plan')} will start again."),
        (tasks, f"{count(tasks, 'unfinished task')} will run again as new tasks."),
    )
    return effects or None


def skip_tasks(request: HttpRequest, chosen: QuerySet[Task]) -> list[str]:
    rows = chosen.order_by().filter(state__in=SKIPPABLE)
    tasks = rows.count()
    return [
        *list_effects((tasks, f"{count(tasks, 'task')} will be skipped.")),
        *describe_dependents(rows.values("pk"), read_dependents(request)),
    ]


def describe_dependents(tasks: Any, choice: str) -> list[str]:
    """Return what happens to the tasks that depend on some that are skipped or dismissed."""
    rows = Task.objects.filter(needs__need__in=tasks).exclude(state__in=FINAL)
    number = rows.exclude(pk__in=tasks).values("pk").distinct().count()
    effect = {
        Dependents.CONTINUE: "will continue without them",
        Dependents.BLOCK: "will stay blocked",
        Dependents.SKIP: "will be skipped too, with {} own dependents",
    }[Dependents(choice)]
    one = number == 1
    effect = effect.format("its" if one else "their")
    return list_effects(
        (number, f"{count(number, 'task')} that depend{'s' if one else ''} on these {effect}.")
    )


def unblock_tasks(request: HttpRequest, chosen: QuerySet[Task]) -> list[str]:
    reason = BlockedReason.DEPENDENCY_SKIPPED
    number = chosen.filter(state=TaskState.BLOCKED, blocked_reason=reason).count()
    return list_effects((number, f"{count(number, 'task')} will continue without a skipped need."))


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
            (tasks, f"{count(tasks, 'task')} will get {attempts}."),
            (sent, f"{count(sent, 'instruction')} will be sent again with {text}."),
        )
        return effects or None

    return describe


def answer_questions(request: HttpRequest, chosen: QuerySet[Escalation]) -> list[str]:
    """Describe an answer to questions; each question checks the values when it is answered."""
    number = open_among(chosen).filter(reason__in=QUESTIONS).count()
    others = open_among(chosen).count() - number
    return list_effects(
        (number, f"{count(number, 'question')} will be answered, and the asker continues."),
        (
            others if number else 0,
            f"{count(others, 'escalation')} will stay open, because no question was asked.",
        ),
    )


def answer_skip(request: HttpRequest, chosen: QuerySet[Escalation]) -> list[str] | None:
    tasks, sent = count_open(chosen)
    of_them = open_among(chosen).exclude(task=None).values("task")
    effects = [
        *list_effects(
            (tasks, f"{count(tasks, 'task')} will be skipped."),
            (sent, f"{count(sent, 'instruction')} will stay failed, and nothing is sent."),
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
    of = count(agents.distinct().count(), "agent")
    pending = Instruction.objects.filter(agent__in=agents).cancellable().count()
    tasks = Task.objects.filter(Q(plan__in=plans) | Q(pk__in=rows.values("task")))
    whole = f"{count(number, 'plan')} will be aborted with all {'its' if number == 1 else 'their'}"
    sent = rows.exclude(instruction=None).count()
    effects = [
        *list_effects((number, f"{whole} tasks.")),
        *describe_abort(tasks, answered=rows.exclude(task=None).count()),
        *list_effects(
            (sent, f"{count(sent, 'instruction')} will stay failed."),
            (pending, f"{count(pending, 'pending instruction')} of {of} will be cancelled."),
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


def replay_letters(request: HttpRequest, chosen: QuerySet[DeadLetter]) -> list[str]:
    number = chosen.filter(closed_at=None).count()
    return list_effects((number, f"{count(number, 'task')} will be enqueued again as new tasks."))


def dismiss_letters(request: HttpRequest, chosen: QuerySet[DeadLetter]) -> list[str]:
    rows = chosen.order_by().filter(closed_at=None)
    number = rows.count()
    return [
        *list_effects((number, f"{count(number, 'dead letter')} will be closed for good.")),
        *describe_dependents(rows.values("task"), read_dependents(request)),
    ]


def retry_patterns(request: HttpRequest, chosen: QuerySet[FailurePattern]) -> list[str]:
    ids = list(chosen.values_list("pk", flat=True))
    states = [task.state for task in stuck_tasks(ids)[: patterns.BATCH_SIZE]]
    dead, waiting, asked = map(
        states.count, (TaskState.FAILED, TaskState.RETRY, TaskState.ESCALATED)
    )
    return list_effects(
        (dead, f"{count(dead, 'dead letter')} will be replayed."),
        (waiting, f"{count(waiting, 'pending retry', 'pending retries')} will start at once."),
        (asked, f"{count(asked, 'open question')} will be answered with “retry”."),
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
        (number, f"{count(number, 'breaker')} will close and forget {its} failures."),
        (held, f"{count(held, 'held task')} will return to the queue."),
    )
