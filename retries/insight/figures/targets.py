"""Compute how far each agent meets its target for acknowledgments."""

from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.instruction_records.stats import ACK_SECONDS
from ledger.models import Project
from ledger.states import InstructionState
from retries.insight.figures.stored import store
from retries.insight.ranges import RANGES

PANEL, BURN_DAYS = "targets", 7
LEAST_INSTRUCTIONS = 50
MOST_INSTRUCTIONS = 20_000

# A cancelled instruction is neither acknowledged nor missed.
SETTLED = f"('{InstructionState.ACKNOWLEDGED}', '{InstructionState.FAILED}')"
IN_TIME = f"i.state = '{InstructionState.ACKNOWLEDGED}' and {ACK_SECONDS} <= t.within_s"
MET = f"""select a.id::text as id, a.name, t.percent, t.within_s, c.*
from retries_acktarget t join ledger_agent a on a.id = t.agent_id
cross join lateral (
    select count(*) filter (where i.queued_at >= %(since)s) as n,
        count(*) filter (where i.queued_at >= %(since)s and {IN_TIME}) as met,
        count(*) filter (where i.queued_at >= %(week)s) as week_n,
        count(*) filter (where i.queued_at >= %(week)s and {IN_TIME}) as week_met
    from (select i.state, i.acknowledged_at, i.queued_at from ledger_instruction i
        where i.agent_id = a.id and i.tracked and i.state in {SETTLED}
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
        store(project, PANEL, days, {"least": LEAST_INSTRUCTIONS, "rows": rows}, now=now)
