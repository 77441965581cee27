"""Compute how long tasks wait and attempts run, and how far agents meet targets for both."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from ledger.database import sql
from ledger.database.sql import Row
from ledger.models import Project
from ledger.values.ids import SLACK, first_id
from retries.insight.figures.stored import fetch_names, store
from retries.insight.figures.targets import BURN_DAYS, LEAST_CASES
from retries.insight.ranges import LONGEST_RANGE, RANGES
from retries.insight.times import OF_ATTEMPT, RUN_SECONDS, WAIT_SECONDS
from retries.models import TaskTarget
from retries.models.figures import Measure

PANEL, TARGETS = "times", "task_targets"
KINDS = ("agent", "type", "plan")
MEASURES = (Measure.WAIT, Measure.RUN)
LEAST_TIMES = 20
MOST_ATTEMPTS = 100_000
# the busiest of each kind; their pages show their own, and Insight lists the first ones
MOST_ROWS = 200

# the target of an attempt's agent, type, or plan, by kind
OWN_TARGET = {
    "agent": "agent_id = k.agent_id",
    "type": "type = k.type and {0}.project_id = %(project)s",
    "plan": "plan_id = k.plan_id",
}
COUNTED = ", ".join(
    f"""count(k.{name})::int as {name}_n, {
        ", ".join(
            f"count(k.{name}) filter (where k.{name} <= {kind}_{name}.within_s)::int"
            f" as {kind}_{name}_met"
            for kind in KINDS
        )
    },
    percentile_cont(array[0.5, 0.95]) within group (order by k.{name}) as {name}"""
    for name in MEASURES
)
# The attempts of the longest range are read once, and counted for each range in which they began.
TIMES = f"""with newest as materialized (
    select a.id, a.task_id, a.agent_id, a.number, a.started_at, a.ended_at
    from ledger_attempt a where a.id >= %(floor)s
        and a.agent_id in (select id from ledger_agent where project_id = %(project)s)
    order by a.id desc limit {MOST_ATTEMPTS}
), k as materialized (
    select a.agent_id, t.type, t.plan_id, a.started_at,
        {WAIT_SECONDS} as wait, {RUN_SECONDS} as run
    from newest a {OF_ATTEMPT}
)
select r.days, case when grouping(k.agent_id) = 0 then 'agent'
        when grouping(k.type) = 0 then 'type' else 'plan' end as kind,
    coalesce(k.agent_id::text, k.type, k.plan_id::text) as key, count(*)::int as n, {COUNTED}
from (values {", ".join(f"({days})" for days in RANGES)}) r(days)
    join k on k.started_at >= %(now)s::timestamptz - make_interval(days => r.days)
    {
    " ".join(
        f"left join retries_tasktarget {alias} on {alias}.{condition.format(alias)}"
        f" and {alias}.measure = '{name}'"
        for name in MEASURES
        for kind, condition in OWN_TARGET.items()
        for alias in [f"{kind}_{name}"]
    )
}
group by grouping sets ((r.days, k.agent_id), (r.days, k.type), (r.days, k.plan_id))
having coalesce(k.agent_id::text, k.type, k.plan_id::text) is not null
order by n desc, key"""


def compute_times(project: Project, *, now: datetime) -> None:
    floor = first_id(now - timedelta(days=LONGEST_RANGE) - SLACK)
    rows = sql.run_custom_plan(TIMES, project=project.pk, now=now, floor=floor)
    # an earlier version stores an agent's target without its project
    own = TaskTarget.objects.filter(Q(project=project) | Q(agent__project=project))
    targets = list(own.select_related("agent", "plan").order_by("agent__name", "id"))
    found_rows = {(row["days"], row["kind"], row["key"]): row for row in rows}
    for days in RANGES:
        found = describe_times([row for row in rows if row["days"] == days])
        store(project, PANEL, days, {"least": LEAST_TIMES, **found}, now=now)
        met = [
            describe_target(
                each,
                project,
                found_rows.get((days, *key), {}),
                found_rows.get((BURN_DAYS, *key), {}),
            )
            for each in targets
            for key in [key_of(each)]
        ]
        store(project, TARGETS, days, {"least": LEAST_CASES, "rows": met}, now=now)


def describe_times(rows: Sequence[Row]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        enough = [row for row in of_kind if max(list_counts(row)) >= LEAST_TIMES]
        found[kind] = {
            "rows": [describe_row(row) for row in enough[:MOST_ROWS]],
            "hidden": len(of_kind) - len(enough),
            "more": max(0, len(enough) - MOST_ROWS),
        }
    ids = {kind: [row["id"] for row in found[kind]["rows"]] for kind in ("agent", "plan")}
    names = fetch_names(**ids)
    for kind in KINDS:
        for row in found[kind]["rows"]:
            row["name"] = names.get((kind, row["id"]), "") if kind in ids else row["id"]
    return found


def list_counts(row: Row) -> Iterable[int]:
    return [row[f"{name}_n"] for name in MEASURES]


def describe_row(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {"id": row["key"], "n": row["n"]}
    for name in MEASURES:
        data[f"{name}_n"] = row[f"{name}_n"]
        for part, seconds in zip(("p50_s", "p95_s"), row[name] or (None, None), strict=True):
            # a percentile of few cases is hidden, as a row of few attempts is
            is_enough = seconds is not None and row[f"{name}_n"] >= LEAST_TIMES
            data[f"{name}_{part}"] = round(seconds, 3) if is_enough else None
    return data


def key_of(target: TaskTarget) -> tuple[str, str]:
    if target.agent_id:
        return "agent", str(target.agent_id)
    return ("plan", str(target.plan_id)) if target.plan_id else ("type", target.type)


def describe_target(
    target: TaskTarget, project: Project, range_row: Row, week_row: Row
) -> dict[str, Any]:
    name, (kind, id) = target.measure, key_of(target)
    owner = target.agent.name if target.agent else target.plan.ref if target.plan else target.type
    return {
        "id": id,
        "kind": kind,
        "project": str(project.pk),
        "name": owner,
        "measure": name,
        "percent": target.percent,
        "within_s": target.within_s,
        "n": range_row.get(f"{name}_n", 0),
        "met": range_row.get(f"{kind}_{name}_met", 0),
        "week_n": week_row.get(f"{name}_n", 0),
        "week_met": week_row.get(f"{kind}_{name}_met", 0),
    }
