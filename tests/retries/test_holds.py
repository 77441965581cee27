"""The Stop hook: an open instruction of a rule with `hold_stop` keeps its agent seven times."""

import pytest

from ledger.access.audit import audit
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import pause_rules
from ledger.tokens import TrustedCaller
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.tasks.holds import MOST_HOLDS, Hold, hold_stop
from tests.elsewhere import at_once
from tests.factories import MINUTE, NOW, make_agent, pull, tick
from tests.ledger.standing_instructions.rules import make_rule

STAMP = Stamp(Actor("token", "1", "coder"), NOW)


def hold(agent: Agent) -> Hold:
    return hold_stop(agent, session="one", stamp=STAMP)


def write_and(agent: Agent, **data: str) -> None:
    caller = TrustedCaller(SYSTEM, agent=agent)
    report_signal("fs_write", data or {"path": "src/a.py"}, caller=caller, now=NOW)


@pytest.mark.django_db
def test_the_stop_is_held_until_the_instruction_is_followed(agent: Agent) -> None:
    rule = make_rule(hold_stop=True)
    make_rule("Say hello", hold_stop=False, expect=None)
    assert hold(agent) == Hold()
    write_and(agent)
    assert [row["holds"] for row in hold(agent).held] == [1]
    row = Instruction.objects.get(rule=rule)
    assert (row.state, row.deliveries, row.holds) == ("delivered", 1, 1)
    event = Event.objects.get(kind="instruction.held")
    assert event.data == {"holds": 1, "rule": str(rule.id), "session": "one"}
    assert (event.to_state, event.actor_name) == (None, "coder")
    pull(agent)  # the other one, or the idle check would find the agent busy
    tick(NOW + MINUTE)
    tick(NOW + MINUTE)
    pull(agent, now=NOW + MINUTE)
    tick(NOW + 2 * MINUTE)
    pause_rules([rule.id], stamp=STAMP)
    release = "(Tenfour lets you stop after you have run 'make test'.)"
    assert hold(agent).text == f"**IMPORTANT:** {rule.content}\n{release}"
    assert hold(make_agent("codex")) == Hold()
    caller = TrustedCaller(SYSTEM, agent=agent)
    report_signal("fs_command", {"line": "make test"}, caller=caller, now=NOW)
    assert hold(agent) == Hold()
    assert list(audit()) == []


@pytest.mark.django_db
def test_after_seven_holds_it_lets_go_and_asks_a_person(agent: Agent) -> None:
    make_rule(hold_stop=True, on_failed="record")
    write_and(agent)
    assert [hold(agent).held[0]["holds"] for _ in range(MOST_HOLDS)] == list(range(1, 8))
    gone = hold(agent)
    assert (gone.held, gone.text, len(gone.let_go)) == ([], "", 1)
    escalation = Escalation.objects.get()
    assert gone.escalations == [escalation.id]
    assert (escalation.reason, escalation.state) == ("instruction_ignored", "open")
    row = Instruction.objects.get()
    assert (row.state, row.holds) == ("failed", 7)
    failed = Event.objects.get(kind="instruction.failed")
    assert failed.data == {"retry_count": 0, "holds": 7}
    assert hold(agent) == Hold() and Escalation.objects.count() == 1
    person = Stamp(Actor("user", "1", "dana"), NOW)
    answering.answer(
        escalation.id,
        Choice(action="retry"),
        among=Escalation.objects.all(),
        stamp=person,
        channel="page",
    )
    assert pull(agent) == [row.content]
    assert list(audit()) == []


@pytest.mark.django_db
def test_a_reminder_that_still_waits_is_let_go_too(agent: Agent) -> None:
    make_rule(hold_stop=True)
    write_and(agent)
    for _ in range(MOST_HOLDS):
        hold(agent)
    tick(NOW + MINUTE)
    assert Instruction.objects.get().state == "queued"
    assert len(hold(agent).let_go) == 1
    assert list(audit()) == []


@pytest.mark.django_db(transaction=True)
def test_hooks_that_ask_at_once_are_counted_one_by_one(agent: Agent) -> None:
    make_rule(hold_stop=True)
    write_and(agent)
    found = at_once(10, lambda _: hold(agent))
    assert all(isinstance(each, Hold) for each in found)
    counts = sorted(row["holds"] for each in found for row in each.held)
    assert counts == list(range(1, 8))
    assert sum(len(each.let_go) for each in found) == 1
    assert Escalation.objects.count() == 1
    assert Event.objects.filter(kind="instruction.held").count() == 7
