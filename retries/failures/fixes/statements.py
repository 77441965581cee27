"""The SQL that reads how often fixes worked, with the results of attempts."""

from ledger.database.sql import quoted
from ledger.states import Outcome
from ledger.tasks.lineage import lineage_cte
from retries.failures.signatures import VERSION
from retries.states import TEXT_ANSWERS, Answer, EscalationState

RECENT_ANSWERS = 1000  # how many of the newest answers are searched
RECENT_FAILURES = 500  # how many of the newest failures of a signature or a pattern are searched
CURED = "cured"  # the result of an attempt that failed with another signature
OVER = f"('{Outcome.RELEASED}', '{Outcome.ABORTED}')"


def select_result(attempt: str, signature: str) -> str:
    """Return the SQL of a fix's result: null if it does not show whether the error is gone."""
    return f"""(select case
        when {attempt}.outcome = '{Outcome.SUCCESS}' then {attempt}.outcome
        when left(after.signature, {len(VERSION)})
            is distinct from left({signature}, {len(VERSION)}) then null
        when after.signature <> {signature} then '{CURED}'
        else {attempt}.outcome end
    from (select 1) one left join lateral (
        select g.signature from ledger_failure f join retries_grouped g on g.failure_id = f.id
        where f.attempt_id = {attempt}.id limit 1
    ) after on true)"""


def select_outcomes(rows: str, task: str) -> str:
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
    return f"""select id, task_id, fix, closed_at, answered_by_name from retries_escalation
        where {where} and state = '{EscalationState.RESOLVED}' and action = '{Answer.FIX}'
            and task_id is not null
        order by id desc limit {RECENT_ANSWERS}"""


def outcomes_statement(answers: str, condition: str, *, before: str = "", past: str = "") -> str:
    """Return the statement that selects the results of fixes, oldest first.

    `answers` selects the answers, `condition` the failures, and `before` has CTEs for both. `past`
    limits the results of deleted tasks; without it there are none.
    """
    # If a task continues in the row of another run, the attempts and failures of all its rows
    # count. The many other tasks are queried separately, because a search by one task is three
    # times as fast.
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
                and e.action in ({quoted(each for each in TEXT_ANSWERS if each != Answer.GRANT)})
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
