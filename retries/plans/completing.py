"""The clock's entry for plans: complete those that are over, reopen those that are not any more."""

from datetime import datetime
from typing import Any

from ledger import journal
from ledger.database import sql
from ledger.journal import Kind, clock
from ledger.models import PlanState, Project
from ledger.moves import FINAL_STATES
from ledger.tokens import TrustedCaller

COMPLETED = f"""with {TrustedCaller.cte}, over as materialized (
    select p.id from ledger_plan p
    where p.completed_at is null and p.aborted_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and not exists (select from ledger_task t
            where t.plan_id = p.id and t.state not in ({FINAL_STATES}))
    order by p.id limit 1000 for update of p skip locked
), noted as (
    update ledger_plan p set completed_at = %(now)s, version = p.version + 1, updated_at = %(now)s
    where p.id = any(array(select id from over))
    returning p.id, p.project_id, p.ref, p.run, old.paused_at
), journaled as ({
    journal.insert(
        "noted",
        kind=f"'{Kind.PLAN_COMPLETED}'",
        subject="plan",
        agent="null",
        from_state=f"case when m.paused_at is null then '{PlanState.ACTIVE}' "
        f"else '{PlanState.PAUSED}' end",
        to_state=f"'{PlanState.COMPLETED}'",
        data="jsonb_build_object('ref', m.ref, 'run', m.run)",
    )
}) select id from noted"""

REOPENED = f"""with {TrustedCaller.cte}, again as materialized (
    select p.id from ledger_plan p
    where p.completed_at is not null and p.aborted_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and p.id = any(array(select distinct t.plan_id from ledger_task t
            where t.plan_id is not null and t.state not in ({FINAL_STATES})))
    order by p.id limit 1000 for update of p skip locked
), noted as (
    update ledger_plan p set completed_at = null, version = p.version + 1, updated_at = %(now)s
    where p.id = any(array(select id from again))
    returning p.id, p.project_id, p.ref, p.run, p.paused_at
), journaled as ({
    journal.insert(
        "noted",
        kind=f"'{Kind.PLAN_UPDATED}'",
        subject="plan",
        agent="null",
        from_state=f"'{PlanState.COMPLETED}'",
        to_state=f"case when m.paused_at is null then '{PlanState.ACTIVE}' "
        f"else '{PlanState.PAUSED}' end",
        data="jsonb_build_object('ref', m.ref, 'run', m.run, 'reason', 'reopened')",
    )
}) select id from noted"""


def complete_plans(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    # A plan is no longer over once one of its tasks is replayed.
    caller = TrustedCaller(clock("plans"))
    of = project.pk if project else None
    return {
        "completed": len(sql.run(COMPLETED, now=now, of=of, **caller.params)),
        "reopened": len(sql.run(REOPENED, now=now, of=of, **caller.params)),
    }
