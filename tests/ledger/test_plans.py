"""How PostgreSQL runs the statements that agents cause all the time, whatever their values are."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection
from psycopg.types.json import Jsonb

from ledger import correlation, instructions, sql
from ledger.journal import SYSTEM
from ledger.models import Agent
from ledger.tokens import Bearer, Known
from retries import reminders
from tests.factories import NOW, send

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
}
ACKED = {"ids": [uuid4()], "outcome": "done", "note": "", "kind": "k"}
HEARD = {"type": "t", "data": Jsonb({})}


def hot(agent: Agent) -> dict[str, tuple[str, dict[str, Any]]]:
    known = Known(SYSTEM, agent=agent).params
    return {
        "send": (instructions.SEND, SENT | known),
        "pull": (instructions.PULL[Bearer], {"limit": 1} | BEARER),
        "acknowledge": (instructions.ACKNOWLEDGE[Bearer], ACKED | BEARER),
        "signal": (correlation.SIGNAL[Bearer], HEARD | BEARER),
        "cancel": (instructions.CANCEL, {"ids": [uuid4()]} | known),
        "cancel all": (instructions.CANCEL_ALL, known),
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
def prepared(agent: Agent) -> Iterator[psycopg.Cursor[Any]]:
    """A cursor of the test's own connection, which forgets what it prepared."""
    send(agent)
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(MANY)
        cursor.execute("analyze ledger_instruction")
        cursor.execute("deallocate all")
        yield cursor
        cursor.execute("deallocate all")


@pytest.mark.parametrize("name", STATEMENTS)
def test_one_plan_serves_for_all_values(
    name: str, agent: Agent, prepared: psycopg.Cursor[Any]
) -> None:
    statement, params = hot(agent)[name]
    for _ in range(7):  # PostgreSQL makes five plans before it compares
        sql.run(statement, **params, now=NOW)
    kept = prepared.execute(
        "select generic_plans from pg_prepared_statements where from_sql = false"
    )
    assert max(row[0] for row in kept) >= 2


@pytest.mark.parametrize("name", [*STATEMENTS, "cancel all"])
def test_no_plan_reads_a_whole_table(
    name: str, agent: Agent, prepared: psycopg.Cursor[Any]
) -> None:
    statement, params = hot(agent)[name]
    prepared.execute("set local plan_cache_mode = force_generic_plan")
    prepared.execute("set local enable_seqscan = off")  # these tables are so small
    plan = prepared.execute(f"explain {statement}", {**params, "now": NOW})
    lines = [row[0] for row in plan]
    for table in ("ledger_instruction", "ledger_event"):
        assert not [line for line in lines if f"Seq Scan on {table}" in line]
