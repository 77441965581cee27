"""Load the history of a task's attempts and render it for the next one."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from ledger.database import sql
from ledger.database.sql import Row
from ledger.journal import Kind
from ledger.models import Attempt, Event, Failure
from ledger.models.event import EventQuerySet
from ledger.moves import CHECKPOINT
from ledger.secrets.sealing import unseal
from ledger.states import Outcome
from ledger.tasks.lineage import fetch_lineages
from ledger.tasks.payload_changes import name_paths
from retries.failures.fixes import reading as fixes
from retries.models import AttemptDiff, Escalation
from retries.retry_context.block import (
    BUDGET,
    Blocker,
    Guidance,
    History,
    KnownFix,
    Source,
    render_retry_context,
)
from retries.retry_context.environments import compare_environments
from retries.retry_context.failure_elements import FailureRecord
from retries.retry_context.flaky import FlakyCheck, find_flaky_checks
from retries.retry_context.prompt import join_prompt, render_task
from retries.retry_context.standing import Closing, describe_ending
from retries.retry_context.trials import Trial, is_without
from retries.states import QUESTIONS, TEXT_ANSWERS, Answer, EscalationState, Reason

EMPTY_HISTORY = History()
NO_GUIDANCE = Guidance("")
FAILURE_FIELDS = (
    "at",
    "type",
    "code",
    "message",
    "details",
    "verification",
    "root_cause_guess",
    "suggested_fix",
    "files_modified",
    "learnings",
)
FAILURE_PREFIX = "failure__"
FAILURE_COLUMNS = [f"{FAILURE_PREFIX}{name}" for name in ("id", *FAILURE_FIELDS)]
# Few attempts have these, so their statements run only for those that do.
MARKS = {
    "has_source": Exists(AttemptDiff.objects.filter(attempt=OuterRef("pk"))),
    "has_checks": Q(checks__isnull=False),
}


@dataclass(frozen=True, slots=True)
class Answers:
    """People's answers about a task that are still valid, oldest first, and the cleared blockers.

    The closings of escalations are by the number of the attempt before each; people's fixes,
    without secrets, by that of the attempt after each.
    """

    guidance: list[Guidance] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    tried: dict[int, str] = field(default_factory=dict)
    closings: dict[int, Closing] = field(default_factory=dict)


def load_histories(task_ids: Iterable[UUID], *, typed: bool = False) -> dict[UUID, History]:
    """Return the history of each task, in eight queries for any number of tasks."""
    # With `typed`, for the tasks' own agent, answers are as people typed them, and otherwise
    # without secrets. If a fix worked for the newest failures before, some more queries read its
    # counts; if an attempt was blocked, one more reads by what.
    ids = list(task_ids)
    if not ids:
        return {}
    owners = fetch_lineages(ids)
    ended: dict[UUID, list[Mapping[str, Any]]] = {id: [] for id in ids}
    rows = Attempt.objects.filter(task_id__in=owners, outcome__isnull=False).order_by("number")
    rows = rows.annotate(**MARKS)
    columns = ("pk", "task_id", "number", "outcome", "progress", *MARKS, *FAILURE_COLUMNS)
    progress: dict[UUID, Any] = {}
    for row in rows.values(*columns):
        found = {name.removeprefix(FAILURE_PREFIX): value for name, value in row.items()}
        id, reported = owners[row["task_id"]], found.pop("progress")
        ended[id].append(found)
        if reported is not None:
            progress[id] = reported
    answers = find_answers(owners, read_escalations(owners, typed=typed))
    trials, known = find_trials(ids), find_known_fixes(ended.values())
    last = [each[-1] for each in ended.values() if each]
    sources, flaky, changes = find_sources(last), find_flaky(last), find_payload_changes(ids)
    found = {
        id: build_history(
            ended[id], answers.get(id), progress.get(id), trials.get(id), known, sources, flaky
        )
        for id in ids
    }
    return {id: tell_payload(each, ended[id], changes.get(id, ())) for id, each in found.items()}


def load_history(
    lineage: Iterable[UUID],
    attempts: Iterable[Attempt],
    trial: Trial | None,
    advice: Mapping[UUID, fixes.LearnedFix],
    escalations: Iterable[Mapping[str, Any]],
    payload_changes: Iterable[Mapping[str, Any]] = (),
) -> History:
    """Return the history of the task whose rows of all runs are `lineage`, in two queries.

    The attempts come oldest first, and are read with their failures; `advice` is the learned fix
    to tell, by the last failure; `escalations` are what `read_escalations` returns, and
    `payload_changes` the data of the events that `select_payload_changes` keeps.
    """
    task_id, *_ = row_ids = dict.fromkeys(lineage)
    ended: list[Mapping[str, Any]] = []
    progress = None
    for each in attempts:
        failure = getattr(each, "failure", None)
        row = {name: getattr(failure, name, None) for name in ("id", *FAILURE_FIELDS)}
        if each.outcome is not None:
            marks = {name: getattr(each, name) for name in MARKS}
            row |= {"pk": each.pk, "number": each.number, "outcome": each.outcome}
            ended.append(row | marks)
        progress = progress if each.progress is None else each.progress
    answers = find_answers(dict.fromkeys(row_ids, task_id), escalations)
    known = {id: describe_known_fix(fix) for id, fix in advice.items()}
    sources, flaky = find_sources(ended[-1:]), find_flaky(ended[-1:])
    history = build_history(ended, answers.get(task_id), progress, trial, known, sources, flaky)
    return tell_payload(history, ended, payload_changes)


def find_payload_changes(task_ids: Collection[UUID]) -> dict[UUID, list[Mapping[str, Any]]]:
    """Return the changes of each task's payload as they were journaled, oldest first."""
    # Changes of a row that a task carries on are left out, because the task has a payload of its
    # own.
    events = select_payload_changes(Event.objects.about_any(task_ids))
    found: dict[UUID, list[Mapping[str, Any]]] = {}
    for task_id, data in events.values_list("subject_id", "data"):
        found.setdefault(task_id, []).append(data)
    return found


def select_payload_changes(events: EventQuerySet) -> EventQuerySet:
    # Only changes that say for which attempt they are can be told to it.
    keys = ["payload", "attempt"]
    return events.filter(kind=Kind.TASK_CHANGED, data__has_keys=keys).order_by("id")


def tell_payload(
    history: History, ended: list[Mapping[str, Any]], changes: Iterable[Mapping[str, Any]]
) -> History:
    attempt = ended[-1]["number"] + 1 if ended else None
    changed = [each for each in changes if each["attempt"] == attempt]
    if not changed:
        return history
    text = f"Since then, the task's payload was changed: {name_paths(changed)}."
    return replace(history, payload=text)


def find_known_fixes(histories: Iterable[list[Mapping[str, Any]]]) -> dict[UUID, KnownFix]:
    last = [id for ended in histories if ended and (id := ended[-1]["id"])]
    advice = fixes.find_advice(last) if last else {}
    return {id: describe_known_fix(fix) for id, fix in advice.items()}


def describe_known_fix(fix: fixes.LearnedFix) -> KnownFix:
    return KnownFix(
        fix.fix, str(fix.counts), str(fix.plain) if fix.plain.tried else "", fix.signature, fix.key
    )


def build_history(
    ended: list[Mapping[str, Any]],
    answers: Answers | None,
    progress: Any,
    trial: Trial | None,
    known_fixes: Mapping[UUID, KnownFix],
    sources: Mapping[UUID, Source],
    flaky: Mapping[UUID, FlakyCheck],
) -> History:
    # The attempts have ended, and the oldest comes first.
    answers = answers or Answers()
    *earlier, last = answers.guidance or [NO_GUIDANCE]
    return History(
        failures=[build_failure(row) for row in ended if row["at"] is not None],
        fix=last.text,
        masked=last.masked,
        question=last.question,
        earlier=earlier,
        blockers=answers.blockers,
        tried=answers.tried,
        progress=progress,
        standing=describe_last_ending(ended, answers),
        trial=trial,
        known_fix=known_fixes.get(ended[-1]["id"]) if ended else None,
        source=sources.get(ended[-1]["pk"]) if ended else None,
        flaky=str(flaky.get(ended[-1]["pk"], "")) if ended else "",
    )


# the newest attempts among which the last success of a check is searched
MOST_SEARCHED = 200
SOURCES = f"""select d.attempt_id, a.number, d.diff, d.environment, passed.environment as before
from retries_attemptdiff d join ledger_attempt a on a.id = d.attempt_id
left join lateral (
    select o.environment from (
        select attempt_id, environment from retries_attemptdiff
        where check_key = d.check_key and check_key <> '' and attempt_id < d.attempt_id
        order by attempt_id desc limit {MOST_SEARCHED}
    ) o join ledger_attempt p on p.id = o.attempt_id
    where p.outcome = '{Outcome.SUCCESS}' and o.environment is not null
    order by o.attempt_id desc limit 1
) passed on d.environment is not null
where d.attempt_id = any(%(ids)s)"""


def find_sources(attempts: Iterable[Mapping[str, Any]]) -> dict[UUID, Source]:
    """Return what attempts changed, and how their environments differ from the last success."""
    attempt_ids = [each["pk"] for each in attempts if each["has_source"]]
    if not attempt_ids:
        return {}
    return {
        row["attempt_id"]: Source(
            row["number"],
            row["diff"],
            compare_environments(row["before"] or {}, row["environment"] or {}),
        )
        for row in sql.run(SOURCES, ids=attempt_ids)
    }


def find_flaky(attempts: Iterable[Mapping[str, Any]]) -> dict[UUID, FlakyCheck]:
    attempt_ids = [each["pk"] for each in attempts if each["has_checks"]]
    return find_flaky_checks(attempt_ids) if attempt_ids else {}


# An experiment is about the attempts that begin after it.
TRIALS = """select t.id as task_id, e.id, e.element, e.share
from ledger_task t join retries_contextexperiment e
    on e.project_id = t.project_id and e.ended_at is null
left join ledger_attempt a on a.id = t.current_attempt and a.outcome is null
where t.id = any(%(ids)s) and (a.started_at is null or a.started_at >= e.started_at)"""


def find_trials(ids: list[UUID]) -> dict[UUID, Trial]:
    # A task has a side only while its project runs an experiment.
    return {
        row["task_id"]: Trial(
            row["element"], is_without(row["id"], row["task_id"], share=row["share"])
        )
        for row in sql.run(TRIALS, ids=ids)
    }


def describe_last_ending(ended: list[Mapping[str, Any]], answers: Answers) -> str:
    if not ended:
        return ""
    number = ended[-1]["number"]
    return describe_ending(number, ended[-1]["outcome"], answers.closings.get(number))


def read_failure(failure: Failure) -> FailureRecord:
    row = {name: getattr(failure, name) for name in FAILURE_FIELDS}
    return build_failure(row | {"number": failure.attempt.number})


def build_failure(row: Mapping[str, Any]) -> FailureRecord:
    return FailureRecord(
        attempt=row["number"],
        at=row["at"],
        type=row["type"],
        code=row["code"],
        message=row["message"],
        details=row["details"],
        verification=row["verification"],
        root_cause_guess=row["root_cause_guess"],
        suggested_fix=row["suggested_fix"],
        files=row["files_modified"],
        learnings=row["learnings"],
    )


def read_escalations(task_ids: Iterable[UUID], *, typed: bool = False) -> list[dict[str, Any]]:
    # The escalation of a blocked attempt has what blocked it as `blocker`.
    rows = Escalation.objects.filter(task_id__in=task_ids).order_by("id")
    columns = ("task_id", "attempts", "state", "reason", "action", "fix", "question", "sealed")
    found = list(rows.values(*columns))
    blocked = {row["task_id"] for row in found if row["reason"] == Reason.BLOCKED}
    texts = find_blockers(blocked) if blocked else {}
    for row in found:
        row["blocker"] = texts.get((row["task_id"], row["attempts"]), "")
        if typed and row["sealed"]:
            row["masked"] = row["fix"]
            row["fix"] = unseal(row, row["sealed"])["fix"]
    return found


def find_blockers(task_ids: Collection[UUID]) -> dict[tuple[UUID, int], str]:
    """Return what blocked attempts reported themselves blocked by, by task and attempt number."""
    events = Event.objects.about_any(task_ids).filter(
        kind=Kind.TASK_BLOCKED, data__has_keys=["attempt", "error"]
    )
    return {
        (task_id, data["attempt"]): data["error"]
        for task_id, data in events.values_list("subject_id", "data")
    }


def find_answers(
    owners: Mapping[UUID, UUID], rows: Iterable[Mapping[str, Any]]
) -> dict[UUID, Answers]:
    """Return the valid answers by task, and how its escalations were closed."""
    # `owners` maps the rows of tasks to the task that continues each, and `rows` has their
    # escalations. A fix or a retry ends the earlier answers, and so does an escalation by Tenfour,
    # because they have been tried. The answer to a question from an agent or a plan is added to
    # them.
    by_task: dict[UUID, Answers] = {}
    for row in rows:
        if row["reason"] == Reason.BUDGET_USED and row["action"] in (
            None,
            Answer.RETRY,
            Answer.GRANT,
        ):
            continue  # it says nothing about the work
        answers = by_task.setdefault(owners[row["task_id"]], Answers())
        guidance = answers.guidance
        answers.closings[row["attempts"]] = Closing(row["reason"], row["state"])
        if row["reason"] == Reason.BLOCKED:
            answers.blockers.append(Blocker(row["attempts"], row["blocker"]))
        if row["action"] is None and (
            row["state"] != EscalationState.OPEN or row["reason"] in QUESTIONS
        ):
            continue
        if row["action"] != Answer.ANSWER:
            guidance.clear()
        if row["action"] in TEXT_ANSWERS:
            masked = row.get("masked", "")
            if row["action"] == Answer.FIX:
                answers.tried[row["attempts"] + 1] = masked or row["fix"]
            question = row["question"] if row["action"] == Answer.ANSWER else ""
            guidance.append(Guidance(row["fix"], question, masked))
    return by_task


def next_attempt(row: Row, *, fix: str | None = None) -> tuple[int, int]:
    """Return the number and limit of the task's next attempt; a fix grants one more."""
    number: int = row["attempts"] + 1
    return number, number if fix else max(row["attempt_limit"], number)


def may_have_history(type: str, attempt: int) -> bool:
    # A checkpoint's first attempt has an answer.
    return attempt > 1 or type.startswith(CHECKPOINT)


def render_next_context(
    row: Row,
    *,
    history: History | None = None,
    fix: str | None = None,
    typed: bool = False,
    budget: int = BUDGET,
) -> str:
    # `fix` is the text that a person is about to send; it replaces the earlier answers. With
    # `typed`, for the task's own agent, answers are as people typed them.
    if not may_have_history(row["type"], row["attempts"] + 1):
        return ""
    history = history or load_histories([row["id"]], typed=typed)[row["id"]]
    if fix is not None:
        history = replace(history, fix=fix, masked="", question="", earlier=())
    number, limit = next_attempt(row, fix=fix)
    return render_retry_context(history, attempt=number, max_attempts=limit, budget=budget)


def render_prompt(row: Row, context: str, *, system: str) -> str:
    xml = render_task(
        title=row["title"],
        type=row["type"],
        payload=row["payload"],
        ref=row["ref"] or "",
        skipped_needs=row["skipped_needs"] or (),
    )
    return join_prompt(xml, context, system=system)
