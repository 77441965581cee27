"""How PostgreSQL runs the statements that every task passes through, whatever their values are."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import connection
from psycopg.types.json import Jsonb

from ledger import sql, tasks
from ledger.journal import SYSTEM
from ledger.models import Agent
from ledger.tasks import Spec
from ledger.tokens import Bearer, Known
from retries import claims, reports
from tests.factories import NOW

pytestmark = pytest.mark.django_db

BEARER = {"digest": b"", "scope": "tasks:work", "request_id": ""}
ASKED = {"worker": "w", "task": None, "limit": 1, "lease": None, "probe": False, "rationed": False}
NAMED = ASKED | {"task": uuid4()}
DONE = {"attempt": uuid4(), "exit": None, "result": Jsonb({}), "mark": b""}
TABLES = ("task", "attempt", "event", "agent", "breaker", "plan", "need", "instruction")


def hot(agent: Agent) -> dict[str, tuple[str, dict[str, Any]]]:
    known = Known(SYSTEM, agent=agent).params
    task = tasks.written(agent, Spec(type="x"))
    whole = {"shared": tasks.as_json(task)}
    parts = {"shared": tasks.as_json({}), "tasks": tasks.as_json([task] * 3)}
    waits = [task | {"place": n, "needs": [], "after": []} for n in range(3)]
    return {
        "claim": (claims.CLAIM[Known, False, False], ASKED | known),
        "claim over HTTP": (claims.CLAIM[Bearer, False, True], ASKED | BEARER),
        "claim one": (claims.CLAIM[Bearer, True, True], NAMED | BEARER),
        "why not": (claims.WHY[Bearer], ASKED | BEARER),
        "done": (reports.DONE[Bearer], DONE | BEARER),
        "enqueue": (tasks.ENQUEUE, whole | known),
        "enqueue many": (tasks.ENQUEUE_MANY, parts | known),
        "enqueue waiting": (
            tasks.ENQUEUE_WAITING,
            {"shared": tasks.as_json({}), "tasks": tasks.as_json(waits)} | known,
        ),
    }


NAMES = [
    "claim",
    "claim over HTTP",
    "claim one",
    "why not",
    "done",
    "enqueue",
    "enqueue many",
    "enqueue waiting",
]


@pytest.fixture
def prepared(agent: Agent) -> Iterator[psycopg.Cursor[Any]]:
    """A cursor of the test's own connection, which forgets what it prepared."""
    tasks.enqueue_many([(agent, Spec(type="x"))] * 2000, now=NOW)
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute("analyze ledger_task")
        cursor.execute("deallocate all")
        yield cursor
        cursor.execute("deallocate all")


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
def test_no_plan_reads_a_whole_table(
    name: str, agent: Agent, prepared: psycopg.Cursor[Any]
) -> None:
    """However many tasks, agents, breakers, and plans there are, a move looks at a few rows."""
    statement, params = hot(agent)[name]
    prepared.execute("set local plan_cache_mode = force_generic_plan")
    prepared.execute("set local enable_seqscan = off")  # these tables are so small
    plan = prepared.execute(f"explain {statement}", {**params, "now": NOW})
    lines = [row[0] for row in plan]
    for table in TABLES:
        assert not [line for line in lines if f"Seq Scan on ledger_{table}" in line], lines
