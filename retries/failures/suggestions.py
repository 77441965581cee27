"""What may have caused a failure, and what may mend it: what worked before, then what is known."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger import sql
from ledger.models import Failure
from ledger.states import Outcome
from ledger.tasks import lineages, whole_line
from retries.failures import grouping, known_errors
from retries.states import Answer, EscalationState

MOST_WORKED = 3
BY_AGENT = "suggested by the agent"
LOOKED_AT = 1000  # of a project's answers, the newest


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A guess at the cause and at a fix, each by the agent where it gave one, else by Tenfour.

    `cause_by` and `fix_by` are `agent`, `tenfour` or empty, and empty is what they go with.
    """

    title: str = ""
    cause: str = ""
    cause_by: str = ""
    fix: str = ""
    fix_by: str = ""

    def __bool__(self) -> bool:
        return bool(self.cause or self.fix)


@dataclass(frozen=True, slots=True)
class Worked:
    """A person's fix for failures of one pattern: how often the next attempt was done with it."""

    fix: str
    worked: int
    tried: int
    last_at: datetime
    last_by: str

    def __str__(self) -> str:
        return f"worked {self.worked} of {self.tried}"


@dataclass(frozen=True, slots=True)
class Offer:
    """A fix as it is offered to a person, and why: `worked 5 of 6`, or who suggests it."""

    fix: str
    why: str


def of(failure: Failure) -> Suggestion:
    """Cause and fix: the agent's own words come first, what is known fills what it left out."""
    verification = failure.verification or {}
    output, code = str(verification.get("output") or ""), verification.get("exit_code")
    found = known_errors.find(
        (grouping.headline_of(failure), failure.message, failure.details, output),
        exit_code=code if isinstance(code, int) else None,
    )
    cause, fix = (found.cause, found.fix) if found else ("", "")
    return Suggestion(
        title=found.error.title if found else "",
        cause=failure.root_cause_guess or cause,
        cause_by=by(failure.root_cause_guess, cause),
        fix=failure.suggested_fix or fix,
        fix_by=by(failure.suggested_fix, fix),
    )


def by(agents: str, ours: str) -> str:
    return "agent" if agents else "tenfour" if ours else ""


# A fix is one for the pattern that the task had failed with last when it was answered. What counts
# is the first attempt after it that was not given back or stopped from outside.
def tried(rows: str) -> str:
    """The SQL of what each fix of `rows` was for, and what the attempt with it came to."""
    return f"""select last.pattern_id, e.fix, e.closed_at, e.answered_by_name, next.outcome
from {rows}
cross join lateral (
    select g.pattern_id from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = {{task}} and f.at <= e.closed_at
    order by f.id desc limit 1
) last
cross join lateral (
    select a.outcome from ledger_attempt a
    where a.task_id = {{task}} and a.started_at >= e.closed_at
        and (a.outcome is null or a.outcome not in ('{Outcome.RELEASED}', '{Outcome.ABORTED}'))
    order by a.number limit 1
) next
where last.pattern_id = any(%(patterns)s) and next.outcome is not null"""


# Where the task went on in the row of another run, attempts and failures of all of them are looked
# at; the many others are told apart, because to look for one task is three times as fast.
ANSWERED = f"""with recursive answered as materialized (
    select e.*, num_nonnulls(t.carries_id, t.replaced_by_id) = 0 as is_alone
    from (
        select id, task_id, fix, closed_at, answered_by_name from retries_escalation
        where project_id in (
                select project_id from retries_failurepattern where id = any(%(patterns)s)
            )
            and state = '{EscalationState.RESOLVED}' and action = '{Answer.FIX}'
            and task_id is not null
        order by id desc limit {LOOKED_AT}
    ) e join ledger_task t on t.id = e.task_id
), others as (select * from answered where not is_alone),
{whole_line("others")}, lines as (
    select task_id, array_agg(id) as ids from line group by task_id
)
{tried("answered e").format(task="e.task_id")} and e.is_alone
union all
{tried("others e join lines l using (task_id)").format(task="any(l.ids)")}
order by closed_at"""


def worked_before(pattern_id: UUID, *, most: int = MOST_WORKED) -> list[Worked]:
    """The fixes after which a task that had failed with this pattern was done, the surest first.

    The same words in other case or spacing are the same fix.
    """
    return worked_for([pattern_id])[pattern_id][:most]


def worked_for(pattern_ids: Iterable[UUID]) -> dict[UUID, list[Worked]]:
    """The same for many patterns of a project, in one query."""
    found: dict[UUID, dict[str, Worked]] = {id: {} for id in pattern_ids}
    for row in sql.run(ANSWERED, patterns=list(found)) if found else ():
        fixes, words = found[row["pattern_id"]], same(row["fix"])
        before = fixes.get(words)
        fixes[words] = Worked(
            fix=row["fix"],
            worked=(before.worked if before else 0) + (row["outcome"] == Outcome.SUCCESS),
            tried=(before.tried if before else 0) + 1,
            last_at=row["closed_at"],
            last_by=row["answered_by_name"],
        )
    return {
        id: sorted((each for each in fixes.values() if each.worked), key=sureness, reverse=True)
        for id, fixes in found.items()
    }


def same(fix: str) -> str:
    """What two fixes have in common that differ in case or spacing alone."""
    return " ".join(fix.split()).casefold()


def sureness(fix: Worked) -> tuple[float, datetime]:
    """5 of 6 is surer than 1 of 1."""
    return (fix.worked + 1) / (fix.tried + 2), fix.last_at


def offers(failure: Failure, *, most: int = MOST_WORKED) -> list[Offer]:
    """What to offer a person who answers for this failure: fixes that worked before come first."""
    return offers_for([failure], most=most)[failure.pk]


def offers_for(failures: Iterable[Failure], *, most: int = MOST_WORKED) -> dict[UUID, list[Offer]]:
    """The same for many failures of a project, by their ids: one query, however many, where they
    were read with what they are `grouped` in."""
    rows = {failure.pk: failure for failure in failures}
    grouped = {id: getattr(failure, "grouped", None) for id, failure in rows.items()}
    patterns = {id: each.pattern_id for id, each in grouped.items() if each}
    worked = worked_for(set(patterns.values()))
    found = {}
    for id, failure in rows.items():
        before = worked[patterns[id]][:most] if id in patterns else []
        offered = [Offer(each.fix, str(each)) for each in before]
        suggestion = of(failure)
        if suggestion.fix and same(suggestion.fix) not in {same(each.fix) for each in offered}:
            who = BY_AGENT if suggestion.fix_by == "agent" else suggestion.title
            offered.append(Offer(suggestion.fix, who))
        found[id] = offered
    return found


def last_failure(task_ids: Iterable[UUID]) -> dict[UUID, Failure]:
    """The last failure of each task, also where it was in a row that the task carries on."""
    belongs = lineages(task_ids)
    rows = Failure.objects.filter(task__in=belongs).select_related("grouped")
    rows = rows.order_by("task", "-id").distinct("task")
    return {belongs[row.task_id]: row for row in sorted(rows, key=lambda row: row.pk)}


def first_fixes(task_ids: Iterable[UUID]) -> dict[UUID, str]:
    """What is offered first as a fix of each task, where anything is."""
    last = last_failure(task_ids)
    offered = offers_for(last.values(), most=1)
    return {id: offered[row.pk][0].fix for id, row in last.items() if offered[row.pk]}
