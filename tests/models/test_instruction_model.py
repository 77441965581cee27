"""Instructions of one agent against a model in plain Python."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledger import instructions
from ledger.access import audit
from ledger.journal import SYSTEM, Stamp
from ledger.models import Instruction
from ledger.states import InstructionState
from tests.factories import NOW, make_agent, pull, send, tick
from tests.models.examples import run_machine

MIN_AGE = timedelta(seconds=30)
UNSETTLED = (InstructionState.QUEUED, InstructionState.DELIVERED)


@dataclass
class ModelInstruction:
    """What an instruction should be."""

    reminders: int
    state: InstructionState = InstructionState.QUEUED
    reminded: int = 0
    delivered_at: datetime = NOW


class InstructionMachine(RuleBasedStateMachine):
    """One agent with its instructions; each example is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.rollback = transaction.atomic()
        self.rollback.__enter__()
        self.agent = make_agent("modeled")
        self.now = NOW
        self.sent: dict[UUID, ModelInstruction] = {}

    def teardown(self) -> None:
        try:
            assert list(audit.audit()) == []
        finally:
            transaction.set_rollback(True)
            self.rollback.__exit__(None, None, None)

    def chosen(self, *states: InstructionState) -> list[UUID]:
        return [id for id, each in self.sent.items() if each.state in states]

    @rule(reminders=st.integers(0, 2))
    def send(self, reminders: int) -> None:
        id = send(self.agent, now=self.now, max_retries=reminders)
        self.sent[id] = ModelInstruction(reminders)

    @rule()
    def pull(self) -> None:
        queued = self.chosen(InstructionState.QUEUED)
        assert len(pull(self.agent, now=self.now)) == len(queued)
        for id in queued:
            self.sent[id].state = InstructionState.DELIVERED
            self.sent[id].delivered_at = self.now

    @rule()
    def check_idle(self) -> None:
        """Remind only an agent that has read everything, of what it has had for a while."""
        found = tick(self.now, min_age=MIN_AGE)
        old = [
            self.sent[id]
            for id in self.chosen(InstructionState.DELIVERED)
            if self.sent[id].delivered_at <= self.now - MIN_AGE
        ]
        old = [] if self.chosen(InstructionState.QUEUED) else old
        again = [each for each in old if each.reminded < each.reminders]
        assert found == (len(again), len(old) - len(again))
        for each in old:
            each.state = InstructionState.FAILED
        for each in again:
            each.state = InstructionState.QUEUED
            each.reminded += 1

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        """An ack counts at any time, but one that comes too late changes nothing."""
        id = data.draw(st.sampled_from([*self.sent]))
        instructions.acknowledge_instruction(id, now=self.now)
        if self.sent[id].state in UNSETTLED:
            self.sent[id].state = InstructionState.ACKNOWLEDGED

    @precondition(lambda self: self.chosen(*UNSETTLED))
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        id = data.draw(st.sampled_from(self.chosen(*UNSETTLED)))
        stamp = Stamp(SYSTEM, self.now)
        instructions.cancel([id], project_id=self.agent.project_id, stamp=stamp)
        self.sent[id].state = InstructionState.CANCELLED

    @rule(seconds=st.sampled_from([1, 29, 30, 60]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def rows_stand_where_the_model_says(self) -> None:
        rows = Instruction.objects.values_list("pk", "state", "retry_count").order_by("pk")
        expected = {id: (each.state.value, each.reminded) for id, each in self.sent.items()}
        assert {id: tuple(values) for id, *values in rows} == expected


@pytest.mark.django_db
def test_instructions_follow_the_model() -> None:
    """S0.5, S0.6, S0.14, S0.16, S0.21, S0.23"""
    run_machine(InstructionMachine, examples=40, steps=30)
