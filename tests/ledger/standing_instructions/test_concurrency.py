"""Many signals at once: a rule sends one instruction, and none is lost."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import transaction

from ledger.access.audit import audit
from ledger.instructions import Expect
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction
from ledger.signal_matching import report_signal
from ledger.standing_instructions.editing import On, pause_rules
from ledger.tokens import TrustedCaller
from tests.elsewhere import at_once, blocked
from tests.factories import NOW, send
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.moves import claim, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def write(agent: Agent, path: str = "src/a.py") -> list[Any]:
    caller = TrustedCaller(SYSTEM, agent=agent)
    return list(report_signal("fs_write", {"path": path}, caller=caller, now=NOW).sent)


def test_a_storm_of_signals_sends_one_instruction(agent: Agent) -> None:
    make_rule(hold_stop=True)

    def storm(_: int) -> int:
        return sum(len(write(agent, f"src/{n}.py")) for n in range(125))

    assert sum(at_once(8, storm)) == 1
    assert Instruction.objects.count() == 1
    assert Event.objects.filter(kind="instruction.queued").count() == 1
    assert list(audit()) == []


def test_a_signal_that_races_with_the_ack_is_not_lost(
    agent: Agent, elsewhere: Callable[..., Future[Any]]
) -> None:
    """The signal waits for the ack and then sends, because the old instruction is settled."""
    make_rule()
    write(agent)
    with transaction.atomic():
        caller = TrustedCaller(SYSTEM, agent=agent)
        report_signal("fs_command", {"line": "make test"}, caller=caller, now=NOW)
        racing = elsewhere(lambda: write(agent))
        with blocked(racing):
            assert not racing.done()
    assert len(racing.result(PATIENCE_S)) == 1
    assert Instruction.objects.filter(state="queued").count() == 1


def test_a_rule_that_is_paused_meanwhile_sends_whole_or_not_at_all(agent: Agent) -> None:
    rule = make_rule()

    def act(n: int) -> Any:
        return pause_rules([rule.id], stamp=Stamp(SYSTEM, NOW)) if n == 0 else write(agent)

    at_once(4, act)
    assert Instruction.objects.count() == Event.objects.filter(kind="instruction.queued").count()
    assert write(agent) == []


def test_what_a_rule_sends_is_in_the_transaction_of_its_trigger(agent: Agent) -> None:
    make_rule("Look at the change", expect=None)
    make_rule("Add an entry", on=On(event="task_claimed"), expect=None)
    send(agent, "Change something", expect=Expect("fs_write"))
    write(agent)
    make_task(agent)
    claim(agent)
    for trigger in ("signal.matched", "task.claimed"):
        tx = Event.objects.get(kind=trigger).tx
        kinds = Event.objects.filter(tx=tx).order_by("id").values_list("kind", flat=True)
        assert "instruction.queued" in kinds, trigger
