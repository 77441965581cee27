"""The wait of an agent whose account is at a limit: it gets no task until the limit resets."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger import sql
from ledger.states import Outcome
from retries.decisions import FIRST_WAIT_S, MOST_STEP_S, Decision

# A limit that comes back before the agent's next success waits at least twice as long as the last
# one did, up to 15 minutes. A report that comes during the wait can only make it longer. The row is
# locked, so that of several attempts that meet the limit at once only the first counts.
STORE = f"""with found as materialized (
    select a.id, coalesce(a.waits_until > %(now)s, false) as waits, a.waits_until, a.wait_step_s
    from ledger_agent a where a.id = %(agent)s for no key update
), step as (
    select f.*, case
        when f.waits then f.wait_step_s
        when f.wait_step_s > 0 and not exists (
            select from ledger_attempt t where t.agent_id = f.id
                and t.outcome = '{Outcome.SUCCESS}' and t.ended_at > f.waits_until
        ) then least(2 * f.wait_step_s, {MOST_STEP_S})
        else {FIRST_WAIT_S} end as next_s
    from found f
)
update ledger_agent a set waits_for = %(line)s, wait_step_s = s.next_s,
    waits_until = greatest(s.waits_until, %(now)s + interval '1 second' * case
        when s.waits or s.next_s = {FIRST_WAIT_S} then %(wait_s)s::float
        else greatest(%(wait_s)s::float, s.next_s) end)
from step s where a.id = s.id returning a.waits_until"""


def store_wait(agent_id: UUID, decision: Decision, *, now: datetime) -> Decision:
    """Let the agent wait as long as the decision says; return the decision with the whole wait."""
    line = decision.evidence.line if decision.evidence else ""
    params: dict[str, Any] = {"agent": agent_id, "line": line, "wait_s": decision.delay_s}
    until: datetime = sql.run(STORE, now=now, **params)[0]["waits_until"]
    return replace(decision, delay_s=max(0.0, (until - now) / timedelta(seconds=1)))
