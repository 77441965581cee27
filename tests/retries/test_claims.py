"""Claims: which task an agent gets, and when it gets none."""

import pytest

from ledger.models import Agent
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, make_task

pytestmark = pytest.mark.django_db


def test_higher_priority_first_then_oldest(agent: Agent) -> None:
    """S3.9"""
    ids = {n: make_task(agent, priority=p) for n, p in enumerate((1, 10, 5, 10))}
    order = [claim(agent).rows[0]["id"] for _ in ids]
    assert order == [ids[1], ids[3], ids[2], ids[0]]
    assert claim(agent).reason == "no_task"


def test_resume_returns_the_live_attempt_of_a_worker(agent: Agent) -> None:
    make_task(agent)
    make_task(agent)
    first = claim(agent, worker_id="w1")
    again = claim(agent, worker_id="w1", now=NOW + MINUTE)
    assert attempt_of(again) == attempt_of(first) and again.rows[0]["resumed"]
    assert attempt_of(claim(agent, worker_id="w2")) != attempt_of(first)


def test_a_paused_agent_gets_nothing(agent: Agent) -> None:
    make_task(agent)
    Agent.objects.update(paused=True)
    assert claim(agent).reason == "agent_paused"
