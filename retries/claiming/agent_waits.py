"""The wait of an agent whose account is at a limit: it gets no task until the limit resets."""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.accounts import follows_wait, note_windows
from ledger.database import sql
from ledger.states import FailureType, TaskState
from ledger.tokens import Caller
from ledger.values.account_windows import LimitSource, LimitWindow, WindowFact
from retries.decisions import FIRST_WAIT_S, MOST_LIMIT_S, MOST_STEP_S, Decision, Evidence

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
    select f.*, {follows_wait("f")} as follows from found f
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


# these read one line
FIVE_HOURS_S = 5 * 3600
USAGE = re.compile(r"\busage[ _]limit", re.I)
OF_MODEL = re.compile(r"\b(?:opus|sonnet|haiku)\b", re.I)
# "5-hour limit reached", "You've hit your session limit", "weekly usage limit"
NAMED_WINDOWS = {
    LimitWindow.FIVE_HOURS: re.compile(r"\b(?:5[- ]?h(?:ou)?r|session)\b", re.I),
    LimitWindow.WEEK: re.compile(r"\bweek(?:ly)?\b", re.I),
    LimitWindow.CREDIT: re.compile(r"\bcredits? (?:limit|balance)\b", re.I),
}


def find_window(evidence: Evidence) -> LimitWindow | None:
    """Return the account's window that an error names together with its reset; else None.

    >>> line = "You've hit your session limit · resets 3:45pm"
    >>> str(find_window(Evidence(line=line, known_error="usage_limit", wait_s=60.0)))
    'five_hours'
    """
    # The limit of one model says nothing about the account's other calls.
    if evidence.known_error != "usage_limit" or evidence.wait_s is None:
        return None
    if OF_MODEL.search(evidence.line):
        return None
    for window, form in NAMED_WINDOWS.items():
        if form.search(evidence.line):
            return window
    if not USAGE.search(evidence.line):
        return None
    # "You've hit your usage limit" is of either window; one of 5 hours resets within them.
    return LimitWindow.WEEK if evidence.wait_s > FIVE_HOURS_S else LimitWindow.FIVE_HOURS


def store_wait(agent_id: UUID, decision: Decision, *, caller: Caller, now: datetime) -> Decision:
    """Let the agent wait as long as the decision says; return the decision with the whole wait."""
    # If the waits in a row seem to have no end, the decision is to ask a person, once.
    evidence = decision.evidence or Evidence()
    line = evidence.line
    if (window := find_window(evidence)) and evidence.wait_s is not None:
        # A report may ask for a shorter wait of its task, which is not the account's.
        reset = now + timedelta(seconds=min(evidence.wait_s, MOST_LIMIT_S))
        note_windows(
            agent_id,
            [WindowFact(window, 1.0, reset, now)],
            source=LimitSource.MESSAGE,
            caller=caller,
            now=now,
            but_for=agent_id,
        )
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
