"""Compute how far each agent meets its target for acknowledgments."""

from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.models import Project
from retries.insight.figures.stored import store
from retries.insight.ranges import RANGES
from retries.insight.times import IS_ACKNOWLEDGED_IN_TIME, IS_SETTLED

PANEL, BURN_DAYS = "targets", 7
LEAST_CASES = 50
MOST_INSTRUCTIONS = 20_000

MET = f"""select a.id::text as id, a.name, g.percent, g.within_s, c.*
from retries_acktarget g join ledger_agent a on a.id = g.agent_id
cross join lateral (
    select count(*) filter (where i.queued_at >= %(since)s) as n,
        count(*) filter (where i.queued_at >= %(since)s and {IS_ACKNOWLEDGED_IN_TIME}) as met,
        count(*) filter (where i.queued_at >= %(week)s) as week_n,
        count(*) filter (where i.queued_at >= %(week)s and {IS_ACKNOWLEDGED_IN_TIME}) as week_met
    from (select i.state, i.acknowledged_at, i.queued_at from ledger_instruction i
        where i.agent_id = a.id and i.tracked and {IS_SETTLED}
            and i.queued_at >= least(%(since)s, %(week)s)
        order by i.id desc limit {MOST_INSTRUCTIONS}) i
) c
where a.project_id = %(project)s order by a.name"""


def compute_targets(project: Project, *, now: datetime) -> None:
    for days in RANGES:
        rows: list[dict[str, Any]] = sql.run(
            MET,
            project=project.pk,
            since=now - timedelta(days=days),
            week=now - timedelta(days=BURN_DAYS),
        )
        store(project, PANEL, days, {"least": LEAST_CASES, "rows": rows}, now=now)
