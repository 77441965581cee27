"""Compute the rates that predictions rest on, and how good the predictions are."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.db import transaction

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Project
from ledger.moves import CHECKPOINT
from retries.insight.figures.stored import ALONE, ASKED, ENDED, store
from retries.insight.prediction_reads import find_task_predictions
from retries.insight.predictions import (
    LEAST_TASKS,
    Case,
    Features,
    Level,
    Rate,
    count_rates,
    measure_quality,
)
from retries.models import OutcomeRate

PANEL = "predictions"
# the newest tasks of a project that are read
MOST_TASKS = 50_000
# the rows of one level that are stored, the most frequent first
MOST_KEYS = 500
# the tasks under way that are searched for those that will need a person, and how many are listed
MOST_UNDER_WAY, MOST_LISTED = 5_000, 20

CLOSED = f"""with newest as materialized (
    select t.id, t.type, t.agent_id, t.state from ledger_task t
    where t.project_id = %(project)s order by t.id desc limit {MOST_TASKS}
)
select n.id, n.type as kind, n.agent_id, {ALONE} as done, e.asked_at
from newest n left join lateral ({ASKED}) e on true
where {ENDED} and n.type not like '{CHECKPOINT}%%'
order by n.id"""

# the failures after which an attempt was left, in the budget that the task began with
FAILED = """select f.task_id, f.at, g.pattern_id, g.signature
from ledger_failure f join ledger_attempt a on a.id = f.attempt_id
left join retries_grouped g on g.failure_id = f.id
where f.task_id = any(%(ids)s) and a.decision ->> 'decision' in ('wait', 'retry')
order by f.task_id, f.id"""

UNDER_WAY = f"""select t.id from ledger_task t
where t.project_id = %(project)s and t.state in ('queued', 'running', 'retry')
    and t.type not like '{CHECKPOINT}%%'
order by t.id desc limit {MOST_UNDER_WAY}"""


def compute_predictions(project: Project, *, now: datetime) -> int:
    """Store the rates and the quality of predictions; return the number of tasks they rest on."""
    closed = sql.run(CLOSED, project=project.pk)
    cases = build_cases(closed)
    quality = measure_quality(cases)
    with transaction.atomic():
        OutcomeRate.objects.filter(project=project).delete()
        OutcomeRate.objects.bulk_create(
            OutcomeRate(
                project=project,
                failures=failures,
                level=level,
                key=key,
                tasks=rate.tasks,
                done=rate.done,
            )
            for (failures, level, key), rate in choose_rates(cases)
        )
    data = asdict(quality) | {"tasks": len(closed)} | find_likely(project)
    store(project, PANEL, 0, data, now=now)
    return len(closed)


def build_cases(closed: Sequence[Row]) -> list[Case]:
    # Each task gives a case before its first attempt, and one for each failure.
    failures: dict[Any, list[Row]] = {}
    for row in sql.run(FAILED, ids=[each["id"] for each in closed]):
        failures.setdefault(row["task_id"], []).append(row)
    cases = []
    for task in closed:
        kind, agent = task["kind"], str(task["agent_id"])
        cases.append(Case(Features(0, kind, agent), task["done"]))
        for number, row in enumerate(failures.get(task["id"], ()), 1):
            if task["asked_at"] is None or row["at"] < task["asked_at"]:
                features = Features(
                    number, kind, agent, str(row["pattern_id"] or ""), row["signature"] or ""
                )
                cases.append(Case(features, task["done"]))
    return cases


def choose_rates(cases: Sequence[Case]) -> list[tuple[tuple[int, str, str], Rate]]:
    # The rates of patterns and signatures are stored once they are shown.
    by_level: dict[tuple[int, str], list[tuple[tuple[int, str, str], Rate]]] = {}
    for key, rate in count_rates(cases).items():
        if key[1] not in (Level.PATTERN, Level.SIGNATURE) or rate.tasks >= LEAST_TASKS:
            by_level.setdefault(key[:2], []).append((key, rate))
    return [
        each
        for rates in by_level.values()
        for each in sorted(rates, key=lambda pair: -pair[1].tasks)[:MOST_KEYS]
    ]


def find_likely(project: Project) -> dict[str, Any]:
    ids = [row["id"] for row in sql.run(UNDER_WAY, project=project.pk)]
    found = find_task_predictions(ids)
    shown = [(each.chance, id, each) for id, each in found.items() if each.chance is not None]
    shown.sort(key=lambda each: (each[0], each[1]))
    return {
        "likely": [
            {"task": str(id), "chance": 1 - chance, "n": each.tasks, "level": each.level}
            for chance, id, each in shown[:MOST_LISTED]
        ],
        "shown": len(shown),
        "hidden": len(ids) - len(shown),
    }
