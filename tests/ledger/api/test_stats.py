"""Statistics over HTTP."""

import pytest

from ledger.models import Agent
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_instruction
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db


def test_statistics_of_project_and_agents(operator: Api, agent: Agent) -> None:
    """S0.36"""
    from django.utils import timezone

    for state in (
        InstructionState.ACKNOWLEDGED,
        InstructionState.FAILED,
        InstructionState.DELIVERED,
    ):
        make_instruction(state, agent=agent, now=timezone.now())
    body = operator("GET", "/stats?window=1h").body
    project, (coder,) = body["project"], body["agents"]
    assert project["name"] == "default" and coder["name"] == "coder"
    for numbers in (project, coder):
        assert [numbers[key] for key in ("sent", "acknowledged", "failed", "waiting")] == [
            3,
            1,
            1,
            1,
        ]
        assert numbers["failed_share"] == pytest.approx(1 / 3, abs=1e-3)
        assert numbers["levels"][0]["acknowledged"] == numbers["levels"][0]["waiting"] == 1
    for window in ("", "0h", "24", "9999d", "1w"):
        problem(operator("GET", f"/stats?window={window}"), 422, "validation_error")
