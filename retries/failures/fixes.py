"""Count how often fixes worked, by the signature of the failure that they were for.

A fix is for the signature of the task's last failure before a person gave it. The result that
counts is that of the first attempt after it that was not released or aborted: the fix worked if the
task was done, or if the attempt failed with another signature. Attempts that Tenfour told of a fix
count for it too, and so do the results that `past_failures` keeps of deleted tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

from ledger import sql
from ledger.models import Failure
from ledger.redaction import had_secret
from ledger.sql import Row
from ledger.states import Outcome
from ledger.tasks.lineage import lineage_cte
from retries.failures.signatures import VERSION
from retries.models import FixVerdict
from retries.states import TEXT_ANSWERS, Answer, EscalationState, Verdict

RECENT_ANSWERS = 1000  # how many of the newest answers are searched
RECENT_FAILURES = 500  # how many of the newest failures of a signature or a pattern are searched
LEAST_WORKED = 3  # times that a fix must have worked to be advice
MOST_MISSES = 3  # tries in a row without success after which a fix is retired
KEY_LENGTH = 16
CURED = "cured"  # the result of an attempt that failed with another signature
OVER = f"('{Outcome.RELEASED}', '{Outcome.ABORTED}')"


class FixState(StrEnum):
    """How Tenfour uses a fix for failures of its signature."""

    # a person promoted it: it is advice whatever its counts
    PROMOTED = "promoted"
    # it worked often enough, and at least as often as plain retries
    ADVICE = "advice"
    # it is offered to people, with its counts
    TRIED = "tried"
    # a person retired it, or its last tries failed: it is neither offered nor told
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Tries:
    """The number of attempts, and how many of them worked.

    >>> str(Tries(5, 6))
    '5 of 6'
    """

    worked: int = 0
    tried: int = 0

    def __str__(self) -> str:
        return f"{self.worked} of {self.tried}"

    @property
    def share(self) -> float:
        return self.worked / self.tried if self.tried else 0.0


@dataclass(frozen=True, slots=True)
class Try:
    """The result of an attempt that was given a fix."""

    at: datetime
    has_worked: bool
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedFix:
    """A fix for the failures of one signature: its tries, oldest first, and a person's verdict.

    `plain` are the plain retries of the pattern: the attempts that were given no fix.
    """

    pattern_id: UUID
    signature: str
    entities: tuple[str, ...]
    fix: str
    key: str
    tries: tuple[Try, ...]
    last_at: datetime
    last_by: str
    plain: Tries = Tries()
    verdict: FixVerdict | None = None

    def __str__(self) -> str:
        return f"worked {self.counts}"

    @property
    def counts(self) -> Tries:
        return Tries(sum(each.has_worked for each in self.tries), len(self.tries))

    @property
    def done(self) -> Tries:
        """The tries after which the task was done: a cured error may be followed by another."""
        return Tries(sum(each.is_done for each in self.tries), len(self.tries))

    @property
    def evidence(self) -> str:
        """Its counts beside the tasks that were done, where they differ, and plain retries."""
        done = f", task done {self.done}" if self.done != self.counts else ""
        plain = f", plain retries {self.plain}" if self.plain.tried else ""
        return f"{self}{done}{plain}"

    @property
    def is_identified(self) -> bool:
        """Whether its failures name their cause; else other failures' causes may differ."""
        return bool(self.entities) and self.signature.startswith(VERSION)

    @property
    def has_stopped_working(self) -> bool:
        """Whether its last tries failed, of those since a person promoted it."""
        since = self.verdict.at if self.verdict else None
        last = [each for each in self.tries if since is None or each.at > since][-MOST_MISSES:]
        return len(last) == MOST_MISSES and not any(each.has_worked for each in last)

    @property
    def state(self) -> FixState:
        if self.is_retired_by_person or self.has_stopped_working:
            return FixState.RETIRED
        if self.verdict:
            return FixState.PROMOTED
        is_proven = self.counts.worked >= LEAST_WORKED and self.counts.share >= self.plain.share
        return FixState.ADVICE if is_proven and self.is_identified else FixState.TRIED

    @property
    def is_advice(self) -> bool:
        return self.is_identified and self.state in (FixState.PROMOTED, FixState.ADVICE)

    @property
    def is_retired_by_person(self) -> bool:
        return self.verdict is not None and self.verdict.verdict == Verdict.RETIRED


def normalize_fix(fix: str) -> str:
    """Return the text that fixes share if they differ only in case or spacing."""
    return " ".join(fix.split()).casefold()


def key_of(fix: str) -> str:
    """Return the hash that fixes share if they differ only in case or spacing."""
    return sha256(normalize_fix(fix).encode()).hexdigest()[:KEY_LENGTH]


# ---- the statements


def select_result(attempt: str, signature: str) -> str:
    """Return the SQL of a fix's result: null if it does not show whether the error is gone."""
    return f"""(select case
        when {attempt}.outcome = '{Outcome.SUCCESS}' then {attempt}.outcome
        when left(after.signature, 2) is distinct from left({signature}, 2) then null
        when after.signature <> {signature} then '{CURED}'
        else {attempt}.outcome end
    from (select 1) one left join lateral (
        select g.signature from ledger_failure f join retries_grouped g on g.failure_id = f.id
        where f.attempt_id = {attempt}.id limit 1
    ) after on true)"""


def select_outcomes(rows: str, task: str) -> str:
    """Return the SQL that selects the signature of each fix in `rows` and the next outcome."""
    return f"""select last.pattern_id, last.signature, last.entities,
    e.fix, e.closed_at, e.answered_by_name, result.outcome, next.ended_at
from {rows}
cross join lateral (
    select g.pattern_id, g.signature, g.entities
    from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = {task} and f.at <= e.closed_at
    order by f.id desc limit 1
) last
cross join lateral (
    select a.id, a.outcome, a.ended_at from ledger_attempt a
    where a.task_id = {task} and a.started_at >= e.closed_at
        and (a.outcome is null or a.outcome not in {OVER})
    order by a.number limit 1
) next
cross join lateral (select {select_result("next", "last.signature")} as outcome) result
where next.outcome is not null and result.outcome is not null"""


def select_answers(where: str) -> str:
    """Return the SQL that selects the newest answers with a fix."""
    return f"""select id, task_id, fix, closed_at, answered_by_name from retries_escalation
        where {where} and state = '{EscalationState.RESOLVED}' and action = '{Answer.FIX}'
            and task_id is not null
        order by id desc limit {RECENT_ANSWERS}"""


def outcomes_statement(answers: str, condition: str, *, before: str = "", past: str = "") -> str:
    """Return the statement that selects the results of fixes, oldest first.

    If a task continues in the row of another run, the attempts and failures of all its rows count.
    The many other tasks are queried separately, because a search by one task is three times as
    fast. `answers` selects the answers, `condition` the failures, and `before` has CTEs for both.
    `past` limits the results of deleted tasks; without it there are none.
    """
    kept = f"""union all
select pattern_id, signature, entities, fix, closed_at, answered_by_name, outcome, ended_at
from retries_pastfixtry where fix <> '' and {past}"""
    return f"""with recursive {before}answered as materialized (
    select e.*, num_nonnulls(t.carries_id, t.replaced_by_id) = 0 as is_alone
    from ({answers}) e join ledger_task t on t.id = e.task_id
), others as (select * from answered where not is_alone),
{lineage_cte("others")}, lines as (
    select task_id, array_agg(id) as ids from lineage group by task_id
)
{select_outcomes("answered e", "e.task_id")} and e.is_alone and {condition}
union all
{select_outcomes("others e join lines l using (task_id)", "any(l.ids)")} and {condition}
{kept if past else ""}
order by closed_at"""


OF_PATTERNS = outcomes_statement(
    select_answers(
        """project_id in (
                select project_id from retries_failurepattern where id = any(%(patterns)s)
            )"""
    ),
    "last.pattern_id = any(%(patterns)s)",
    past="pattern_id = any(%(patterns)s)",
)
# Each claim of a retry asks for the fixes of some failures' signatures, so only tasks that failed
# in the same way are searched, and the many projects without such fixes cost two index scans.
# A lookup with a limit is made row by row: no plan can read the whole table for it instead.
OF_FAILURES = outcomes_statement(
    f"""select a.* from failed cross join lateral (
        {select_answers("task_id = failed.task_id")}
    ) a order by a.id desc limit {RECENT_ANSWERS}""",
    "(last.pattern_id, last.signature) in (select pattern_id, signature from wanted)",
    before=f"""wanted as materialized (
    select distinct pattern_id, signature from retries_grouped
    where failure_id = any(%(failures)s) and left(signature, {len(VERSION)}) = '{VERSION}'
        and entities <> '[]'
), failed as materialized (
    select distinct f.task_id from wanted w cross join lateral (
        select g.failure_id from retries_grouped g
        where g.signature = w.signature and g.pattern_id = w.pattern_id
        order by g.at desc limit {RECENT_FAILURES}
    ) g cross join lateral (
        select task_id from ledger_failure where id = g.failure_id limit 1
    ) f
), """,
    past="(pattern_id, signature) in (select pattern_id, signature from wanted)",
)
TOLD_TRIES = f"""select last.pattern_id, c.signature, c.fix_key, result.outcome, a.ended_at
from retries_storedcontext c join ledger_attempt a on a.id = c.attempt_id
cross join lateral (select {select_result("a", "c.signature")} as outcome) result
cross join lateral (
    select g.pattern_id from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = a.task_id and g.signature = c.signature limit 1
) last
where c.fix_key <> '' and a.outcome is not null and a.outcome not in {OVER}
    and result.outcome is not null"""
TOLD = f"""{TOLD_TRIES} and c.signature = any(%(signatures)s)
union all
select pattern_id, signature, fix_key, outcome, ended_at from retries_pastfixtry
where fix = '' and signature = any(%(signatures)s)"""

# The end of the retry that followed the failure `f`, if neither a person nor Tenfour gave a fix.
PLAIN_RETRY = f"""select n.outcome from (
        select a.id, a.outcome, a.started_at
        from (select number from ledger_attempt where id = f.attempt_id limit 1) failed
            cross join ledger_attempt a
        where a.task_id = f.task_id and a.number > failed.number
            and (a.outcome is null or a.outcome not in {OVER})
        order by a.number limit 1
    ) n
    where n.outcome is not null
        and not exists (
            select from retries_escalation e
            where e.task_id = f.task_id and e.closed_at between f.at and n.started_at
                and e.action in ({", ".join(f"'{each}'" for each in TEXT_ANSWERS)})
        )
        and not exists (
            select from retries_storedcontext c where c.attempt_id = n.id and c.fix_key <> ''
        )"""
PLAIN = f"""select pattern_id, sum(tried)::int as tried, sum(worked)::int as worked from (
    select p.id as pattern_id, count(*) as tried,
        count(*) filter (where next.outcome = '{Outcome.SUCCESS}') as worked
    from unnest(%(patterns)s::uuid[]) as p(id)
    cross join lateral (
        select failure_id from retries_grouped where pattern_id = p.id
        order by at desc limit {RECENT_FAILURES}
    ) g
    cross join lateral (
        select task_id, attempt_id, at from ledger_failure where id = g.failure_id limit 1
    ) f
    cross join lateral ({PLAIN_RETRY}) next
    group by 1
    union all
    select pattern_id, retried, worked from retries_pastfailures
    where pattern_id = any(%(patterns)s)
) retried group by 1 having sum(tried) > 0"""
# what else is known of the fixes for signatures, in one statement
EVIDENCE = f"""select 'told' as kind, pattern_id, signature, fix_key, outcome, ended_at as at,
    0 as tried, 0 as worked, null::uuid as id, '' as fix, '' as note, '' as by_name
from ({TOLD}) told
union all
select 'plain', pattern_id, '', '', '', null, tried, worked, null, '', '', '' from ({PLAIN}) plain
union all
select 'verdict', pattern_id, signature, fix_key, verdict, at, 0, 0, id, fix, note, by_name
from retries_fixverdict where pattern_id = any(%(patterns)s)"""
SIGNATURES = """select failure_id, pattern_id, signature from retries_grouped
where failure_id = any(%(failures)s)"""


def fetch_outcomes(pattern_ids: Iterable[UUID]) -> list[Row]:
    """Return the fixes of patterns with the outcome of the next attempt, oldest first."""
    ids = list(pattern_ids)
    return list_learnable(sql.run(OF_PATTERNS, patterns=ids)) if ids else []


def list_learnable(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the fixes that other tasks may be told: of those without a secret."""
    return [row for row in rows if not had_secret(row["fix"])]


# ---- learned fixes

Signed = tuple[UUID, str]  # a pattern and a signature
Key = tuple[UUID, str, str]  # with the key of a fix


def list_learned_fixes(
    pattern_id: UUID, *, outcomes: Iterable[Row] | None = None
) -> list[LearnedFix]:
    """Return the fixes that people gave for a pattern, by signature, the most reliable first.

    Pass their `outcomes` if they are read.
    """
    rows = fetch_outcomes([pattern_id]) if outcomes is None else outcomes
    return sorted(learn(rows).values(), key=reliability, reverse=True)


def find_learned_fixes(failure_ids: Iterable[UUID]) -> dict[Signed, list[LearnedFix]]:
    """Return the fixes for the signatures of failures, the most reliable first."""
    ids = list(failure_ids)
    found: dict[Signed, list[LearnedFix]] = {}
    for each in learn(list_learnable(sql.run(OF_FAILURES, failures=ids)) if ids else []).values():
        found.setdefault((each.pattern_id, each.signature), []).append(each)
    return {key: sorted(each, key=reliability, reverse=True) for key, each in found.items()}


def pick_learned(failure: Failure, learned: Mapping[Signed, list[LearnedFix]]) -> list[LearnedFix]:
    """Return the fixes that were learned for a failure, which is read with `grouped`."""
    grouped = getattr(failure, "grouped", None)
    return learned.get((grouped.pattern_id, grouped.signature), []) if grouped else []


def find_advice(failure_ids: Iterable[UUID]) -> dict[UUID, LearnedFix]:
    """Return the fix for the next attempt's context, by the failure that it would follow.

    One query where no fix was given for these failures' signatures.
    """
    ids = list(failure_ids)
    advice = {key: fixes[0] for key, fixes in find_learned_fixes(ids).items() if fixes[0].is_advice}
    if not advice:
        return {}
    rows = sql.run(SIGNATURES, failures=ids)
    keys = {row["failure_id"]: (row["pattern_id"], row["signature"]) for row in rows}
    return {id: advice[key] for id, key in keys.items() if key in advice}


def learn(rows: Iterable[Row]) -> dict[Key, LearnedFix]:
    """Return the fixes of these results, with verdicts and with how retries without a fix went."""
    given: dict[Key, list[Row]] = {}
    for row in rows:
        if row["signature"]:
            key = (row["pattern_id"], row["signature"], key_of(row["fix"]))
            given.setdefault(key, []).append(row)
    if not given:
        return {}
    patterns = list({pattern for pattern, _, _ in given})
    signatures = list({signature for _, signature, _ in given})
    told: dict[Key, list[Row]] = {}
    verdicts: dict[Key, FixVerdict] = {}
    # of the newest retries that got no fix from a person or Tenfour
    plain: dict[UUID, Tries] = {}
    for row in sql.run(EVIDENCE, signatures=signatures, patterns=patterns):
        key = (row["pattern_id"], row["signature"], row["fix_key"])
        if row["kind"] == "told":
            told.setdefault(key, []).append(row)
        elif row["kind"] == "verdict":
            verdicts[key] = build_verdict(row)
        else:
            plain[row["pattern_id"]] = Tries(row["worked"], row["tried"])
    return {
        key: LearnedFix(
            pattern_id=key[0],
            signature=key[1],
            entities=tuple(answers[-1]["entities"]),
            fix=answers[-1]["fix"],
            key=key[2],
            tries=list_tries(answers, told.get(key, ())),
            last_at=answers[-1]["closed_at"],
            last_by=answers[-1]["answered_by_name"],
            plain=plain.get(key[0], Tries()),
            verdict=verdicts.get(key),
        )
        for key, answers in given.items()
    }


def build_verdict(row: Row) -> FixVerdict:
    columns = ("id", "pattern_id", "signature", "fix_key", "fix", "note", "at", "by_name")
    return FixVerdict(verdict=row["outcome"], **{name: row[name] for name in columns})


def list_tries(answers: Iterable[Row], told: Iterable[Row]) -> tuple[Try, ...]:
    ended = [(row["ended_at"], row["outcome"]) for row in answers]
    ended += [(row["at"], row["outcome"]) for row in told]
    tries = (Try(at, has_worked(result), result == Outcome.SUCCESS) for at, result in ended)
    return tuple(sorted(tries, key=lambda each: each.at))


def has_worked(result: str) -> bool:
    """Return whether a fix's result shows that its error is gone."""
    return result in (Outcome.SUCCESS, CURED)


def reliability(fix: LearnedFix) -> tuple[bool, bool, bool, float, datetime]:
    """Return the sort key of a fix: advice first, and 5 of 6 ranks above 1 of 1."""
    return (
        fix.is_advice,
        fix.state == FixState.PROMOTED,
        fix.state != FixState.RETIRED,
        (fix.counts.worked + 1) / (fix.counts.tried + 2),
        fix.last_at,
    )
