"""Facts about the windows of accounts."""

from datetime import datetime, timedelta

from ledger.accounts import note_windows
from ledger.models import Agent
from ledger.values.account_windows import LEAST_FACTS, LimitSource, LimitWindow, WindowFact

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def note_share(
    agent: Agent,
    used: float,
    *,
    window: LimitWindow = LimitWindow.FIVE_HOURS,
    resets_in: timedelta = 2 * HOUR,
    facts: int = LEAST_FACTS,
    now: datetime,
) -> datetime:
    """Note so many facts about the agent's account, the last one now; return its reset."""
    reset = now + resets_in
    for left in reversed(range(facts)):
        fact = WindowFact(window, used, reset, now - left * SECOND)
        note_windows(agent.pk, [fact], source=LimitSource.CODEX, now=now)
    return reset
