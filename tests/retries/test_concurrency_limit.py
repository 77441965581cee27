"""An agent with a limit of attempts at once: exact, no matter how many ask at the same moment."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Breaker
from ledger.tokens import TrustedCaller
from retries import claims
from retries.attempts import releases
from retries.claims import ConcurrencyLimit
from tests.elsewhere import at_once, blocked
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def limited(agent: Agent) -> Agent:
    """One that may run two attempts, with more than enough to do."""
    Agent.objects.update(concurrency=2)
    for _ in range(6):
        make_task(agent)
    return agent


def live() -> int:
    return Attempt.objects.filter(outcome=None).count()


def test_no_more_than_the_limit_runs_at_once(limited: Agent) -> None:
    assert len(claim(limited, limit=5).rows) == 2
    full = claim(limited)
    assert (full.rows, full.reason, live()) == ([], "concurrency_limit", 2)
    assert full.retry_after_s > 0
    ends = Attempt.objects.filter(outcome=None).first()
    assert ends
    releases.release(ends.pk, caller=TrustedCaller(SYSTEM, agent=limited), now=NOW)
    assert (len(claim(limited, limit=5).rows), live()) == (1, 2)


def test_many_who_ask_at_once_share_the_limit(limited: Agent) -> None:
    found = at_once(6, lambda _: claim(limited))
    assert [each for each in found if isinstance(each, Exception)] == []
    assert sorted(len(each.rows) for each in found) == [0, 0, 0, 0, 1, 1]
    assert live() == 2


def test_a_claim_waits_for_one_that_takes_the_last_place(limited: Agent, elsewhere: Any) -> None:
    claim(limited)
    with transaction.atomic():
        assert len(claim(limited).rows) == 1
        second = elsewhere(lambda: claim(limited))
        with blocked(second):
            pass
    assert (second.result(PATIENCE_S).reason, live()) == ("concurrency_limit", 2)


def test_what_a_worker_holds_it_gets_back_at_the_limit(limited: Agent) -> None:
    held = claim(limited, worker_id="w1")
    claim(limited, worker_id="w2")
    again = claim(limited, worker_id="w1")
    assert attempt_of(again) == attempt_of(held) and again.rows[0]["resumed"]


def test_a_task_by_name_is_refused_at_the_limit(limited: Agent) -> None:
    claim(limited, limit=2)
    id = make_task(limited)
    with pytest.raises(ConcurrencyLimit, match="as many attempts at once as it may"):
        claims.start(id, stamp=Stamp(SYSTEM, NOW))
    assert claim(limited, task=id).reason == "concurrency_limit"


def test_an_open_breaker_and_a_pause_speak_first(limited: Agent) -> None:
    Breaker.objects.create(agent=limited, state="open", failures=5, opened_at=NOW, updated_at=NOW)
    assert claim(limited).reason == "breaker_open"
    probe = claim(limited, limit=5, now=NOW + MINUTE * 2)
    assert (len(probe.rows), live()) == (1, 1)
    Agent.objects.update(paused=True)
    assert claim(limited).reason == "agent_paused"


def test_without_a_limit_a_claim_is_one_statement(agent: Agent) -> None:
    make_task(agent)
    with CaptureQueriesContext(connection) as asked:
        assert claim(agent).rows
    assert len(asked) == 0  # beside the statement itself, which passes no cursor of Django's
