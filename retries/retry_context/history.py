"""What is on record of a task's attempts, gathered for those that come next."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from ledger.models import Attempt, Failure
from ledger.moves import CHECKPOINT
from ledger.sql import Row
from ledger.tasks.lineage import fetch_lineages
from retries import claims
from retries.models import Escalation
from retries.retry_context.block import BUDGET, Failed, Past, Said, retry_context
from retries.retry_context.prompt import prompt, task_xml
from retries.states import TEXT_ANSWERS, Answer, EscalationState, Reason

NOTHING = Past()
NO_WORDS = Said("")
FAILURE = (
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


def pasts(task_ids: Iterable[UUID]) -> dict[UUID, Past]:
    """What is known of each of these tasks: four queries, however many they are."""
    ids = list(task_ids)
    if not ids:
        return {}
    failures: dict[UUID, list[Failed]] = {id: [] for id in ids}
    belongs = fetch_lineages(ids)
    rows = Failure.objects.filter(task_id__in=belongs).order_by("attempt__number")
    for row in rows.values("task_id", "attempt__number", *FAILURE):
        failures[belongs[row["task_id"]]].append(failed(row["attempt__number"], row))
    said, progress = standing(belongs), claims.last_progress(belongs)
    return {id: past(failures[id], said.get(id), progress.get(id)) for id in ids}


def past_of(line: Iterable[UUID], attempts: Iterable[Attempt]) -> Past:
    """The same of a task that stands still, whose rows of all runs are `line`: one query where its
    attempts were read, the oldest first, with their failures."""
    task_id, *_ = belongs = dict.fromkeys(line)
    failures: list[Failed] = []
    progress = None
    for each in attempts:
        if failure := getattr(each, "failure", None):
            row = {name: getattr(failure, name) for name in FAILURE}
            failures.append(failed(each.number, row))
        progress = progress if each.progress is None else each.progress
    said = standing(dict.fromkeys(belongs, task_id))
    return past(failures, said.get(task_id), progress)


def past(failures: list[Failed], said: list[Said] | None, progress: Any) -> Past:
    *earlier, last = said or [NO_WORDS]
    return Past(
        failures=failures,
        fix=last.words,
        question=last.question,
        earlier=earlier,
        progress=progress,
    )


def failed(number: int, row: Mapping[str, Any]) -> Failed:
    return Failed(
        attempt=number,
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


def standing(belongs: Mapping[UUID, UUID]) -> dict[UUID, list[Said]]:
    """The words of people that stand, by task, the oldest first; `belongs` are the rows of tasks,
    each with the task that goes on with it.

    A fix or a retry ends what was said before; so does a question from Tenfour: those words
    were tried. What is asked by an agent or a plan adds its answer; where that never came, nothing.
    """
    rows = Escalation.objects.filter(task_id__in=belongs).order_by("id")
    found: dict[UUID, list[Said]] = {}
    for row in rows.values("task_id", "state", "reason", "action", "fix", "question"):
        said = found.setdefault(belongs[row["task_id"]], [])
        if row["action"] is None and (
            row["state"] != EscalationState.OPEN or row["reason"] == Reason.AGENT_QUESTION
        ):
            continue
        if row["action"] != Answer.ANSWER:
            said.clear()
        if row["action"] in TEXT_ANSWERS:
            asked = row["question"] if row["action"] == Answer.ANSWER else ""
            said.append(Said(row["fix"], asked))
    return found


def next_attempt(row: Row, *, fix: str | None = None) -> tuple[int, int]:
    """Number and limit of the attempt that follows the last one; a fix grants one more."""
    number: int = row["attempts"] + 1
    return number, number if fix else max(row["attempt_limit"], number)


def may_be_told(type: str, attempt: int) -> bool:
    """Whether anything can be on record for it: a first attempt has nothing before it, but a
    checkpoint has a person's answer."""
    return attempt > 1 or type.startswith(CHECKPOINT)


def next_context(
    row: Row, *, past: Past | None = None, fix: str | None = None, budget: int = BUDGET
) -> str:
    """What the task's next attempt will be told of those before it.

    `fix` are words that a person is about to give, in place of those that stand.
    """
    if not may_be_told(row["type"], row["attempts"] + 1):
        return ""
    past = past or pasts([row["id"]])[row["id"]]
    if fix is not None:
        past = Past(failures=past.failures, fix=fix, progress=past.progress)
    number, limit = next_attempt(row, fix=fix)
    return retry_context(past, attempt=number, max_attempts=limit, budget=budget)


def prompt_of(row: Row, context: str, *, system: str) -> str:
    """The prompt of an attempt at this task: its agent's system text, `context`, the task."""
    xml = task_xml(
        title=row["title"], type=row["type"], payload=row["payload"], ref=row["ref"] or ""
    )
    return prompt(xml, context, system=system)
