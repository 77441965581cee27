"""Compute the tokens and the cost that agents report, per plan, agent, and model."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Project
from ledger.states import Outcome
from ledger.values.ids import SLACK, first_id
from retries.insight.figures.stored import MOST_GROUPS, choose, fetch_names, store
from retries.insight.ranges import LONGEST_ATTEMPT, RANGES, SLOTS

PANEL = "cost"
LEAST_TASKS = 5
MOST_ATTEMPTS = 200_000
MOST_NAMES = 3
COUNTS = ("input_tokens", "output_tokens")

TOKENS = " + ".join(f"coalesce((a.usage ->> '{name}')::int8, 0)" for name in COUNTS)
# The groups are each agent, plan, and model, tasks without a plan, and all: by slot, and whole.
USED = f"""with used as materialized (
    select a.task_id, a.agent_id, t.plan_id, a.usage ->> 'model' as model,
        a.outcome = '{Outcome.SUCCESS}' as ok,
        {TOKENS} as tokens, (a.usage ->> 'cost_usd')::float8 as cost,
        least(%(slots)s - 1, greatest(0, floor(extract(epoch from a.ended_at - %(since)s)
            / %(slot_s)s)))::int as slot
    from ledger_agent g cross join lateral (
        select a.* from ledger_attempt a
        where a.agent_id = g.id and a.usage is not null and a.id >= %(floor)s
        order by a.id desc limit {MOST_ATTEMPTS}
    ) a join ledger_task t on t.id = a.task_id
    where g.project_id = %(project)s and a.ended_at >= %(since)s
)
select case when grouping(u.agent_id) = 0 then 'agent' when grouping(u.plan_id) = 0 then 'plan'
        when grouping(u.model) = 0 then 'model' else 'all' end as kind,
    case when grouping(u.agent_id) = 0 then u.agent_id::text
        when grouping(u.plan_id) = 0 then u.plan_id::text else u.model end as key, u.slot,
    sum(u.tokens)::int8 as tokens, sum(u.cost) as cost,
    coalesce(sum(u.cost) filter (where not u.ok), 0) as cost_failed,
    coalesce(sum(u.tokens) filter (where not u.ok), 0)::int8 as tokens_failed,
    count(distinct u.task_id) as tasks, count(distinct u.task_id) filter (where u.ok) as done
from used u
group by grouping sets ((u.agent_id, u.slot), (u.agent_id), (u.plan_id, u.slot), (u.plan_id),
    (u.model, u.slot), (u.model), ())
order by kind, u.slot nulls first, cost desc nulls last, tokens desc, key"""

# the tasks that each agent has done, and those whose successful attempt reported its usage
REPORTED = f"""select g.name, count(distinct a.task_id) as done,
    count(distinct a.task_id) filter (where a.has_usage) as reported
from (select a.agent_id, a.task_id, a.outcome, a.ended_at, a.usage is not null as has_usage
    from ledger_attempt a where a.id >= %(floor)s
        and a.agent_id in (select id from ledger_agent where project_id = %(project)s)
    order by a.id desc limit {MOST_ATTEMPTS}
) a join ledger_agent g on g.id = a.agent_id
where a.outcome = '{Outcome.SUCCESS}' and a.ended_at >= %(since)s
group by g.id, g.name order by g.name"""


def compute_cost(project: Project, *, now: datetime) -> None:
    # The figures cover only the usage that agents reported.
    for days in RANGES:
        since = now - timedelta(days=days)
        floor = first_id(since - LONGEST_ATTEMPT - SLACK)
        scope = {"project": project.pk, "since": since, "floor": floor}
        slots = SLOTS[days]
        slot_s = timedelta(days=days).total_seconds() / slots
        rows = sql.run_custom_plan(USED, **scope, slots=slots, slot_s=slot_s)
        data = describe_costs(rows, slots=slots)
        data["reports"] = describe_reports(sql.run_custom_plan(REPORTED, **scope))
        store(project, PANEL, days, data, now=now)


def describe_reports(agents: list[Row]) -> dict[str, Any]:
    silent = [row["name"] for row in agents if not row["reported"]]
    return {
        "agents": len(agents),
        "reporting": len(agents) - len(silent),
        "done": sum(row["done"] for row in agents),
        "missing": sum(row["done"] - row["reported"] for row in agents),
        "silent": silent[:MOST_NAMES],
    }


def describe_costs(rows: list[Row], *, slots: int) -> dict[str, Any]:
    # A sum is no estimate, so groups of few tasks are shown too, and the rows add up to the whole.
    wholes = [row for row in rows if row["slot"] is None]
    by_slot: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["slot"] is not None:
            by_slot[row["kind"], str(row["key"])].append(row)
    data: dict[str, Any] = {"least": LEAST_TASKS}
    chosen: dict[str, list[Row]] = {}
    for kind in ("plan", "agent", "model"):
        found = [row for row in wholes if row["kind"] == kind]
        chosen[kind], data[kind] = choose(found, lambda row: True)
        data[kind]["rest"] = add_groups([describe_group(row) for row in found[MOST_GROUPS:]])
    ids = {kind: [row["key"] for row in chosen[kind] if row["key"]] for kind in ("plan", "agent")}
    names = fetch_names(**ids)
    for kind, found in chosen.items():
        data[kind]["rows"] = [
            describe_group(row)
            | {
                "id": str(row["key"] or ""),
                "name": names.get((kind, row["key"]), "") if kind in ids else row["key"] or "",
                "slots": fill_slots(by_slot[kind, str(row["key"])], slots=slots),
            }
            for row in found
        ]
    whole = next((row for row in wholes if row["kind"] == "all" and row["tasks"]), None)
    data["all"] = describe_group(whole) if whole else {}
    return data


def describe_group(row: Row) -> dict[str, Any]:
    return {
        "tokens": row["tokens"],
        "cost": row["cost"],
        "cost_failed": row["cost_failed"],
        "tokens_failed": row["tokens_failed"],
        "n": row["tasks"],
        "done": row["done"],
    }


def add_groups(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # The sum's cost is None if no group's cost is known.
    costs = [each["cost"] for each in groups if each["cost"] is not None]
    sums = ("tokens", "cost_failed", "tokens_failed", "n", "done")
    added = {name: sum(each[name] for each in groups) for name in sums}
    return added | {"cost": sum(costs) if costs else None}


def fill_slots(rows: list[Row], *, slots: int) -> list[float]:
    # Where no cost is known, the tokens stand in for it.
    has_cost = any(row["cost"] for row in rows)
    found = {row["slot"]: (row["cost"] or 0.0) if has_cost else row["tokens"] for row in rows}
    return [found.get(slot, 0) for slot in range(slots)]
