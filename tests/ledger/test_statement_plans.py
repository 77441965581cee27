"""How PostgreSQL runs the statements that agents cause all the time, whatever their values are."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from ledger import instructions, signal_matching
from ledger.journal import SYSTEM
from ledger.models import Agent
from ledger.tokens import Bearer, TrustedCaller
from ledger.values.ids import LAST_ID
from retries import reminders
from tests.factories import NOW, send
from tests.statement_plans import Cursor, planned_anew, prepared, read_whole

BEARER = {"digest": b"", "scope": "instructions:ack", "request_id": ""}
SENT: dict[str, Any] = {
    "content": "x",
    "sha256": sha256(b"x").digest(),
    "tracked": True,
    "max_retries": 3,
    "expect_type": None,
    "expect_match": None,
    "on_failed": "record",
    "sign": 1,
    "resend_of": None,
    "task": None,
}
ACKED = {"ids": [uuid4()], "outcome": "done", "note": "", "kind": "k"}
PULLED = {"limit": 1, "via": "pull", "session": None, "call": None, "began": NOW}
HEARD = {
    "type": "t",
    "call": None,
    "data": Jsonb({}),
    "masked": None,
    "normalized": None,
    "ruled": False,
    "last": LAST_ID,
}


def hot(agent: Agent) -> dict[str, tuple[str, dict[str, Any]]]:
    known = TrustedCaller(SYSTEM, agent=agent).params
    return {
        "send": (instructions.SEND, SENT | known),
        "pull": (instructions.PULL[Bearer], PULLED | BEARER),
        "acknowledge": (instructions.ACKNOWLEDGE[Bearer], ACKED | BEARER),
        "signal": (signal_matching.SIGNAL[Bearer], HEARD | BEARER),
        "cancel": (instructions.CANCEL, {"ids": [uuid4()], "note": Jsonb({})} | known),
        "cancel all": (instructions.CANCEL_ALL, {"note": Jsonb({})} | known),
        "remind": (reminders.REMIND, {"agents": [agent.id], "before": NOW} | known),
    }


STATEMENTS = ["send", "pull", "acknowledge", "signal", "cancel", "remind"]


# Enough for the planner to tell one row from a hundred.
MANY = """
insert into ledger_instruction (project_id, agent_id, content, content_sha256, tracked, state,
    max_retries, on_failed, position, sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at)
select project_id, agent_id, content || g, sha256(g::text::bytea), tracked, state, max_retries,
    on_failed, position + g, sent_by_type, sent_by_id, sent_by_name, queued_at, updated_at
from ledger_instruction, generate_series(1, 3000) g
"""


@pytest.fixture
def cursor(agent: Agent) -> Iterator[Cursor]:
    send(agent)
    with prepared("ledger_instruction", fill=MANY) as cursor:
        yield cursor


@pytest.mark.parametrize("name", STATEMENTS)
def test_one_plan_serves_for_all_values(name: str, agent: Agent, cursor: Cursor) -> None:
    assert planned_anew(cursor, *hot(agent)[name]) == 0


@pytest.mark.parametrize("name", [*STATEMENTS, "cancel all"])
def test_no_plan_reads_a_whole_table(name: str, agent: Agent, cursor: Cursor) -> None:
    tables = ("ledger_instruction", "ledger_event")
    assert read_whole(cursor, *hot(agent)[name], tables=tables) == []
