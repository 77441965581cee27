"""Let a person have a breaker tested before its time."""

from collections.abc import Iterable

from django.db import transaction

from ledger.journal import Stamp
from ledger.models import Agent
from ledger.states import BreakerState
from retries import breaker


@transaction.atomic
def probe(agents: Iterable[Agent], *, stamp: Stamp) -> list[Agent]:
    """Half-open the open breakers of these agents, so that the next task is the probe.

    Return the agents whose breaker was open.
    """
    asked = {agent.pk: agent for agent in agents}
    found = list(breaker.lock_chosen(asked).filter(state=BreakerState.OPEN))
    for each in found:
        breaker.move(each, BreakerState.HALF_OPEN, stamp=stamp)
    return [asked[each.pk] for each in found]
