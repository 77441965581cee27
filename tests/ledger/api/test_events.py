"""The journal over HTTP."""

import pytest

from ledger.models import Agent
from ledger.states import InstructionState
from tests.conftest import Api
from tests.factories import make_instruction
from tests.ledger.api.test_instructions import problem

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_the_request_id_is_in_the_journal(operator: Api, agent: Agent) -> None:
    operator("POST", "/instructions", {"agent": "coder", "content": "x"}, X_Request_Id="req-1")
    events = operator("GET", "/events").body["data"]
    assert [row["request_id"] for row in events if row["type"] == "instruction.queued"] == ["req-1"]


@pytest.mark.django_db(transaction=True)
def test_the_journal_is_read_in_pages(operator: Api, agent: Agent) -> None:
    make_instruction(InstructionState.ACKNOWLEDGED, agent=agent)
    whole = operator("GET", "/events?limit=100").body["data"]
    assert len(whole) >= 4
    pieces, after = [], ""
    for _ in range(len(whole)):
        page = operator("GET", f"/events?limit=1&after={after}").body
        pieces += page["data"]
        after = page["next_cursor"]
    assert pieces == whole
    assert operator("GET", f"/events?after={after}").body["data"] == []
    problem(operator("GET", "/events?after=x"), 400, "bad_cursor")
