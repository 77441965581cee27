"""The page of one failure pattern with its failures."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dashboard.actions import list_allowed
from dashboard.assignment import read_comments
from dashboard.charts.markers import read_markers
from dashboard.frame.found_rows import require_row
from dashboard.frame.live_updates import read_live_key
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.patterns import queries
from dashboard.patterns.listing import PATTERNS
from retries.failures import figures
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import suggestions
from retries.failures.fixes import verdicts as fix_verdicts
from retries.failures.fixes.reading import FixState, LearnedFix
from retries.models import FailurePattern
from retries.states import Verdict
from retries.verbs.patterns import IGNORE_TIMES, PAGE, RETRY

FIXES_SHOWN = 20
FIX_STATES = {
    FixState.PROMOTED: "Promoted",
    FixState.ADVICE: "Advice",
    FixState.TRIED: "Tried",
    FixState.RETIRED: "Retired",
}
FIX_VERBS = {Verdict.PROMOTED: "promote", Verdict.RETIRED: "retire", None: "reset"}


@dataclass(frozen=True, slots=True)
class ListedFix:
    """A fix for the failures of one signature, with what a person can do about it."""

    fix: LearnedFix

    @property
    def state(self) -> str:
        return FIX_STATES[self.fix.state]

    @property
    def about(self) -> str:
        """Return the names in the errors that it is for."""
        return ", ".join(self.fix.entities) or "errors that name nothing"

    @property
    def verbs(self) -> list[str]:
        return [FIX_VERBS[each] for each in fix_verdicts.list_moves(self.fix)]


def read_detail_key(now: datetime) -> str:
    # the tasks that a pattern's page shows belong to any project
    return read_live_key(now=now, of=FailurePattern)


@live_page(
    "patterns/detail.html", "patterns/_pattern.html", current="patterns", read_key=read_detail_key
)
def detail(visit: Visit, pattern_id: UUID) -> PageContext:
    row = require_row(queries.find_pattern(pattern_id), "pattern", pattern_id)
    stuck = queries.count_stuck_tasks(row)
    outcomes = fixes.fetch_outcomes([row.pk])
    learned = fixes.list_learned_fixes(row.pk, outcomes=outcomes)
    failures = queries.list_failures(row)
    return compose_page(
        title=f"{row.template[:60]} · Pattern",
        heading=row.fingerprint[:8],
        crumbs=(PATTERNS.crumb,),
        list_steps=PATTERNS.find_steps(visit, row.pk, with_shift=True),
        row=row,
        stuck=stuck,
        actions=[*([RETRY] if stuck.total else []), *list_allowed(PAGE, row)],
        days=queries.count_days(row, now=visit.now),
        markers=read_markers(row.project, visit.now - queries.SPAN, visit.now),
        before=queries.find_marker_before(row),
        agents=queries.list_agents(row),
        comments=read_comments(row),
        failures=failures[: queries.FAILURES_SHOWN],
        examples=queries.pick_examples(failures),
        merged=figures.list_merged_templates(row),
        total=queries.count_all_failures(row),
        suggestion=suggestions.suggest(failures[0].failure) if failures else None,
        worked_fixes=suggestions.list_worked_fixes(row.pk, outcomes=outcomes),
        fixes=[ListedFix(each) for each in learned[:FIXES_SHOWN]],
        times=tuple(IGNORE_TIMES.items()),
    )
