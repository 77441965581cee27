"""Standing instructions of the clock: one per agent that is alive and per interval."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.instructions import acknowledge_instruction
from ledger.models import Agent, Instruction
from ledger.standing_instructions.clock import send_due
from ledger.standing_instructions.editing import On
from retries import sweeps
from tests.elsewhere import at_once
from tests.factories import NOW, make_agent
from tests.ledger.standing_instructions.rules import make_rule

QUARTER = timedelta(minutes=15)
NEXT = datetime(2026, 11, 21, 12, 15, tzinfo=UTC)


def make_alive(agent: Agent, now: datetime) -> None:
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=now)


def send(now: datetime) -> int:
    count: int = send_due(now=now)["sent"]
    return count


def make_clock_rule() -> None:
    make_rule("Say where you are.", on=On(event="every", interval_s=900), expect=None)


@pytest.mark.django_db
def test_it_is_sent_once_per_interval_to_agents_that_are_alive(agent: Agent) -> None:
    make_clock_rule()
    make_agent("silent")
    make_alive(agent, NEXT)
    assert send(NOW + timedelta(minutes=1)) == 0  # its first interval has not ended
    assert (send(NEXT), send(NEXT + timedelta(seconds=15))) == (1, 0)
    make_alive(agent, NEXT + QUARTER)
    assert send(NEXT + QUARTER) == 0  # the last one is still open
    acknowledge_instruction(Instruction.objects.get().id, now=NEXT + QUARTER + timedelta(minutes=2))
    assert send(NEXT + QUARTER + timedelta(minutes=3)) == 0  # and was followed in this interval
    make_alive(agent, NEXT + 2 * QUARTER)
    assert send(NEXT + 2 * QUARTER) == 1
    assert sweeps.run("standing_instructions", now=NEXT + 2 * QUARTER) == {"sent": 0}


@pytest.mark.django_db(transaction=True)
def test_two_beats_send_it_once(agent: Agent) -> None:
    make_clock_rule()
    make_alive(agent, NEXT)
    assert NOW < NEXT
    assert sum(at_once(4, lambda _: send(NEXT))) == 1
    assert Instruction.objects.count() == 1
