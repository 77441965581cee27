"""The verbs of operations on tasks."""

from dataclasses import replace
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from ledger import agents
from ledger.errors import Invalid, Refusal
from ledger.journal import Stamp
from ledger.models import Agent, DeadLetter, Task
from ledger.states import FINAL, TASK_MOVES, BlockedReason, TaskState, Who
from ledger.tasks import Change
from ledger.tasks.lineage import fetch_task
from ledger.tasks.spec import PRIORITIES
from retries import deadletters
from retries.escalations import answering, choices
from retries.escalations.choices import Choice
from retries.failures.stuck_tasks import retryable_escalations
from retries.models import Escalation
from retries.operations.bulk_verb import (
    MAY_ANSWER,
    BulkVerb,
    Left,
    Options,
    Rows,
    check_dependents,
    explain_left,
    note_of,
)
from retries.states import Answer
from retries.tasks import actions as task_actions

SKIPPABLE = [
    state for state, to in TASK_MOVES.items() if Who.PERSON in to.get(TaskState.SKIPPED, ())
]
PERMISSION = "ledger.change_task"


def describe_tasks(ids: list[UUID]) -> dict[UUID, Left]:
    """Return the state of tasks that a verb left as they are."""
    rows = Task.objects.filter(pk__in=ids).order_by("id")
    return {
        row.pk: Left("Already asked to stop")
        if row.state == TaskState.RUNNING and row.abort_requested_at
        else Left(f"State is now “{row.state}”")
        for row in rows.only("id", "state", "abort_requested_at")
    }


# ---- retry, whatever the task waits for


def narrow_to_stuck(rows: Rows) -> Rows:
    """Keep tasks that wait for a retry, that failed, or whose question “retry” can answer."""
    letters = DeadLetter.objects.replayable().filter(task=OuterRef("pk"))
    asked = retryable_escalations().filter(task=OuterRef("pk"))
    return rows.filter(
        Q(state=TaskState.RETRY)
        | Q(Exists(letters), state=TaskState.FAILED)
        | Q(Exists(asked), state=TaskState.ESCALATED),
        replaced_by=None,
    )


def retry(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    note = note_of(options)
    return {id: left for id in ids if (left := retry_one(id, note, stamp))}


def retry_one(task_id: UUID, note: str, stamp: Stamp) -> Left | None:
    """Retry a task as its state needs it; return why if that is impossible."""
    row = fetch_task(task_id)
    match row["state"]:
        case TaskState.RETRY if task_actions.retry_now([task_id], note=note, stamp=stamp):
            return None
        case TaskState.FAILED:
            letters = DeadLetter.objects.filter(task=task_id).order_by("id")
            ids = list(letters.values_list("pk", flat=True))
            if deadletters.replay(ids, among=DeadLetter.objects.all(), note=note, stamp=stamp):
                return None
            return Left("Its dead letter is closed, or its plan is aborted")
        case TaskState.ESCALATED:
            return answer_one(task_id, Choice(Answer.RETRY, note=note), stamp)
    return Left(f"State is now “{row['state']}”")


def answer_one(task_id: UUID, choice: Choice, stamp: Stamp) -> Left | None:
    """Answer the question about a task; return why if a person has to read it first."""
    asked = retryable_escalations().filter(task=task_id).order_by("id").first()
    if asked is None:
        return Left("A person has to read its question")
    answering.answer(asked.pk, choice, among=Escalation.objects.all(), stamp=stamp, channel="page")
    return None


# ---- retry with an instruction, which only the answer to a question can give


def narrow_to_asked(rows: Rows) -> Rows:
    """Keep tasks that wait for an answer which can be an instruction, unread."""
    asked = retryable_escalations().filter(task=OuterRef("pk"))
    return rows.filter(Exists(asked), state__in=(TaskState.ESCALATED, TaskState.BLOCKED))


def read_fix(options: Options) -> Choice:
    """Return the instruction in the options as an answer; raises Invalid."""
    return choices.check(Choice(Answer.FIX, fix=str(options.get("fix", ""))))


def check_fix(options: Options) -> Options:
    return {"fix": read_fix(options).fix.strip()}


def fix(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    choice = replace(read_fix(options), note=note_of(options))
    return {id: left for id in ids if (left := fix_one(id, choice, stamp))}


def fix_one(task_id: UUID, choice: Choice, stamp: Stamp) -> Left | None:
    """Grant a task one attempt that is told the instruction; return why if that is impossible."""
    row = fetch_task(task_id)
    if row["state"] == TaskState.ESCALATED or row["blocked_reason"] == BlockedReason.REPORTED:
        return answer_one(task_id, choice, stamp)
    return Left(f"State is now “{row['state']}”")


# ---- reassign


def narrow_to_reassignable(rows: Rows) -> Rows:
    """Keep tasks that are not over and that no agent works on."""
    return rows.exclude(state__in=(*FINAL, TaskState.RUNNING))


def check_agent(options: Options) -> Options:
    """Return the agent's name; raises Invalid."""
    return {"agent": agents.check_name(str(options.get("agent", "")).strip())}


def fit_to_agent(rows: Rows, options: Options) -> Rows:
    """Keep tasks of other agents in projects that have an agent of this name.

    Raises Invalid if none of their projects has one.
    """
    name = options["agent"]
    named = Agent.objects.filter(name=name)
    if not named.filter(project__in=rows.values("project")).exists():
        raise Invalid("/agent", f"No agent is called “{name}” in the project of these tasks.")
    return rows.exclude(agent__name=name).filter(Exists(named.filter(project=OuterRef("project"))))


def reassign(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    """Hand each task to the agent of the name in its own project."""
    named = {agent.project_id: agent for agent in Agent.objects.filter(name=options["agent"])}
    left = {}
    for id in ids:
        row = fetch_task(id)
        agent = named.get(row["project_id"])
        if agent is None:
            left[id] = Left("Its project has no agent of this name")
        elif agent.pk == row["agent_id"]:
            left[id] = Left("It is this agent’s already")
        elif refused := change_one(
            id, Change(agent=agent), row["version"], note_of(options), stamp
        ):
            left[id] = refused
    return left


def change_one(task_id: UUID, asked: Change, version: int, note: str, stamp: Stamp) -> Left | None:
    """Change a task; return why if that is impossible."""
    try:
        task_actions.change(task_id, asked, version=version, note=note, stamp=stamp)
    except Refusal as refusal:
        return Left(refusal.title(), refusal.detail)
    return None


# ---- the other verbs


def narrow_to_waiting(rows: Rows) -> Rows:
    return rows.filter(state=TaskState.RETRY)


def retry_now(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    done = task_actions.retry_now(ids, note=note_of(options), stamp=stamp)
    return explain_left(ids, set(done), describe_tasks)


def narrow_to_skipped_need(rows: Rows) -> Rows:
    return rows.filter(blocked_reason=BlockedReason.DEPENDENCY_SKIPPED)


def unblock(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    done = task_actions.unblock(ids, note=note_of(options), stamp=stamp)
    return explain_left(ids, set(done), describe_tasks)


def narrow_to_skippable(rows: Rows) -> Rows:
    return rows.filter(state__in=SKIPPABLE)


def skip(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    skipped = task_actions.skip(
        ids, dependents=options["dependents"], note=note_of(options), stamp=stamp
    )
    return explain_left(ids, set(skipped), describe_tasks)


def narrow_to_abortable(rows: Rows) -> Rows:
    rows = rows.exclude(state__in=FINAL)
    return rows.exclude(state=TaskState.RUNNING, abort_requested_at__isnull=False)


def abort(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    aborted = task_actions.abort(ids, reason=note_of(options), stamp=stamp)
    return explain_left(ids, set(aborted), describe_tasks)


def narrow_to_unfinished(rows: Rows) -> Rows:
    return rows.exclude(state__in=FINAL)


def check_priority(options: Options) -> Options:
    low, high = PRIORITIES
    try:
        priority = int(str(options.get("priority", "")))
    except ValueError:
        raise Invalid("/priority", "Give the priority as a whole number.") from None
    if not low <= priority <= high:
        raise Invalid("/priority", f"The priority must be from {low} to {high}.")
    return {"priority": priority}


def prioritize(ids: list[UUID], options: Options, stamp: Stamp) -> dict[UUID, Left]:
    asked = Change(priority=options["priority"])
    note = note_of(options)
    results = {id: change_one(id, asked, fetch_task(id)["version"], note, stamp) for id in ids}
    return {id: left for id, left in results.items() if left}


def task_verb(name: str, *, permission: str = PERMISSION, **more: object) -> BulkVerb:
    return BulkVerb(name=f"task.{name}", permission=permission, model=Task, **more)  # type: ignore[arg-type]


VERBS = (
    task_verb("retry", narrow=narrow_to_stuck, apply=retry, batch=1),
    task_verb(
        "fix",
        permission=MAY_ANSWER,
        narrow=narrow_to_asked,
        apply=fix,
        check=check_fix,
        batch=1,
    ),
    task_verb(
        "reassign",
        narrow=narrow_to_reassignable,
        apply=reassign,
        check=check_agent,
        fit=fit_to_agent,
    ),
    task_verb("retry_now", narrow=narrow_to_waiting, apply=retry_now),
    task_verb("unblock", narrow=narrow_to_skipped_need, apply=unblock),
    task_verb("skip", narrow=narrow_to_skippable, apply=skip, check=check_dependents),
    task_verb("abort", narrow=narrow_to_abortable, apply=abort),
    task_verb("prioritize", narrow=narrow_to_unfinished, apply=prioritize, check=check_priority),
)
