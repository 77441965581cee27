"""Suggest a cause and fixes for a failure: fixes that worked before, then known errors."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger.database.sql import Row
from ledger.models import Failure
from ledger.tasks.lineage import fetch_lineages
from retries.failures import grouping
from retries.failures.fixes.reading import (
    FixState,
    LearnedFix,
    fetch_outcomes,
    find_learned_fixes,
    has_worked,
    normalize_fix,
    pick_learned,
)

MOST_FIXES = 3
# of a fix for errors that nothing identifies
ELSEWHERE = "worked elsewhere for the same words"
BY_AGENT = "suggested by the agent"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A likely cause and a fix, each from the agent if it gave one, else from Tenfour.

    `cause_by` and `fix_by` are `agent`, `tenfour`, or empty if there is no cause or fix; `fix_by`
    is `person` if it worked before.
    """

    title: str = ""
    cause: str = ""
    cause_by: str = ""
    fix: str = ""
    fix_by: str = ""
    for_person: str = ""  # what a person has to do; then Tenfour's fix is left out

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
        never = [name for name in self.failed_for if name not in self.worked_for]
        text = f"worked for {', '.join(self.worked_for)}" if self.worked_for else ELSEWHERE
        return f"{text}, not for {', '.join(never)}" if never else text


@dataclass(frozen=True, slots=True)
class FixOffer:
    """A fix to offer to a person, with the reason: `worked 5 of 6`, or who suggests it."""

    fix: str
    why: str


def suggest(failure: Failure, *, offered: str = "") -> Suggestion:
    """Return a cause and a fix; a known error fills in what the agent left out.

    A fix that is `offered` first, because it worked before, replaces theirs.
    """
    known = grouping.find_known_error(failure)
    cause, fix, for_person = (known.cause, known.fix, known.for_person) if known else ("", "", "")
    if for_person:
        fix = ""  # it tells the agent to ask the person who reads this
    own = failure.suggested_fix or fix
    is_persons = bool(offered) and normalize_fix(offered) != normalize_fix(own)
    return Suggestion(
        title=known.error.title if known else "",
        cause=failure.root_cause_guess or cause,
        cause_by=source_of(failure.root_cause_guess, cause),
        fix=offered if is_persons else own,
        fix_by="person" if is_persons else source_of(failure.suggested_fix, fix),
        for_person=for_person,
    )


def source_of(agents: str, ours: str) -> str:
    return "agent" if agents else "tenfour" if ours else ""


def list_worked_fixes(
    pattern_id: UUID, *, most: int = MOST_FIXES, outcomes: Iterable[Row] | None = None
) -> list[WorkedFix]:
    """Return the fixes that worked for a pattern, the most reliable first.

    Fixes that differ only in case or spacing count as one. Pass their `outcomes` if they are
    already read.
    """
    return find_worked_fixes([pattern_id], outcomes=outcomes)[pattern_id][:most]


def find_worked_fixes(
    pattern_ids: Iterable[UUID], *, outcomes: Iterable[Row] | None = None
) -> dict[UUID, list[WorkedFix]]:
    found: dict[UUID, dict[str, WorkedFix]] = {id: {} for id in pattern_ids}
    for row in fetch_outcomes(found) if outcomes is None else outcomes:
        add_outcome(found[row["pattern_id"]], row)
    return {
        id: sorted((each for each in fixes.values() if each.worked), key=confidence, reverse=True)
        for id, fixes in found.items()
    }


def add_outcome(fixes: dict[str, WorkedFix], row: Row) -> None:
    key = normalize_fix(row["fix"])
    before = fixes.get(key)
    worked, named = has_worked(row["outcome"]), tuple(row["entities"])
    worked_for = before.worked_for if before else ()
    failed_for = before.failed_for if before else ()
    fixes[key] = WorkedFix(
        fix=row["fix"],
        worked=(before.worked if before else 0) + worked,
        tried=(before.tried if before else 0) + 1,
        last_at=row["closed_at"],
        last_by=row["answered_by_name"],
        worked_for=tuple(dict.fromkeys(worked_for + named * worked)),
        failed_for=tuple(dict.fromkeys(failed_for + named * (not worked))),
    )


def confidence(fix: WorkedFix) -> tuple[float, datetime]:
    # 5 of 6 ranks above 1 of 1.
    return (fix.worked + 1) / (fix.tried + 2), fix.last_at


def list_offers(
    failure: Failure, learned: list[LearnedFix] | None = None, *, most: int = MOST_FIXES
) -> list[FixOffer]:
    """Return the fixes to offer for a failure, first the fixes that worked before.

    Pass what is `learned` for its signature if it is already loaded.
    """
    if learned is None:
        learned = pick_learned(failure, find_learned_fixes([failure.pk]))
    return offer_fixes(failure, learned, most=most)


def find_offers(
    failures: Iterable[Failure], *, most: int = MOST_FIXES
) -> dict[UUID, list[FixOffer]]:
    """Return the fixes to offer for each of a project's failures, by failure id.

    The failures are read with `grouped`.
    """
    # A fix that worked is offered only where the signature is the same: a fix for one module does
    # not help with another. A retired one is not offered.
    rows = {failure.pk: failure for failure in failures}
    learned = find_learned_fixes(rows)
    return {
        id: offer_fixes(failure, pick_learned(failure, learned), most=most)
        for id, failure in rows.items()
    }


def offer_fixes(failure: Failure, known: list[LearnedFix], *, most: int) -> list[FixOffer]:
    offered = [
        FixOffer(each.fix, each.evidence if each.is_advice else str(each))
        for each in known
        if each.is_advice or (each.state == FixState.TRIED and each.counts.worked)
    ][:most]
    suggestion = suggest(failure)
    if suggestion.fix and normalize_fix(suggestion.fix) not in {
        normalize_fix(each.fix) for each in offered
    }:
        who = BY_AGENT if suggestion.fix_by == "agent" else suggestion.title
        offered.append(FixOffer(suggestion.fix, who))
    return offered


def find_last_failures(task_ids: Iterable[UUID]) -> dict[UUID, Failure]:
    """Return each task's last failure, including failures of the runs that it continues."""
    owners = fetch_lineages(task_ids)
    rows = Failure.objects.filter(task__in=owners).select_related("grouped")
    rows = rows.order_by("task", "-id").distinct("task")
    return {owners[row.task_id]: row for row in sorted(rows, key=lambda row: row.pk)}


def find_first_fixes(task_ids: Iterable[UUID]) -> dict[UUID, str]:
    last = find_last_failures(task_ids)
    offered = find_offers(last.values(), most=1)
    return {id: offered[row.pk][0].fix for id, row in last.items() if offered[row.pk]}
