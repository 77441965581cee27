"""The wait of an agent whose account is at a limit: it gets no task until the limit resets."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.database import sql
from ledger.states import FailureType, Outcome, TaskState
from retries.decisions import FIRST_WAIT_S, MOST_LIMIT_S, MOST_STEP_S, Decision

# the waits that may follow each other without a success before a person is asked
MOST_IN_ROW = 24
ENDLESS = "needs_quota"

# A limit that comes back before the agent's next success waits at least twice as long as the last
# one did, up to 15 minutes. A report that comes during the wait can only make it longer. The row is
# locked, so that of several attempts that meet the limit at once only the first counts.
# `was_endless` and `is_endless` say whether a person should know of the waits in a row, before this
# one and after it.
STORE = f"""with found as materialized (
    select a.id, coalesce(a.waits_until > %(now)s, false) as waits, a.waits_until, a.wait_step_s,
        a.waits_in_row, a.waits_since
    from ledger_agent a where a.id = %(agent)s for no key update
), known as (
    select f.*, f.wait_step_s > 0 and not exists (
            select from ledger_attempt t where t.agent_id = f.id
                and t.outcome = '{Outcome.SUCCESS}' and t.ended_at > f.waits_until
        ) as follows
    from found f
), step as (
    select k.*, case
            when k.waits then k.wait_step_s
            when k.follows then least(2 * k.wait_step_s, {MOST_STEP_S})
            else {FIRST_WAIT_S} end as next_s,
        case when k.waits then k.waits_in_row when k.follows then k.waits_in_row + 1 else 1 end
            as in_row,
        case when k.waits or k.follows then coalesce(k.waits_since, %(now)s) else %(now)s end
            as since
    from known k
), next as (
    select s.*, greatest(s.waits_until, %(now)s + interval '1 second' * case
        when s.waits or s.next_s = {FIRST_WAIT_S} then %(wait_s)s::float
        else greatest(%(wait_s)s::float, s.next_s) end) as until
    from step s
)
update ledger_agent a set waits_for = %(line)s, wait_step_s = n.next_s, waits_until = n.until,
    waits_in_row = n.in_row, waits_since = n.since
from next n where a.id = n.id
returning a.waits_until,
    n.in_row >= {MOST_IN_ROW} or n.until - n.since > %(most)s as is_endless,
    (n.waits or n.follows) and coalesce(n.waits_in_row >= {MOST_IN_ROW}
        or n.waits_until - n.waits_since > %(most)s, false) as was_endless"""


def store_wait(agent_id: UUID, decision: Decision, *, now: datetime) -> Decision:
    """Let the agent wait as long as the decision says; return the decision with the whole wait."""
    # If the waits in a row seem to have no end, the decision is to ask a person, once.
    line = decision.evidence.line if decision.evidence else ""
    params: dict[str, Any] = {"agent": agent_id, "line": line, "wait_s": decision.delay_s}
    most = timedelta(seconds=MOST_LIMIT_S)
    [row] = sql.run(STORE, now=now, most=most, **params)
    if row["is_endless"] and not row["was_endless"]:
        return replace(
            decision,
            to=TaskState.ESCALATED,
            reason=ENDLESS,
            failure_type=FailureType.EXECUTION_ERROR,
            delay_s=0.0,
            agent_waits=False,
        )
    until: datetime = row["waits_until"]
    return replace(decision, delay_s=max(0.0, (until - now) / timedelta(seconds=1)))
