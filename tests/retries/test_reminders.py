"""S0.12 to S0.24, S0.30, S0.31, S0.40: the idle check."""

import logging
from datetime import timedelta

import pytest

from config.celery import app
from ledger import instructions
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.states import InstructionState
from retries import reminders
from tests.factories import MINUTE, NOW, make_agent, make_project, pull, send, state_of, tick

pytestmark = pytest.mark.django_db


def deliveries(agent: Agent, ticks: int) -> list[str]:
    """What an agent that never acknowledges gets, pulling before every tick."""
    texts = []
    for minute in range(ticks):
        texts += pull(agent, now=NOW + minute * MINUTE)
        tick(NOW + (minute + 1) * MINUTE)
    return texts


def test_the_clock_has_the_idle_check_every_60_s() -> None:
    """S0.12"""
    schedule = app.conf.beat_schedule["idle_check"]["schedule"]
    assert schedule.run_every == timedelta(seconds=60)


def test_a_tick_with_a_waiting_queue_does_nothing_at_all(agent: Agent) -> None:
    """S0.14"""
    first = send(agent, "one")
    pull(agent)
    send(agent, "two")
    events = Event.objects.count()
    assert tick(NOW + 60 * MINUTE) == (0, 0)
    assert (state_of(first), Event.objects.count()) == (InstructionState.DELIVERED, events)
    assert pull(agent) == ["two"]


def test_another_agents_queue_does_not_count(agent: Agent) -> None:
    send(agent)
    pull(agent)
    send(make_agent("codex"))
    assert tick(NOW + MINUTE) == (1, 0)


def test_a_tick_with_nothing_tracked_does_nothing(agent: Agent) -> None:
    """S0.15"""
    assert tick(NOW) == (0, 0)


def test_every_unacknowledged_one_is_requeued_not_only_one(agent: Agent) -> None:
    """S0.16"""
    ids = [send(agent, f"thing {number}") for number in range(5)]
    pull(agent)
    assert tick(NOW + MINUTE) == (5, 0)
    assert set(Instruction.objects.filter(pk__in=ids).values_list("retry_count", flat=True)) == {1}
    assert pull(agent) == [f"thing {number}" for number in range(5)]


def test_the_default_is_four_deliveries_then_it_is_given_up(agent: Agent) -> None:
    """S0.17 to S0.21, S0.31"""
    id = send(agent, "Check")
    assert deliveries(agent, 8) == ["Check", "Check", "**IMPORTANT:** Check", "**URGENT:** Check"]
    row = Instruction.objects.get(pk=id)
    assert (row.state, row.retry_count, row.content) == (InstructionState.FAILED, 3, "Check")
    told = (
        Event.objects.filter(subject_id=id)
        .order_by("id")
        .values_list("kind", "from_state", "to_state")
    )
    step = [
        ("instruction.delivered", "queued", "delivered"),
        ("instruction.requeued", "delivered", "queued"),
    ]
    assert list(told) == [
        ("instruction.queued", None, "queued"),
        *step * 3,
        ("instruction.delivered", "queued", "delivered"),
        ("instruction.failed", "delivered", "failed"),
    ]


@pytest.mark.parametrize(
    ("max_retries", "prefixes"),
    [
        (0, [""]),
        (1, ["", ""]),
        (2, ["", "", "**IMPORTANT:** "]),
        (5, ["", "", "**IMPORTANT:** ", "**URGENT:** ", "**URGENT:** ", "**URGENT:** "]),
    ],
)
def test_how_often_and_how_loud(agent: Agent, max_retries: int, prefixes: list[str]) -> None:
    """S0.18, S0.19, S0.23"""
    send(agent, "x", max_retries=max_retries)
    assert deliveries(agent, 9) == [prefix + "x" for prefix in prefixes]


def test_giving_up_warns_with_the_seeds_words(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """S0.22, S0.37"""
    content = "Check whether the OpenSpec CLI is available on this machine, and where"
    id = send(agent, content, max_retries=2)
    with caplog.at_level(logging.WARNING, "retries.reminders"):
        deliveries(agent, 4)
    assert [record.getMessage() for record in caplog.records] == [
        f"Instruction {id} failed after 2 retries: {content[:50]}..."
    ]
    assert str(id) in instructions.failed_instructions()


def test_age_alone_never_fails_it(agent: Agent) -> None:
    """S0.30"""
    id = send(agent)
    tick(NOW + timedelta(days=365))
    assert state_of(id) == InstructionState.QUEUED
    pull(agent)
    assert tick(NOW + timedelta(days=730)) == (1, 0)
    assert state_of(id) == InstructionState.QUEUED


def test_the_minimum_age_delays_a_reminder(agent: Agent) -> None:
    """S0.40"""
    send(agent)
    pull(agent, now=NOW)
    half = timedelta(seconds=30)
    assert tick(NOW + half - timedelta(milliseconds=1), min_age=half) == (0, 0)
    assert tick(NOW + half, min_age=half) == (1, 0)


def test_a_younger_one_waits_while_an_older_one_is_reminded(agent: Agent) -> None:
    older, younger = send(agent), send(agent)
    pull(agent, now=NOW, limit=1)
    pull(agent, now=NOW + MINUTE)
    assert tick(NOW + MINUTE, min_age=timedelta(seconds=30)) == (1, 0)
    assert (state_of(older), state_of(younger)) == (
        InstructionState.QUEUED,
        InstructionState.DELIVERED,
    )


def test_the_age_counts_from_the_last_delivery(agent: Agent) -> None:
    send(agent)
    pull(agent, now=NOW)
    tick(NOW + MINUTE)
    pull(agent, now=NOW + 2 * MINUTE)
    assert tick(NOW + 2 * MINUTE + timedelta(seconds=29), min_age=timedelta(seconds=30)) == (0, 0)


def test_a_person_can_send_it_again_at_once(agent: Agent) -> None:
    id, other = send(agent, "Check"), send(agent, "else")
    pull(agent, limit=1)
    actor = Actor("user", "1", "mara")
    assert [row["id"] for row in reminders.send_again([id, other], stamp=Stamp(actor, NOW))] == [id]
    assert pull(agent) == ["Check", "else"]
    assert Event.objects.filter(kind="instruction.requeued", actor_name="mara").count() == 1


def test_by_hand_no_more_retries_than_were_granted(agent: Agent) -> None:
    id = send(agent, max_retries=1)
    for _ in range(3):
        pull(agent)
        reminders.send_again([id], stamp=Stamp(Actor("user", "1", "mara"), NOW))
    row = Instruction.objects.get(pk=id)
    assert (row.state, row.retry_count, row.deliveries) == (InstructionState.DELIVERED, 1, 2)


def test_it_can_be_told_to_look_at_one_project_alone(agent: Agent) -> None:
    send(agent)
    pull(agent)
    elsewhere = make_agent("coder", project=make_project("demo"))
    send(elsewhere)
    pull(elsewhere)
    assert tick(NOW + MINUTE, project=elsewhere.project) == (1, 0)
    assert instructions.is_queue_empty(agent) and not instructions.is_queue_empty(elsewhere)


def test_more_agents_than_a_batch_holds(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retries.reminders.AGENTS_PER_BATCH", 2)
    crowd = [make_agent(f"agent {number}") for number in range(5)]
    for each in crowd:
        send(each)
        pull(each)
    assert tick(NOW + MINUTE) == (5, 0)


def test_the_text_of_an_instruction_can_not_forge_a_line_of_the_log(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    send(agent, "a\n\u202ex ERROR\tb", max_retries=0)
    with caplog.at_level(logging.WARNING, "retries.reminders"):
        deliveries(agent, 2)
    assert caplog.messages and all(message.isprintable() for message in caplog.messages)
