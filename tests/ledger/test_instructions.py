"""S0.1 to S0.11, S0.25, S0.40: sent, delivered, acknowledged, withdrawn."""

import uuid

import pytest

from ledger import agents, instructions
from ledger.errors import Invalid, InvalidTransition, NotFound
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from tests.factories import MINUTE, NOW, make_agent, make_instruction, pull, send, state_of, tick

pytestmark = pytest.mark.django_db


def kinds(id: object) -> list[str]:
    return list(Event.objects.filter(subject_id=id).order_by("id").values_list("kind", flat=True))


def test_queue_with_ack_returns_a_tracking_id_and_keeps_what_was_asked(agent: Agent) -> None:
    """S0.1, S0.2, S0.3"""
    id = instructions.queue_instruction_with_ack(agent, "Check for OpenSpec CLI", now=NOW)
    assert isinstance(id, str) and str(uuid.UUID(id)) == id and len(id) == 36
    row = Instruction.objects.get(pk=id)
    assert (row.content, row.queued_at, row.retry_count, row.max_retries, row.tracked) == (
        "Check for OpenSpec CLI",
        NOW,
        0,
        3,
        True,
    )
    assert pull(agent) == ["Check for OpenSpec CLI"]


def test_tracked_and_plain_share_one_queue_in_order(agent: Agent) -> None:
    """S0.2, S0.4"""
    send(agent, "one")
    assert instructions.queue_instruction(agent, "two", now=NOW) is None  # type: ignore[func-returns-value]
    send(agent, "three")
    assert pull(agent) == ["one", "two", "three"]


def test_a_plain_instruction_is_delivered_once_and_never_chased(agent: Agent) -> None:
    """S0.4"""
    instructions.queue_instruction(agent, "same", now=NOW)
    instructions.queue_instruction(agent, "same", now=NOW)
    assert pull(agent) == ["same", "same"]
    assert tick(NOW + 60 * MINUTE) == (0, 0)
    assert instructions.failed_instructions() == {}
    plain = Instruction.objects.filter(agent=agent).first()
    assert plain is not None
    instructions.acknowledge_instruction(plain.id, now=NOW)
    assert state_of(plain.id) == InstructionState.DELIVERED


def test_an_acknowledged_instruction_is_never_sent_again(agent: Agent) -> None:
    """S0.5"""
    id = send(agent)
    pull(agent)
    instructions.acknowledge_instruction(id, now=NOW)
    assert tick(NOW + MINUTE) == (0, 0)
    assert pull(agent) == []
    assert kinds(id) == ["instruction.queued", "instruction.delivered", "instruction.acknowledged"]


@pytest.mark.parametrize("state", [InstructionState.ACKNOWLEDGED, InstructionState.FAILED, None])
def test_acknowledging_what_cannot_be_changes_nothing(agent: Agent, state: str | None) -> None:
    """S0.6"""
    other = send(agent, "another")
    id = make_instruction(state, agent=agent).id if state else uuid.uuid4()
    before = (
        Instruction.objects.filter(pk=id).values("state", "acknowledged_at", "updated_at").first()
    )
    instructions.acknowledge_instruction(id, now=NOW + MINUTE)
    after = (
        Instruction.objects.filter(pk=id).values("state", "acknowledged_at", "updated_at").first()
    )
    assert before == after
    assert state_of(other) in (InstructionState.QUEUED, InstructionState.DELIVERED)


def test_the_same_content_while_tracked_is_the_same_instruction(agent: Agent) -> None:
    """S0.7"""
    first = instructions.send(agent, "Check", max_retries=5, stamp=Stamp(SYSTEM, NOW))
    again = instructions.send(agent, "Check", max_retries=1, stamp=Stamp(SYSTEM, NOW + MINUTE))
    assert (again["id"], again["deduplicated"], first["deduplicated"]) == (first["id"], True, False)
    assert again | {"deduplicated": False} == first
    assert pull(agent) == ["Check"]
    assert kinds(first["id"])[0] == "instruction.queued" and len(kinds(first["id"])) == 2


def test_dedup_holds_while_only_a_prefixed_copy_waits(agent: Agent) -> None:
    """S0.8"""
    id = send(agent, "Check")
    for minute in (1, 2):
        pull(agent, now=NOW + (minute - 1) * MINUTE)
        tick(NOW + minute * MINUTE)
    assert send(agent, "Check") == id
    assert pull(agent) == ["**IMPORTANT:** Check"]


@pytest.mark.parametrize(
    "state", [InstructionState.ACKNOWLEDGED, InstructionState.FAILED, InstructionState.CANCELLED]
)
def test_once_settled_the_same_content_is_new_again(agent: Agent, state: str) -> None:
    """S0.9, S0.10"""
    old = make_instruction(state, agent=agent, content="Check")
    new = instructions.send(agent, "Check", stamp=Stamp(SYSTEM, NOW))
    assert (
        new["id"] != old.id and new["retry_count"] == 0 and new["state"] == InstructionState.QUEUED
    )


def test_different_contents_are_different_instructions(agent: Agent) -> None:
    """S0.11"""
    contents = ["Check", "check", "Check ", "Check\n", "Check\tit", "Check it"]
    assert len({send(agent, content) for content in contents}) == len(contents)


def test_another_agent_has_its_own_copy(agent: Agent) -> None:
    assert send(agent, "Check") != send(make_agent("codex"), "Check")


def test_priority_goes_to_the_front_the_newest_first(agent: Agent) -> None:
    send(agent, "later")
    send(agent, "urgent", priority=True)
    send(agent, "most urgent", priority=True)
    assert pull(agent, limit=1) == ["most urgent"]
    assert pull(agent) == ["urgent", "later"]


def test_an_ack_of_a_waiting_reminder_cancels_it(agent: Agent) -> None:
    """S0.40"""
    id = send(agent)
    pull(agent)
    tick(NOW + MINUTE)
    instructions.acknowledge_instruction(id, now=NOW + MINUTE)
    assert pull(agent) == []


def test_a_late_ack_is_told_and_journaled_once(agent: Agent) -> None:
    failed = make_instruction(InstructionState.FAILED, agent=agent)
    caller = TrustedCaller(Actor("token", "t", "coder"), agent=agent)
    for _ in range(2):
        row = instructions.acknowledge([failed.id], caller=caller, now=NOW + MINUTE)[0]
        assert row is not None
        assert (row["state"], row["late"], row["late_ack_at"]) == ("failed", True, NOW + MINUTE)
        assert row["updated_at"] == failed.updated_at
    assert kinds(failed.id).count("instruction.acknowledged_late") == 1


def test_a_list_of_acks_has_a_result_for_each(agent: Agent) -> None:
    mine, foreign, unknown = send(agent), send(make_agent("codex")), uuid.uuid4()
    late = make_instruction(InstructionState.CANCELLED, agent=agent).id
    caller = TrustedCaller(SYSTEM, agent=agent)
    rows = instructions.acknowledge([unknown, mine, late, foreign, mine], caller=caller, now=NOW)
    assert [row and row["state"] for row in rows] == [
        None,
        "acknowledged",
        "cancelled",
        None,
        "acknowledged",
    ]
    assert state_of(foreign) == InstructionState.QUEUED


def test_declining_settles_it_and_says_so(agent: Agent) -> None:
    id = send(agent)
    caller = TrustedCaller(SYSTEM, agent=agent)
    row = instructions.acknowledge([id], caller=caller, outcome="declined", note="no", now=NOW)[0]
    assert row is not None and (row["outcome"], row["note"]) == ("declined", "no")
    assert kinds(id)[-1] == "instruction.declined"


@pytest.mark.parametrize("state", list(InstructionState))
def test_cancel_withdraws_what_is_not_settled_and_refuses_the_rest(
    agent: Agent, state: str
) -> None:
    row = make_instruction(state, agent=agent)
    project_id = agent.project_id
    if state in (InstructionState.QUEUED, InstructionState.DELIVERED):
        moved = instructions.cancel_one(row.id, project_id=project_id, stamp=Stamp(SYSTEM, NOW))
        assert moved["state"] == InstructionState.CANCELLED and pull(agent) == []
        assert kinds(row.id)[-1] == "instruction.cancelled"
    else:
        with pytest.raises(InvalidTransition) as refused:
            instructions.cancel_one(row.id, project_id=project_id, stamp=Stamp(SYSTEM, NOW))
        assert refused.value.more == {"current": state, "allowed": []}
        assert kinds(row.id)[-1] != "instruction.cancelled" or state == InstructionState.CANCELLED


def test_cancel_of_nothing_is_not_found(agent: Agent) -> None:
    with pytest.raises(NotFound):
        instructions.cancel_one(uuid.uuid4(), project_id=agent.project_id, stamp=Stamp(SYSTEM))


def test_resetting_an_agent_cancels_what_is_queued_and_awaiting_and_nothing_else(
    agent: Agent,
) -> None:
    """S0.40"""
    acked = make_instruction(InstructionState.ACKNOWLEDGED, agent=agent).id
    awaiting = make_instruction(InstructionState.DELIVERED, agent=agent).id
    queued, foreign = send(agent), send(make_agent("codex"))
    assert agents.reset(agent, stamp=Stamp(SYSTEM, NOW)) == 2
    assert [state_of(each) for each in (acked, awaiting, queued, foreign)] == [
        InstructionState.ACKNOWLEDGED,
        InstructionState.CANCELLED,
        InstructionState.CANCELLED,
        InstructionState.QUEUED,
    ]


def test_pausing_an_agent_does_not_stop_its_pulls(agent: Agent) -> None:
    send(agent, "still")
    assert agents.pause([agent], stamp=Stamp(SYSTEM, NOW)) == [agent]
    assert agents.pause([agent], stamp=Stamp(SYSTEM, NOW)) == []
    assert pull(agent) == ["still"]


def test_states_can_be_told_apart(agent: Agent) -> None:
    """S0.25, S0.26"""
    for state in InstructionState:
        assert make_instruction(state, agent=agent).state == state


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "blank"),
        (" \n\t ", "blank"),
        ("x" * 8193, "8193 bytes"),
        ("é" * 4097, "8194 bytes"),
        ("a\x00b", "U+0000 at 1"),
        ("a\x1b[31m", "U+001B"),
        ("a\ud800", "U+D800"),
    ],
)
def test_bad_content_is_refused_with_its_reason(agent: Agent, content: str, says: str) -> None:
    with pytest.raises(Invalid, match=says.replace("+", r"\+")):
        instructions.send(agent, content, stamp=Stamp(SYSTEM))
    assert not Instruction.objects.exists()


def test_content_at_the_limit_passes(agent: Agent) -> None:
    assert send(agent, "é" * 4096) and send(agent, "a\tb\nc") and send(agent, "\u202eabc")


@pytest.mark.parametrize("retries", [-1, 21])
def test_max_retries_has_a_range(agent: Agent, retries: int) -> None:
    with pytest.raises(Invalid, match="0 to 20"):
        instructions.send(agent, "x", max_retries=retries, stamp=Stamp(SYSTEM))


@pytest.mark.parametrize("actor", [Actor("user", "1", "mara"), Actor("token", "t", "producer")])
def test_what_a_person_sent_escalates_by_default(agent: Agent, actor: Actor) -> None:
    row = instructions.send(agent, "x", stamp=Stamp(actor))
    assert row["on_failed"] == ("escalate" if actor.type == "user" else "record")
    assert row["sent_by_name"] == actor.name


def test_failed_ones_can_be_asked_for_by_id(agent: Agent) -> None:
    """S0.24"""
    failed = make_instruction(
        InstructionState.FAILED, agent=agent, max_retries=0, content="ignored"
    )
    found = instructions.failed_instructions()
    assert {id: (row.content, row.retry_count) for id, row in found.items()} == {
        str(failed.id): ("ignored", 0)
    }
