"""Read the predictions of tasks and attempts, each in one query."""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from retries.insight.predictions import MOST_FAILURES, Features, Prediction, Rate, predict

# A task's failures since a person last granted it attempts count.
OF_TASKS = """select t.id, t.project_id, t.retry_count as failures, t.type as kind, t.agent_id,
        l.pattern_id, l.signature
    from ledger_task t left join lateral (
        select g.pattern_id, g.signature from ledger_failure f
        left join retries_grouped g on g.failure_id = f.id
        where f.task_id = t.id order by f.id desc limit 1
    ) l on t.retry_count > 0
    where t.id = any(%(ids)s)"""
# after an attempt's own failure; before its end, after the one of the attempt before
OF_ATTEMPTS = """select a.id, t.project_id, a.agent_id, t.type as kind, l.pattern_id, l.signature,
        case when l.number = a.number then a.number else a.number - 1 end as failures
    from ledger_attempt a join ledger_task t on t.id = a.task_id left join lateral (
        select b.number, g.pattern_id, g.signature
        from ledger_attempt b join ledger_failure f on f.attempt_id = b.id
        left join retries_grouped g on g.failure_id = f.id
        where b.task_id = a.task_id and b.number <= a.number order by b.number desc limit 1
    ) l on true
    where a.id = any(%(ids)s)"""


# after a first failure with the pattern
OF_PATTERNS = """select p.id, p.project_id, 1 as failures, '' as kind, '' as agent_id,
        p.id as pattern_id, '' as signature
    from retries_failurepattern p where p.id = any(%(ids)s)"""


def read_rates(subjects: str) -> str:
    return f"""with subject as ({subjects})
select s.*, r.failures as of_failures, r.level, r.key, r.tasks, r.done,
    (q.data ->> 'brier')::float as brier
from subject s
left join retries_insightfigure q on q.project_id = s.project_id
    and q.panel = 'predictions' and q.days = 0
left join retries_outcomerate r on r.project_id = s.project_id
    and r.failures = least(s.failures, {MOST_FAILURES}) and (r.level, r.key) in (
        ('all', ''), ('kind', s.kind), ('agent', s.agent_id || ':' || s.kind),
        ('pattern', s.pattern_id::text), ('signature', s.signature))"""


READ_TASKS, READ_ATTEMPTS = read_rates(OF_TASKS), read_rates(OF_ATTEMPTS)
READ_PATTERNS = read_rates(OF_PATTERNS)


def find_task_predictions(ids: Iterable[UUID]) -> dict[UUID, Prediction]:
    # The chance is that of success within the attempts that the task has left.
    return collect(sql.run(READ_TASKS, ids=list(ids)))


def find_attempt_predictions(ids: Iterable[UUID]) -> dict[UUID, Prediction]:
    # A failed attempt has the chance after its failure, and others the one before their end.
    wanted = list(ids)
    return collect(sql.run(READ_ATTEMPTS, ids=wanted)) if wanted else {}


def find_pattern_predictions(ids: Iterable[UUID]) -> dict[UUID, Prediction]:
    # The chance is that of a task whose first attempt failed with the pattern.
    return collect(sql.run(READ_PATTERNS, ids=list(ids)))


def collect(rows: Iterable[Row]) -> dict[UUID, Prediction]:
    rates: dict[UUID, dict[tuple[int, str, str], Rate]] = {}
    features: dict[UUID, Features] = {}
    brier: dict[UUID, float | None] = {}
    for row in rows:
        brier[row["id"]] = row["brier"]
        features[row["id"]] = Features(
            row["failures"],
            row["kind"],
            str(row["agent_id"]),
            str(row["pattern_id"] or ""),
            row["signature"] or "",
        )
        found = rates.setdefault(row["id"], {})
        if row["level"]:
            key = (row["of_failures"], row["level"], row["key"])
            found[key] = Rate(row["tasks"], row["done"])
    return {id: replace(predict(rates[id], each), brier=brier[id]) for id, each in features.items()}
