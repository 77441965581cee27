"""Suggest a cause and fixes for a failure: fixes that worked before, then known errors."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from ledger import sql
from ledger.models import Failure
from ledger.sql import Row
from ledger.states import Outcome
from ledger.tasks.lineage import fetch_lineages, lineage_cte
from retries.failures import grouping, known_errors
from retries.failures.known_errors import Match
from retries.states import Answer, EscalationState

MOST_FIXES = 3
BY_AGENT = "suggested by the agent"
Key = TypeVar("Key", UUID, str)  # the id of a pattern, or the key of a signature
RECENT_ANSWERS = 1000  # how many of a project's newest answers are searched


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A likely cause and a fix, each from the agent if it gave one, else from Tenfour.

    `cause_by` and `fix_by` are `agent`, `tenfour`, or empty if there is no cause or fix.
    """

    title: str = ""
    cause: str = ""
    cause_by: str = ""
    fix: str = ""
    fix_by: str = ""

    def __bool__(self) -> bool:
        return bool(self.cause or self.fix)


@dataclass(frozen=True, slots=True)
class WorkedFix:
    """A person's fix for failures of one pattern, with how often the next attempt succeeded."""

    fix: str
    worked: int
    tried: int
    last_at: datetime
    last_by: str
    worked_for: tuple[str, ...] = ()  # what the errors named where it worked, and where it did not
    failed_for: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"worked {self.worked} of {self.tried}"

    @property
    def named(self) -> str:
        """What the fix worked for, such as "worked for polars, not for fastapi"."""
        never = [name for name in self.failed_for if name not in self.worked_for]
        text = f"worked for {', '.join(self.worked_for)}" if self.worked_for else ""
        return f"{text}, not for {', '.join(never)}" if text and never else text


@dataclass(frozen=True, slots=True)
class FixOffer:
    """A fix to offer to a person, with the reason: `worked 5 of 6`, or who suggests it."""

    fix: str
    why: str


def suggest(failure: Failure) -> Suggestion:
    """Return a cause and a fix; a known error fills in what the agent left out."""
    known = find_known_error(failure)
    cause, fix = (known.cause, known.fix) if known else ("", "")
    return Suggestion(
        title=known.error.title if known else "",
        cause=failure.root_cause_guess or cause,
        cause_by=source_of(failure.root_cause_guess, cause),
        fix=failure.suggested_fix or fix,
        fix_by=source_of(failure.suggested_fix, fix),
    )


def find_known_error(failure: Failure) -> Match | None:
    """Return the known error of a failure, if it has one."""
    code = (failure.verification or {}).get("exit_code")
    return known_errors.find(
        *grouping.texts_of(failure), exit_code=code if isinstance(code, int) else None
    )


def source_of(agents: str, ours: str) -> str:
    """Return who a text is from: `agent`, `tenfour` or empty."""
    return "agent" if agents else "tenfour" if ours else ""


# A fix is for the pattern of the task's last failure before the answer. The result that counts is
# that of the first attempt after it that was not released or aborted.
def select_outcomes(rows: str, task: str) -> str:
    """Return the SQL that selects the signature of each fix in `rows` and the next outcome."""
    return f"""select last.pattern_id, last.signature, last.entities,
    e.fix, e.closed_at, e.answered_by_name, next.outcome
from {rows}
cross join lateral (
    select g.pattern_id, g.signature, g.entities
    from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = {task} and f.at <= e.closed_at
    order by f.id desc limit 1
) last
cross join lateral (
    select a.outcome from ledger_attempt a
    where a.task_id = {task} and a.started_at >= e.closed_at
        and (a.outcome is null or a.outcome not in ('{Outcome.RELEASED}', '{Outcome.ABORTED}'))
    order by a.number limit 1
) next
where last.pattern_id = any(%(patterns)s) and next.outcome is not null"""


# If a task continues in the row of another run, the attempts and failures of all its rows count.
# The many other tasks are queried separately, because a search by one task is three times as fast.
FIX_OUTCOMES = f"""with recursive answered as materialized (
    select e.*, num_nonnulls(t.carries_id, t.replaced_by_id) = 0 as is_alone
    from (
        select id, task_id, fix, closed_at, answered_by_name from retries_escalation
        where project_id in (
                select project_id from retries_failurepattern where id = any(%(patterns)s)
            )
            and state = '{EscalationState.RESOLVED}' and action = '{Answer.FIX}'
            and task_id is not null
        order by id desc limit {RECENT_ANSWERS}
    ) e join ledger_task t on t.id = e.task_id
), others as (select * from answered where not is_alone),
{lineage_cte("others")}, lines as (
    select task_id, array_agg(id) as ids from lineage group by task_id
)
{select_outcomes("answered e", "e.task_id")} and e.is_alone
union all
{select_outcomes("others e join lines l using (task_id)", "any(l.ids)")}
order by closed_at"""


def list_worked_fixes(pattern_id: UUID, *, most: int = MOST_FIXES) -> list[WorkedFix]:
    """Return the fixes that worked for a pattern, the most reliable first.

    Fixes that differ only in case or spacing count as one.
    """
    return find_worked_fixes([pattern_id])[pattern_id][:most]


def find_worked_fixes(pattern_ids: Iterable[UUID]) -> dict[UUID, list[WorkedFix]]:
    """Return the fixes that worked for each of a project's patterns, in one query."""
    ids = set(pattern_ids)
    return count_fixes(fetch_outcomes(ids), ids, of="pattern_id")


def fetch_outcomes(pattern_ids: Iterable[UUID]) -> list[Row]:
    """Return the fixes of patterns with the outcome of the next attempt, oldest first."""
    ids = list(pattern_ids)
    return sql.run(FIX_OUTCOMES, patterns=ids) if ids else []


def count_fixes(rows: Iterable[Row], keys: Iterable[Key], *, of: str) -> dict[Key, list[WorkedFix]]:
    """Return the fixes that worked, by pattern or by signature, the most reliable first."""
    found: dict[Key, dict[str, WorkedFix]] = {key: {} for key in keys}
    for row in rows:
        if row[of] not in found:
            continue
        fixes, key = found[row[of]], normalize_fix(row["fix"])
        before = fixes.get(key)
        has_worked, named = row["outcome"] == Outcome.SUCCESS, tuple(row["entities"])
        worked_for = before.worked_for if before else ()
        failed_for = before.failed_for if before else ()
        fixes[key] = WorkedFix(
            fix=row["fix"],
            worked=(before.worked if before else 0) + has_worked,
            tried=(before.tried if before else 0) + 1,
            last_at=row["closed_at"],
            last_by=row["answered_by_name"],
            worked_for=tuple(dict.fromkeys(worked_for + named * has_worked)),
            failed_for=tuple(dict.fromkeys(failed_for + named * (not has_worked))),
        )
    return {
        key: sorted((each for each in fixes.values() if each.worked), key=confidence, reverse=True)
        for key, fixes in found.items()
    }


def normalize_fix(fix: str) -> str:
    """Return the text that fixes share if they differ only in case or spacing."""
    return " ".join(fix.split()).casefold()


def confidence(fix: WorkedFix) -> tuple[float, datetime]:
    """Return the sort key of a fix: 5 of 6 ranks above 1 of 1."""
    return (fix.worked + 1) / (fix.tried + 2), fix.last_at


def list_offers(failure: Failure, *, most: int = MOST_FIXES) -> list[FixOffer]:
    """Return the fixes to offer for a failure; those that worked before come first."""
    return find_offers([failure], most=most)[failure.pk]


def find_offers(
    failures: Iterable[Failure], *, most: int = MOST_FIXES
) -> dict[UUID, list[FixOffer]]:
    """Return the fixes to offer for each of a project's failures, by failure id.

    A fix that worked is offered only where the signature is the same: what helped with one module
    does not help with another. This is one query if the failures were read with `grouped`.
    """
    rows = {failure.pk: failure for failure in failures}
    grouped = {id: getattr(failure, "grouped", None) for id, failure in rows.items()}
    signed = {id: each for id, each in grouped.items() if each and each.signature}
    outcomes = fetch_outcomes({each.pattern_id for each in signed.values()})
    worked = count_fixes(outcomes, {each.signature for each in signed.values()}, of="signature")
    found = {}
    for id, failure in rows.items():
        before = worked[signed[id].signature][:most] if id in signed else []
        offered = [FixOffer(each.fix, str(each)) for each in before]
        suggestion = suggest(failure)
        if suggestion.fix and normalize_fix(suggestion.fix) not in {
            normalize_fix(each.fix) for each in offered
        }:
            who = BY_AGENT if suggestion.fix_by == "agent" else suggestion.title
            offered.append(FixOffer(suggestion.fix, who))
        found[id] = offered
    return found


def find_last_failures(task_ids: Iterable[UUID]) -> dict[UUID, Failure]:
    """Return the last failure of each task, including those of the runs that it continues."""
    owners = fetch_lineages(task_ids)
    rows = Failure.objects.filter(task__in=owners).select_related("grouped")
    rows = rows.order_by("task", "-id").distinct("task")
    return {owners[row.task_id]: row for row in sorted(rows, key=lambda row: row.pk)}


def find_first_fixes(task_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the first fix to offer for each task that has one."""
    last = find_last_failures(task_ids)
    offered = find_offers(last.values(), most=1)
    return {id: offered[row.pk][0].fix for id, row in last.items() if offered[row.pk]}
