"""Change agents' breakers by hand: trip, keep open, probe, reset."""

from collections.abc import Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from ledger.journal import Stamp
from ledger.models import Agent, Breaker
from ledger.secrets.notes import clean_note
from ledger.states import BreakerState
from retries import breaker

REASON_LENGTH = 500


@transaction.atomic
def trip(agents: Iterable[Agent], *, reason: str = "", stamp: Stamp) -> list[Agent]:
    """Open the breakers of these agents; return the agents whose breaker was not open yet."""
    asked = {agent.pk: agent for agent in agents}
    breaker.insert_missing(asked, now=stamp.at)
    found = lock_chosen(asked).exclude(state=BreakerState.OPEN)
    reason = clean_note(reason, limit=REASON_LENGTH)
    for each in found:
        columns = {"reason": reason, "failures": each.failures}
        breaker.move(each, BreakerState.OPEN, columns, stamp=stamp)
    return [asked[each.pk] for each in found]


@transaction.atomic
def keep_open(agents: Iterable[Agent], *, reason: str = "", stamp: Stamp) -> list[Agent]:
    """Keep the agents' breakers open until a person moves them; return the agents that changed."""
    # A half-open breaker opens again, because the person saw it open. A closed one stays closed.
    asked = {agent.pk: agent for agent in agents}
    found = list(lock_chosen(asked).exclude(state=BreakerState.CLOSED).filter(kept_open_at=None))
    for each in found:
        if each.state == BreakerState.HALF_OPEN:
            columns = {"reason": each.reason, "failures": each.failures}
            breaker.move(each, BreakerState.OPEN, columns, stamp=stamp)
            each.refresh_from_db(fields=["state"])
        breaker.keep(each, reason=clean_note(reason, limit=REASON_LENGTH), stamp=stamp)
    return [asked[each.pk] for each in found]


@transaction.atomic
def reset(agents: Iterable[Agent], *, stamp: Stamp) -> list[Agent]:
    """Close the breakers of these agents, clear their failures, and return those that changed."""
    asked = {agent.pk: agent for agent in agents}
    found = lock_chosen(asked).exclude(state=BreakerState.CLOSED, failures=0)
    for each in found:
        breaker.move(each, BreakerState.CLOSED, stamp=stamp)
    return [asked[each.pk] for each in found]


@transaction.atomic
def probe(agents: Iterable[Agent], *, stamp: Stamp) -> list[Agent]:
    """Half-open the agents' open breakers for a probe; return the agents that changed."""
    asked = {agent.pk: agent for agent in agents}
    found = list(lock_chosen(asked).filter(state=BreakerState.OPEN))
    for each in found:
        breaker.move(each, BreakerState.HALF_OPEN, stamp=stamp)
    return [asked[each.pk] for each in found]


def lock_chosen(asked: dict[UUID, Agent]) -> QuerySet[Breaker]:
    breakers = Breaker.objects.select_related("agent").select_for_update(of=("self",))
    return breakers.filter(pk__in=asked).order_by("pk")
