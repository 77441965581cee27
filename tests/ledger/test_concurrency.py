"""Two at once: a lock is held here, and a second connection acts."""

from typing import Any

import pytest
from django.db import transaction

from ledger import instructions, signal_matching
from ledger.instructions import Expect
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from tests.conftest import Api
from tests.elsewhere import blocked
from tests.factories import MINUTE, NOW, make_agent, make_token, pull, send, state_of, tick
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_send_that_meets_an_uncommitted_twin_waits_and_is_deduplicated(elsewhere: Any) -> None:
    """S0.7: dedup under concurrency."""
    agent = make_agent()
    with transaction.atomic():
        first = send(agent, "Check")
        second = elsewhere(lambda: instructions.send(agent, "Check", stamp=Stamp(SYSTEM)))
        with blocked(second):
            pass
    row = second.result(PATIENCE_S)
    assert (row["id"], row["deduplicated"]) == (first, True)
    assert Instruction.objects.count() == 1


def test_a_send_that_races_an_ack_is_not_lost(elsewhere: Any) -> None:
    agent = make_agent()
    first = send(agent, "Check")
    with transaction.atomic():
        instructions.acknowledge_instruction(first, now=NOW)
        second = elsewhere(lambda: instructions.send(agent, "Check", stamp=Stamp(SYSTEM)))
        with blocked(second):
            pass
    row = second.result(PATIENCE_S)
    assert (
        row["id"] != first and not row["deduplicated"] and row["state"] == InstructionState.QUEUED
    )


def test_many_sends_at_once_are_one_instruction(elsewhere: Any) -> None:
    agent = make_agent()
    futures = [
        elsewhere(lambda: instructions.send(agent, "Check", stamp=Stamp(SYSTEM))) for _ in range(24)
    ]
    rows = [future.result(PATIENCE_S) for future in futures]
    assert len({row["id"] for row in rows}) == 1
    assert sum(not row["deduplicated"] for row in rows) == 1
    assert Event.objects.filter(kind="instruction.queued").count() == 1


def test_two_pulls_at_once_share_the_queue(elsewhere: Any) -> None:
    agent = make_agent()
    sent = [f"thing {number}" for number in range(4)]
    for content in sent:
        send(agent, content)
    with transaction.atomic():
        mine = pull(agent, limit=2)
        theirs = elsewhere(lambda: pull(agent)).result(PATIENCE_S)
    assert (mine, theirs) == (sent[:2], sent[2:])


def test_the_idle_check_passes_over_what_is_being_acknowledged(elsewhere: Any) -> None:
    agent = make_agent()
    acked, ignored = send(agent), send(agent)
    pull(agent)
    with transaction.atomic():
        instructions.acknowledge_instruction(acked, now=NOW)
        assert elsewhere(lambda: tick(NOW + MINUTE)).result(PATIENCE_S) == (1, 0)
    assert (state_of(acked), state_of(ignored)) == (
        InstructionState.ACKNOWLEDGED,
        InstructionState.QUEUED,
    )


def test_two_idle_checks_at_once_requeue_once(elsewhere: Any) -> None:
    agent = make_agent()
    id = send(agent)
    pull(agent)
    with transaction.atomic():
        assert tick(NOW + MINUTE) == (1, 0)
        assert elsewhere(lambda: tick(NOW + MINUTE)).result(PATIENCE_S) == (0, 0)
    assert Instruction.objects.get(pk=id).retry_count == 1
    assert tick(NOW + MINUTE) == (0, 0)


def test_two_acks_at_once_have_one_winner_and_both_succeed(elsewhere: Any) -> None:
    agent = make_agent()
    id = send(agent)
    pull(agent)

    def ack() -> Any:
        return instructions.acknowledge([id], caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)[0]

    with transaction.atomic():
        ack()
        second = elsewhere(ack)
        with blocked(second):
            pass
    assert second.result(PATIENCE_S)["state"] == InstructionState.ACKNOWLEDGED
    assert Event.objects.filter(kind="instruction.acknowledged").count() == 1


def test_a_signal_waits_for_a_pull_that_is_under_way(elsewhere: Any) -> None:
    agent = make_agent()
    id = instructions.send(agent, "Check", expect=Expect("done"), stamp=Stamp(SYSTEM, NOW))["id"]
    with transaction.atomic():
        pull(agent)
        told = elsewhere(
            lambda: signal_matching.signal(
                "done", {}, caller=TrustedCaller(SYSTEM, agent=agent), now=NOW
            )
        )
        with blocked(told):
            pass
    assert told.result(PATIENCE_S) == [id] and state_of(id) == InstructionState.ACKNOWLEDGED


def test_the_same_key_at_once_waits_and_replays(elsewhere: Any) -> None:
    agent: Agent = make_agent()
    api = Api(make_token("operator"))
    body = {"agent": agent.name, "content": "plain", "tracked": False}
    with transaction.atomic():
        first = api("POST", "/instructions", body, Idempotency_Key="k")
        again = elsewhere(
            lambda: Api(api_secret(api))("POST", "/instructions", body, Idempotency_Key="k")
        )
        with blocked(again):
            pass
    second = again.result(PATIENCE_S)
    assert second["Idempotency-Replayed"] == "true" and second.body == first.body
    assert Instruction.objects.count() == 1


def api_secret(api: Api) -> str:
    return api.headers["Authorization"].removeprefix("Bearer ")


def test_an_agent_that_another_call_has_just_created_is_found_not_created(elsewhere: Any) -> None:
    secret = make_token("operator")
    with transaction.atomic():
        first = make_agent("coder")
        second = elsewhere(lambda: Api(secret)("POST", "/agents", {"name": "coder"}))
        with blocked(second):
            pass
    response = second.result(PATIENCE_S)
    assert (response.status_code, response.body["id"]) == (200, str(first.pk))
    assert Event.objects.filter(kind="agent.registered").count() == 1
