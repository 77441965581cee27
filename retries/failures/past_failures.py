"""Keep the counts of failures and the results of fixes when their tasks are deleted.

The only writer of `PastFailures` and `PastFixTry`, apart from the merge of patterns.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.states import Outcome
from retries.failures.fixes.reading import key_of, list_learnable
from retries.failures.fixes.statements import (
    PLAIN_RETRY,
    TOLD_TRIES,
    outcomes_statement,
    select_answers,
)
from retries.models import PastFixTry

# A merge of patterns waits for this lock, or has ended before the counts are read.
HOLD_PATTERNS = """select id from retries_failurepattern where id in (
    select g.pattern_id from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = any(%(tasks)s)
) order by id for key share"""
COUNT_FAILURES = f"""insert into retries_pastfailures as c
    (pattern_id, agent_id, failures, last_at, retried, worked)
select g.pattern_id, g.agent_id, count(*), max(g.at), count(next.outcome),
    count(*) filter (where next.outcome = '{Outcome.SUCCESS}')
from ledger_failure f join retries_grouped g on g.failure_id = f.id
    left join lateral ({PLAIN_RETRY}) next on true
where f.task_id = any(%(tasks)s)
group by 1, 2 order by 1, 2
on conflict (pattern_id, agent_id) do update
set failures = c.failures + excluded.failures, retried = c.retried + excluded.retried,
    worked = c.worked + excluded.worked, last_at = greatest(c.last_at, excluded.last_at)"""
GIVEN = outcomes_statement(select_answers("task_id = any(%(tasks)s)"), "true")
TOLD = f"{TOLD_TRIES} and a.task_id = any(%(tasks)s)"


def keep_counts(task_ids: Sequence[UUID]) -> None:
    """Add up these tasks' failures and fixes; delete the tasks in the same transaction."""
    tasks = list(task_ids)
    sql.run(HOLD_PATTERNS, tasks=tasks)
    given = list_learnable(sql.run(GIVEN, tasks=tasks))
    told = sql.run(TOLD, tasks=tasks)
    sql.run(COUNT_FAILURES, tasks=tasks)
    rows = [{**row, "fix_key": key_of(row["fix"])} for row in given] + told
    PastFixTry.objects.bulk_create(build_try(row) for row in rows if row["signature"])


def build_try(row: dict[str, Any]) -> PastFixTry:
    return PastFixTry(
        pattern_id=row["pattern_id"],
        signature=row["signature"],
        fix_key=row["fix_key"],
        entities=row.get("entities", []),
        fix=row.get("fix", ""),
        closed_at=row.get("closed_at"),
        answered_by_name=row.get("answered_by_name", ""),
        outcome=row["outcome"],
        ended_at=row["ended_at"],
    )
