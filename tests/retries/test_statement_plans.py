"""How PostgreSQL runs the statements that every task passes through, whatever their values are."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent
from ledger.standing_instructions import firing
from ledger.tasks import Spec, enqueue_many, enqueuing
from ledger.tokens import Bearer, TrustedCaller
from retries import claims, in_process
from retries.attempts import fast_path, heartbeats
from retries.claiming.statements import CLAIM, POOL_CLAIM, POOL_WHY, WHY, Pick
from tests.factories import NOW
from tests.statement_plans import Cursor, plan_of, planned_anew, prepared, read_whole

pytestmark = pytest.mark.django_db

BEARER = {"digest": b"", "scope": "tasks:work", "request_id": ""}
ASKED = {
    "worker": "w",
    "task": None,
    "limit": 1,
    "lease": None,
    "probe": False,
    "limited": False,
    "ruled": False,
    "held_types": None,
    "silent": timedelta(minutes=5),
}
NAMED = ASKED | {"task": uuid4()}
DONE = {
    "attempt": uuid4(),
    "exit": None,
    "result": Jsonb({}),
    "report_digest": b"",
    "usage": None,
    "counted": False,
    "paths": None,
    "checks": None,
    "tree": None,
    "proofs": Jsonb({}),
    "decision": Jsonb({}),
}
USED = {"usage": Jsonb({"input_tokens": 5}), "counted": True}
RENEWED = {"progress": None, "output": None, "extend": None}
SIGNALED = {
    "type": "fs_write",
    "data": Jsonb({}),
    "path": "src/a.py",
    "trigger": Jsonb({}),
    "session": "",
    "attempt": None,
}
NOUNS = (
    "task",
    "attempt",
    "event",
    "agent",
    "breaker",
    "plan",
    "need",
    "instruction",
    "standinginstruction",
)
TABLES = (*(f"ledger_{noun}" for noun in NOUNS), "retries_escalation")


def hot(agent: Agent) -> dict[str, tuple[str, dict[str, Any]]]:
    known = TrustedCaller(SYSTEM, agent=agent).params
    task = enqueuing.prepare_columns(agent, Spec(type="x"))
    own = {name: task[name] for name in enqueuing.OWN}
    alike = {"shared": Jsonb(task), "tasks": Jsonb([own] * 3)}
    parts = {"shared": Jsonb({}), "tasks": Jsonb([task] * 3)}
    waits = [task | {"place": n, "needs": [], "after": [], "missing": 0} for n in range(3)]
    return {
        "claim": (CLAIM[TrustedCaller, Pick.NEXT, False], ASKED | known),
        "claim over HTTP": (CLAIM[Bearer, Pick.NEXT, True], ASKED | BEARER),
        "claim one": (CLAIM[Bearer, Pick.NAMED, True], NAMED | BEARER),
        "claim of a worker": (CLAIM[Bearer, Pick.NEXT_OR_OFFERED, True], ASKED | BEARER),
        "claim several": (CLAIM[Bearer, Pick.SEVERAL, True], ASKED | BEARER),
        "claim several of a worker": (CLAIM[Bearer, Pick.SEVERAL_OR_OFFERED, True], ASKED | BEARER),
        "why not": (WHY[Bearer], ASKED | BEARER),
        "claim of a member": (POOL_CLAIM[TrustedCaller, Pick.NEXT, False], ASKED | known),
        "claim of a member over HTTP": (
            POOL_CLAIM[Bearer, Pick.NEXT_OR_OFFERED, True],
            ASKED | BEARER,
        ),
        "claim one of a member": (POOL_CLAIM[Bearer, Pick.NAMED, True], NAMED | BEARER),
        "claim several of a member": (
            POOL_CLAIM[Bearer, Pick.SEVERAL_OR_OFFERED, True],
            ASKED | BEARER,
        ),
        "why not of a member": (POOL_WHY[Bearer], ASKED | BEARER),
        "rules of a signal": (firing.FIRE_SIGNAL[Bearer], SIGNALED | BEARER),
        "rules of a claim": (firing.FIRE_CLAIM[Bearer], {"attempts": [uuid4()]} | BEARER),
        "done": (fast_path.DONE[Bearer], DONE | BEARER),
        "done with usage": (fast_path.DONE[Bearer], DONE | USED | BEARER),
        "enqueue": (enqueuing.ENQUEUE, {"shared": Jsonb(task)} | known),
        "enqueue alike": (enqueuing.ENQUEUE_ALIKE, alike | known),
        "enqueue many": (enqueuing.ENQUEUE_MANY, parts | known),
        "enqueue waiting": (
            enqueuing.ENQUEUE_WITH_NEEDS,
            {"shared": Jsonb({}), "tasks": Jsonb(waits)} | known,
        ),
    }


NAMES = [
    "claim",
    "claim over HTTP",
    "claim one",
    "claim of a worker",
    "claim several",
    "claim several of a worker",
    "why not",
    "claim of a member",
    "claim of a member over HTTP",
    "claim one of a member",
    "claim several of a member",
    "why not of a member",
    "rules of a signal",
    "rules of a claim",
    "done",
    "enqueue",
    "enqueue alike",
    "enqueue many",
    "enqueue waiting",
]


@pytest.fixture
def cursor(agent: Agent) -> Iterator[Cursor]:
    enqueue_many([(agent, Spec(type="x"))] * 2000, stamp=Stamp(SYSTEM, NOW))
    with prepared("ledger_task") as cursor:
        yield cursor


@pytest.mark.parametrize("name", NAMES)
def test_one_plan_serves_for_all_values(name: str, agent: Agent, cursor: Cursor) -> None:
    assert planned_anew(cursor, *hot(agent)[name]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_no_plan_reads_a_whole_table(name: str, agent: Agent, cursor: Cursor) -> None:
    """However many tasks, agents, breakers, and plans there are, a move looks at a few rows."""
    assert read_whole(cursor, *hot(agent)[name], tables=TABLES) == []


@pytest.mark.parametrize("statement", [fast_path.DONE[Bearer], heartbeats.HEARTBEAT[Bearer]])
def test_an_attempt_is_found_by_its_id_where_few_are_live(statement: str, agent: Agent) -> None:
    """The index of live ones is small by its statistics, and full of those that were."""
    known = TrustedCaller(SYSTEM, agent=agent)
    enqueue_many([(agent, Spec(type="x"))] * 200, stamp=Stamp(SYSTEM, NOW))
    for row in claims.claim(known, limit=50, now=NOW).rows:
        in_process.report_success(row["attempt_id"], stamp=Stamp(SYSTEM, NOW))
    with prepared("ledger_task") as cursor:
        cursor.execute("analyze ledger_attempt")
        plan = plan_of(cursor, statement, DONE | BEARER | RENEWED)
    found = [line for line in plan if " on ledger_attempt" in line and "Index" in line]
    assert found and all("ledger_attempt_pkey" in line for line in found)
    assert not [line for line in plan if "Seq Scan on ledger_attempt" in line]
