"""Compute how tasks ended by agent, plan and pattern, and how well rules are followed."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Project
from ledger.moves import CHECKPOINT
from retries.insight.figures.stored import ALONE, ASKED, ENDED, choose, fetch_names, store
from retries.insight.outcomes import LEAST_TASKS, Ending, Group, count_endings
from retries.insight.ranges import LONGEST_RANGE, RANGES, SLOTS

OUTCOMES, RULES = "outcomes", "rules"
MOST_TASKS = 50_000
LEAST_INSTRUCTIONS = 50

CLOSED = f"""with newest as materialized (
    select t.id, t.agent_id, t.plan_id, t.state, t.attempts, t.proof, t.created_at
    from ledger_task t
    where t.project_id = %(project)s and t.created_at >= %(since)s
        and t.type not like '{CHECKPOINT}%%'
    order by t.id desc limit {MOST_TASKS}
)
select n.agent_id, n.plan_id, n.attempts, n.created_at, l.pattern_id,
    {ALONE} as done, n.proof is not distinct from 'proven' as proven
from newest n left join lateral ({ASKED}) e on true left join lateral (
    select g.pattern_id from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = n.id order by f.id limit 1
) l on true
where {ENDED}"""

# the newest instructions of each rule, which have been settled
FOLLOWED = """select r.id::text as key, left(r.content, 160) as name, c.*
from ledger_standinginstruction r cross join lateral (
    select count(*) filter (where i.state = 'acknowledged' and i.retry_count = 0) as at_once,
        count(*) filter (where i.state = 'acknowledged') as followed, count(*) as n
    from (select i.state, i.retry_count from ledger_instruction i
        where i.rule_id = r.id and i.queued_at >= %(since)s and i.tracked
            and i.state in ('acknowledged', 'failed')
        order by i.id desc limit 5000) i
) c
where r.project_id = %(project)s and c.n > 0
order by c.n desc, r.id limit 200"""


def compute_outcomes(project: Project, *, now: datetime) -> None:
    rows = sql.run(CLOSED, project=project.pk, since=now - timedelta(days=LONGEST_RANGE))
    endings = [read_ending(row) for row in rows]
    for days in RANGES:
        since = now - timedelta(days=days)
        within = (each for each in endings if each.at >= since)
        groups = count_endings(within, since=since, now=now, slots=SLOTS[days])
        store(project, OUTCOMES, days, choose_groups(groups), now=now)
        rules = sql.run(FOLLOWED, project=project.pk, since=since)
        store(project, RULES, days, choose_rules(rules), now=now)


def read_ending(row: Row) -> Ending:
    found = {"agent": row["agent_id"], "plan": row["plan_id"], "pattern": row["pattern_id"]}
    groups = tuple((kind, str(key)) for kind, key in found.items() if key)
    done_after = row["attempts"] if row["done"] else None
    return Ending(groups, row["created_at"], done_after, row["done"] and row["proven"])


def choose_groups(groups: dict[tuple[str, str], Group]) -> dict[str, Any]:
    data: dict[str, Any] = {"least": LEAST_TASKS}
    chosen: dict[str, list[str]] = {}
    for kind in ("agent", "plan", "pattern"):
        found = [(-each.tasks, key) for (of, key), each in groups.items() if of == kind]
        shown, data[kind] = choose(sorted(found), lambda each: -each[0] >= LEAST_TASKS)
        chosen[kind] = [key for _, key in shown]
    names = fetch_names(**chosen)
    for kind, keys in chosen.items():
        data[kind]["rows"] = [
            {"id": key, "name": names.get((kind, key), "")} | groups[kind, key].to_data()
            for key in keys
        ]
    return data


def choose_rules(rules: Iterable[Row]) -> dict[str, Any]:
    # The rules that are followed least come first.
    rows = [describe_rule(row) for row in rules]
    rows.sort(key=lambda each: (each["followed"], each["at_once"], each["id"]))
    shown, others = choose(rows, lambda each: each["n"] >= LEAST_INSTRUCTIONS)
    return {"least": LEAST_INSTRUCTIONS, "rows": shown} | others


def describe_rule(row: Row) -> dict[str, Any]:
    return {
        "id": row["key"],
        "name": row["name"],
        "n": row["n"],
        "followed": round(100 * row["followed"] / row["n"]),
        "at_once": round(100 * row["at_once"] / row["n"]),
    }
