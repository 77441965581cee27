"""The receipts of what reaches a running agent: delivered by which way, read, and followed."""

from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from ledger.access.audit import audit
from ledger.instructions import PULL, Expect
from ledger.models import Agent, Event, Instruction
from ledger.tokens import Bearer
from retries.models import Escalation
from retries.tasks.holds import MOST_HOLDS
from tests.conftest import Api
from tests.factories import send, tick
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.agent_hooks.test_api import context
from tests.retries.agent_hooks.test_api import hook as hook
from tests.retries.agent_hooks.test_field_cases import Hook, ran, wrote

pytestmark = pytest.mark.django_db


def story(*kinds: str) -> list[dict[str, Any]]:
    """Return the data of the journal's events of these kinds, oldest first."""
    found = Event.objects.filter(kind__in=[f"instruction.{kind}" for kind in kinds])
    return [event.data for event in found.order_by("id")]


def test_a_message_is_sent_delivered_read_and_followed(
    agent: Agent, hook: Hook, coder: Api
) -> None:
    """AGT-4: read at call 2, followed at call 3."""
    id = send(agent, "Run the tests", expect=Expect("fs_command", {"line": "make test"}))
    assert context(ran(hook, "ls")) == "Run the tests"
    row = coder("GET", f"/instructions/{id}").body
    assert (row["delivered_via"], row["delivered_session"], row["delivered_call"]) == (
        "tool_call",
        "s-1",
        1,
    )
    assert row["first_delivered_at"] == row["delivered_at"] and row["read_at"] is None
    assert ran(hook, "ls src") == {}
    row = coder("GET", f"/instructions/{id}").body
    assert row["read_at"] > row["delivered_at"] and row["acknowledged_at"] is None
    ran(hook, "make test")
    [delivered] = story("delivered")
    assert delivered == {"retry_count": 0, "via": "tool_call", "session": "s-1", "call": 1}
    assert story("read") == [{"retry_count": 0, "session": "s-1", "call": 2}]
    [followed] = story("acknowledged")
    assert followed["call"] == 3
    assert list(audit()) == []


def test_who_follows_at_once_has_read_it(agent: Agent, hook: Hook) -> None:
    send(agent, "Run the tests", expect=Expect("fs_command", {"line": "make test"}))
    ran(hook, "ls")
    ran(hook, "make test")
    row = Instruction.objects.get()
    assert row.read_at == row.acknowledged_at and not row.unread
    ran(hook, "ls")
    assert story("read") == []


def test_a_call_that_ran_during_the_delivery_is_no_receipt(agent: Agent, hook: Hook) -> None:
    """Two tools of one step: the model reads the text after both."""
    send(agent, "Run the tests")
    ran(hook, "ls")
    ran(hook, "sleep 60", duration_ms=60_000)
    assert Instruction.objects.get().read_at is None
    ran(hook, "ls", duration_ms=0)
    assert Instruction.objects.get().read_at is not None


@pytest.mark.parametrize(
    "step",
    [
        {"event": "UserPromptSubmit", "prompt": "go on"},
        {"event": "PostToolUse", "tool_name": "Read", "session": "s-2"},
        {"event": "PostToolUse", "tool_name": "Read", "agent_id": "sub-1"},
        {"event": "PostToolUse", "tool_name": "Read", "local": {"late": True}},
    ],
    ids=["prompt", "another session", "subagent", "late"],
)
def test_what_is_no_step_of_the_session_is_no_receipt(
    agent: Agent, hook: Hook, step: dict[str, Any]
) -> None:
    send(agent, "Run the tests")
    ran(hook, "ls")
    hook(**step)
    assert Instruction.objects.get().read_at is None


def test_a_prompt_and_a_stop_are_ways(agent: Agent, hook: Hook) -> None:
    send(agent, "Be brief")
    hook("UserPromptSubmit", prompt="go")
    send(agent, "Write the docs, too")
    assert hook("Stop", last_assistant_message="Done.")["reason"] == "Write the docs, too"
    assert [each["via"] for each in story("delivered")] == ["prompt", "stop"]
    # the stop is the receipt of the prompt's delivery, and the next call that of the stop's
    assert len(story("read")) == 1
    ran(hook, "ls")
    assert len(story("read")) == 2


def test_each_hold_of_a_stop_is_a_delivery_with_its_receipt(agent: Agent, hook: Hook) -> None:
    """AGT-16: the question says how often the text was shown."""
    make_rule(hold_stop=True)
    wrote(hook)
    row = Instruction.objects.get()
    assert (row.deliveries, row.holds, row.delivered_via) == (1, 0, "tool_call")
    times = [row.delivered_at]
    for _ in range(MOST_HOLDS):
        assert hook("Stop")["decision"] == "block"
        row.refresh_from_db()
        times.append(row.delivered_at)
    assert (row.deliveries, row.holds, row.delivered_via) == (1 + MOST_HOLDS, MOST_HOLDS, "stop")
    assert times == sorted(set(times))
    hook("Stop")
    assert len(story("read")) == MOST_HOLDS
    assert Escalation.objects.get().instruction.deliveries == 1 + MOST_HOLDS
    assert list(audit()) == []


def test_a_pull_is_the_receipt_of_the_one_before(agent: Agent, coder: Api) -> None:
    first = send(agent, "Be brief", tracked=False)
    coder("POST", "/instructions/pull", {"via": "cli"})
    second = send(agent, "Run the tests")
    coder("POST", "/instructions/pull", {"via": "heartbeat"})
    found = {row.pk: row for row in Instruction.objects.all()}
    assert (found[first].delivered_via, found[second].delivered_via) == ("cli", "heartbeat")
    assert found[first].read_at is not None and found[second].read_at is None
    coder("POST", f"/instructions/{second}/ack")
    row = Instruction.objects.get(pk=second)
    assert row.read_at == row.acknowledged_at
    assert list(audit()) == []


def test_a_reminder_is_read_later_than_what_it_repeats(agent: Agent, hook: Hook) -> None:
    send(agent, "Run the tests")
    ran(hook, "ls")
    first = Instruction.objects.get().first_delivered_at
    tick(timezone.now())
    ran(hook, "ls")
    row = Instruction.objects.get()
    assert (row.first_delivered_at, row.deliveries, row.unread) == (first, 2, True)
    assert row.read_at is not None


def test_a_hook_that_has_nothing_to_mark_runs_no_further_statement(
    agent: Agent, hook: Hook
) -> None:
    """The connection remembers each statement that it ran."""
    pull = PULL[Bearer]

    def has_pulled() -> bool:
        known = vars(connections["default"]).setdefault("statements", {})
        known.pop(pull, None)
        ran(hook, "ls")
        return pull in known

    assert not has_pulled()
    send(agent, "Run the tests")
    assert has_pulled()  # it delivers
    assert has_pulled()  # it marks
    assert not has_pulled()
