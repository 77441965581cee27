"""The verbs of tasks: retry, skip, abort, and change who does them and when."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from ledger import agents
from ledger.admin_pages.confirmation import list_effects
from ledger.database import sql
from ledger.errors import Invalid, InvalidTransition, Refusal
from ledger.journal import Stamp
from ledger.models import Agent, DeadLetter, Task
from ledger.states import FINAL, BlockedReason, TaskState, list_sources
from ledger.tasks import Change
from ledger.tasks.lineage import fetch_at_version, fetch_task
from ledger.tasks.payload_changes import check_masks
from ledger.tasks.spec import PRIORITIES
from ledger.values.text import counted
from retries import deadletters
from retries.assignment.rows import TASK
from retries.budgets import editing as budget_editing
from retries.escalations import answering, choices
from retries.escalations.choices import Choice, check_dependents
from retries.failures.stuck_tasks import retryable_escalations
from retries.models import Escalation
from retries.states import Answer
from retries.tasks import actions as task_actions
from retries.tasks.dependents import lock_with_questions
from retries.verbs.assignment import make_assign, make_comment
from retries.verbs.effects import describe_abort, describe_dependents, describe_stopped
from retries.verbs.verb import MAY_ANSWER, Left, Options, Rows, Verb, call, count_as, note_of


def describe_tasks(ids: list[UUID]) -> dict[UUID, Left]:
    rows = Task.objects.filter(pk__in=ids).order_by("id")
    return {
        row.pk: Left("Already asked to stop")
        if row.state == TaskState.RUNNING and row.abort_requested_at
        else Left(f"State is now “{row.state}”")
        for row in rows.only("id", "state", "abort_requested_at")
    }


# ---- retry, whatever the task waits for


# the fields that a retry can change
EDITED = ("payload", "agent", "max_attempts", "not_before")


def narrow_to_stuck(rows: Rows) -> Rows:
    """Keep tasks that wait for a retry, failed, or have a question that a retry can answer."""
    letters = DeadLetter.objects.replayable().filter(task=OuterRef("pk"))
    asked = retryable_escalations().filter(task=OuterRef("pk"))
    return rows.filter(
        Q(state=TaskState.RETRY)
        | Q(Exists(letters), state=TaskState.FAILED)
        | Q(Exists(asked), state=TaskState.ESCALATED),
        replaced_by=None,
    )


def retry(task_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    """Retry a task as its state needs it; return why if that is impossible."""
    row, note = fetch_task(task_id), note_of(options)
    asked = Change(**{name: options.get(name) for name in EDITED})
    first = replace(asked, not_before=None)  # a retry now would end that wait
    if first.names and row["state"] in (TaskState.RETRY, TaskState.ESCALATED):
        check_masks(row["payload"], row["payload"] if asked.payload is None else asked.payload)
        version = options.get("version") or row["version"]
        task_actions.change(task_id, first, version=version, note=note, stamp=stamp)
    match row["state"]:
        # with changes, it may be due already
        case TaskState.RETRY if (
            task_actions.retry_now([task_id], note=note, stamp=stamp) or asked.names
        ):
            set_start(task_id, asked, note, stamp)
            return None
        case TaskState.FAILED:
            letters = DeadLetter.objects.filter(task=task_id).order_by("id")
            ids = list(letters.values_list("pk", flat=True))
            every = DeadLetter.objects.all()
            if deadletters.replay(ids, among=every, note=note, asked=asked, stamp=stamp):
                return None
            return Left("Its dead letter is closed, or its plan is aborted")
        case TaskState.ESCALATED:
            choice, channel = Choice(Answer.RETRY, note=note), options.get("channel", "page")
            left = answer_one(task_id, choice, stamp, channel=channel)
            if left is None:
                set_start(task_id, asked, note, stamp)
            return left
    return Left(f"State is now “{row['state']}”")


def set_start(task_id: UUID, asked: Change, note: str, stamp: Stamp) -> None:
    if asked.not_before:
        later, version = Change(not_before=asked.not_before), fetch_task(task_id)["version"]
        task_actions.change(task_id, later, version=version, note=note, stamp=stamp)


@sql.atomic
def retry_one(task_id: UUID, options: Options, stamp: Stamp) -> UUID:
    """Retry a task that is still at `version`, with changes; return the task that has its place.

    Raises Invalid, VersionMismatch, and InvalidTransition if its state allows no retry.
    """
    row = fetch_at_version(task_id, version=options["version"])
    if row["state"] == TaskState.ESCALATED:
        lock_with_questions([task_id])  # in the order of an answer
    if left := retry(task_id, options, stamp):
        raise InvalidTransition(f"{left.why}.", current=row["state"], allowed=[])
    shown = Task.objects.values_list("replaced_by", flat=True).get(pk=task_id) or task_id
    if budget := options.get("budget"):
        scope = budget_editing.Scope(row["project_id"], task_id=shown)
        budget_editing.set_budget(scope, budget, stamp=stamp)
    return shown


def answer_one(
    task_id: UUID, choice: Choice, stamp: Stamp, *, channel: str = "page"
) -> Left | None:
    """Answer a task's question; return why if a person has to read it first."""
    asked = retryable_escalations().filter(task=task_id).order_by("id").first()
    if asked is None:
        return Left("A person has to read its question")
    answering.answer(asked.pk, choice, among=Escalation.objects.all(), stamp=stamp, channel=channel)
    return None


# ---- retry with an instruction, which only the answer to a question can give


def narrow_to_asked(rows: Rows) -> Rows:
    """Keep tasks whose question an instruction can answer unread."""
    asked = retryable_escalations().filter(task=OuterRef("pk"))
    return rows.filter(Exists(asked), state__in=(TaskState.ESCALATED, TaskState.BLOCKED))


def check_fix(text: str) -> str:
    return choices.check(Choice(Answer.FIX, fix=text)).fix.strip()


def fix(task_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    row = fetch_task(task_id)
    if row["state"] == TaskState.ESCALATED or row["blocked_reason"] == BlockedReason.REPORTED:
        choice = Choice(Answer.FIX, fix=options["fix"], note=note_of(options))
        return answer_one(task_id, choice, stamp)
    return Left(f"State is now “{row['state']}”")


# ---- reassign


def check_agent(name: str) -> str:
    return agents.check_name(name.strip())


def fit_to_agent(rows: Rows, options: Options) -> Rows:
    """Keep tasks of other agents in projects that have an agent of this name.

    Raises Invalid if none of their projects has one.
    """
    name = options["agent"]
    named = Agent.objects.filter(name=name, removed_at=None)
    if not named.filter(project__in=rows.values("project")).exists():
        raise Invalid("/agent", f"No agent is called “{name}” in the project of these tasks.")
    return rows.exclude(agent__name=name).filter(Exists(named.filter(project=OuterRef("project"))))


def reassign(task_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    row = fetch_task(task_id)
    named = Agent.objects.filter(name=options["agent"], removed_at=None)
    agent = named.filter(project=row["project_id"]).first()
    if agent is None:
        return Left("Its project has no agent of this name")
    if agent.pk == row["agent_id"]:
        return Left("It is this agent’s already")
    return change(task_id, Change(agent=agent), row["version"], options, stamp)


def change(
    task_id: UUID, asked: Change, version: int, options: Options, stamp: Stamp
) -> Left | None:
    try:
        task_actions.change(task_id, asked, version=version, note=note_of(options), stamp=stamp)
    except Refusal as refusal:
        return Left(refusal.title(), refusal.detail)
    return None


# ---- hand over all that an agent has


def fit_to_parts(rows: Rows, options: Options) -> Rows:
    """Keep the running tasks if they are aborted, and the others if an agent gets them."""
    # With both, a task that a claim takes meanwhile is among them, whatever its state.
    own, runs = rows.filter(agent=options["of"] or None), Q(state=TaskState.RUNNING)
    if options["abort"]:
        return own if options["agent"] else own.filter(runs)
    return own.exclude(runs) if options["agent"] else own.none()


def hand_over(task_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    """Abort a running task, or give a waiting one to the new agent."""
    lock_with_questions([task_id])  # its state is the one after a claim in progress
    row = fetch_task(task_id)
    if str(row["agent_id"]) != options["of"]:
        return Left("It is another agent’s now")
    if row["state"] == TaskState.RUNNING and options["abort"]:
        stopped = task_actions.abort([task_id], reason=note_of(options), stamp=stamp)
        return None if task_id in stopped else Left("Already asked to stop")
    if row["state"] in (*FINAL, TaskState.RUNNING) or not options["agent"]:
        return Left(f"State is now “{row['state']}”")
    return reassign(task_id, options, stamp)


def check_priority(text: str) -> int:
    low, high = PRIORITIES
    try:
        priority = int(text)
    except ValueError:
        raise Invalid("/priority", "Give the priority as a whole number.") from None
    if not low <= priority <= high:
        raise Invalid("/priority", f"The priority must be from {low} to {high}.")
    return priority


def prioritize(task_id: UUID, options: Options, stamp: Stamp) -> Left | None:
    asked = Change(priority=options["priority"])
    return change(task_id, asked, fetch_task(task_id)["version"], options, stamp)


# ---- retry now, unblock, skip, abort


def tell_skipped(skipped: Collection[UUID], ids: list[UUID], options: Options) -> str:
    more = len(set(skipped) - set(ids))
    also = f", and {counted(more, 'dependent task')}" if more else ""
    return f"{counted(len(skipped) - more, 'task')} skipped{also}."


def describe_skip(rows: Rows, options: Options) -> list[str]:
    number = rows.count()
    return [
        *list_effects((number, f"{counted(number, 'task')} will be skipped.")),
        *describe_dependents(rows.values("pk"), options["dependents"]),
    ]


def tell_aborted(stopped: Mapping[UUID, bool], ids: list[UUID], options: Options) -> str:
    now, later = sum(stopped.values()), len(stopped) - sum(stopped.values())
    said = [f"{counted(now, 'task')} aborted."] if now else []
    said += [f"{counted(later, 'task')} asked to stop."] if later else []
    return " ".join(said)


def report_aborted(stopped: Mapping[UUID, bool], options: Options) -> str:
    now, later = sum(stopped.values()), len(stopped) - sum(stopped.values())
    return f"stopped: {describe_stopped(now, later)}" if stopped else "stopped"


task_verb = partial(Verb, model=Task, describe=describe_tasks)
RETRY = task_verb(
    name="task.retry",
    where=narrow_to_stuck,
    each=retry,
    retries=True,
    batch=1,
    words=("Retry", "Retrying", "retried"),
    icon="s-retry",
)
FIX = task_verb(
    name="task.fix",
    allowed_by=MAY_ANSWER,
    where=narrow_to_asked,
    takes={"fix": check_fix},
    each=fix,
    retries=True,
    batch=1,
    words=("Retry", "Retrying", "retried"),
    icon="n-instructions",
    tail=" with an instruction",
    label="Retry with instruction",
)
REASSIGN = task_verb(
    name="task.reassign",
    # not over, and no agent works on it
    where=~Q(state__in=(*FINAL, TaskState.RUNNING)),
    takes={"agent": check_agent},
    fit=fit_to_agent,
    each=reassign,
    words=("Reassign", "Reassigning", "reassigned"),
    icon="n-agents",
)
# where an agent is stopped; no list offers it
HAND_OVER = task_verb(
    name="task.hand_over",
    where=~Q(state__in=FINAL) & ~Q(state=TaskState.RUNNING, abort_requested_at__isnull=False),
    takes={"of": str, "agent": lambda name: check_agent(name) if name else "", "abort": bool},
    fit=fit_to_parts,
    each=hand_over,
    words=("Abort or hand over", "Aborting or handing over", "aborted or handed over"),
    icon="n-agents",
)
PRIORITIZE = task_verb(
    name="task.prioritize",
    where=~Q(state__in=FINAL),
    takes={"priority": check_priority},
    each=prioritize,
    words=("Change priority of", "Changing the priority of", "changed"),
    icon="pen",
    label="Priority",
)
RETRY_NOW = task_verb(
    name="task.retry_now",
    where=Q(state=TaskState.RETRY),
    run=call(task_actions.retry_now),
    words=("Retry now", "Retrying", "retried"),
    icon="play",
    slug="retry-now",
    key="r",
    said="will retry now",
    admin="Retry now",
    admin_done="retried now",
)
UNBLOCK = task_verb(
    name="task.unblock",
    where=Q(blocked_reason=BlockedReason.DEPENDENCY_SKIPPED),
    run=call(task_actions.unblock),
    words=("Unblock", "Unblocking", "unblocked"),
    icon="play",
    slug="unblock",
    key="u",
    admin="Unblock: continue without the skipped task",
    effects=count_as("task", "will continue without a skipped need."),
)
SKIP = task_verb(
    name="task.skip",
    where=Q(state__in=list_sources(TaskState.SKIPPED)),
    takes={"dependents": check_dependents},
    run=call(task_actions.skip, "dependents"),
    ends=True,
    is_dangerous=True,
    words=("Skip", "Skipping", "skipped"),
    icon="s-skipped",
    slug="skip",
    key="s",
    question="Skip this task?",
    confirm="Skip task",
    consequence="Tasks that need it treat it as done. This can’t be undone.",
    said=tell_skipped,
    admin="Skip…",
    effects=describe_skip,
)
ABORT = task_verb(
    name="task.abort",
    # a running task has no move of its own: its agent has to stop it, and is asked once
    where=~Q(state__in=FINAL) & ~Q(state=TaskState.RUNNING, abort_requested_at__isnull=False),
    run=call(task_actions.abort, note="reason"),
    ends=True,
    is_dangerous=True,
    words=("Abort", "Aborting", "aborted"),
    is_red=True,
    icon="s-aborted",
    slug="abort",
    key="a",
    question="Abort this task?",
    confirm="Abort task",
    consequence="Tasks that need it stay blocked. A running task stops when its agent reports or "
    "its lease expires. This can’t be undone.",
    said=tell_aborted,
    admin="Abort…",
    admin_done=report_aborted,
    effects=lambda rows, options: describe_abort(rows),
)
ASSIGN = make_assign("task.assign", TASK, Task)
COMMENT = make_comment("task.comment", TASK, Task)
PAGE = (RETRY_NOW, UNBLOCK, SKIP, ABORT)
PEOPLE = (ASSIGN, COMMENT)
LIST = (RETRY, FIX, REASSIGN, SKIP, ABORT, UNBLOCK, PRIORITIZE, ASSIGN)
VERBS = (*LIST, RETRY_NOW, HAND_OVER)
