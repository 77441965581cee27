"""The data of the last release is brought forward, and both versions run on it at once."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.models.plan import PlanState
from ledger.models.standing_instruction import RuleState
from ledger.states import BreakerState, InstructionState, MessageState, TaskState
from retries.models.notification_delivery import DeliveryState
from retries.models.operation import OperationState
from retries.states import EscalationState
from tests.serving import make_database
from tests.versions.last_release import (
    DATABASE,
    TODAY,
    Side,
    Version,
    query,
    start_side,
    unpack_last_release,
)

BUILDER = Path(__file__).with_name("every_state.py")
STORED = {
    "ledger_task": TaskState,
    "ledger_instruction": InstructionState,
    "ledger_breaker": BreakerState,
    "ledger_message": MessageState,
    "retries_escalation": EscalationState,
    "retries_operation": OperationState,
    "retries_delivery": DeliveryState,
}
DERIVED = {"plans": PlanState, "standing-instructions": RuleState}
PAGES = ("/", "/tasks/", "/escalations/", "/instructions/", "/plans/", "/dead-letters/")
PAGES += ("/patterns/", "/agents/", "/activity/", "/operations/", "/sessions/")
AT_ONCE = {"base_delay_ms": 1, "max_delay_ms": 1, "jitter": False}


@dataclass(frozen=True)
class Updated:
    """A database that the last release filled and this version migrated."""

    last: Version
    tokens: dict[str, str]
    states: dict[str, set[object]]


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Updated]:
    last = unpack_last_release(tmp_path_factory.mktemp("last_release"))
    with make_database(DATABASE):
        last.manage("migrate", "--skip-checks", "-v0")
        tokens = json.loads(last.run(str(BUILDER)).splitlines()[-1])
        TODAY.manage("migrate", "--skip-checks", "-v0")
        yield Updated(last, tokens, {table: read_states(table) for table in STORED})


@pytest.fixture(scope="module")
def today(updated: Updated) -> Iterator[Side]:
    with start_side(TODAY, updated.tokens) as side:
        yield side


def test_data_of_the_last_release_in_every_state_is_read(updated: Updated, today: Side) -> None:
    for table, states in STORED.items():
        assert updated.states[table] == {state.value for state in states}, table
    for noun, states in DERIVED.items():
        for state in states:
            rows = today.get(f"/{noun}?state={state.value}")["data"]
            assert rows and {row["state"] for row in rows} == {state.value}, noun
    assert count_failures() == query("select count(*) from retries_grouped")
    TODAY.run("-m", "tests.config.older_data", "read", updated.tokens["operator"])


def read_states(table: str) -> set[object]:
    return {state for (state,) in query(f"select distinct state from {table}")}


def count_failures() -> list[tuple[object, ...]]:
    return query("select sum(failures)::bigint from retries_failurecount")


def test_both_versions_run_on_one_database(updated: Updated, today: Side) -> None:
    """As in a rolling update: what one version begins, the other goes on with."""
    with start_side(updated.last, updated.tokens) as last:
        for one, other in ((last, today), (today, last)):
            settle_task_after_failures(one, other)
            replay_dead_letter(one, other)
            lose_lease(one, other)
            deliver_instruction(one, other)
            complete_plan(one, other)
        share_tasks(last, today)
        for side in (last, today):
            side.ask(sweeps=True)
        for side in (last, today, last):
            for page in PAGES:
                side.ask(page=page)
    # the triggers count what the last release reports, too
    assert count_failures() == query("select count(*) from retries_grouped")
    for version in (updated.last, TODAY):
        version.manage("audit_ledger")


def enqueue(side: Side, **body: Any) -> str:
    task = {"agent": "updated", "type": "code", "backoff": AT_ONCE} | body
    id: str = side.post("/tasks", task, by="orchestrator")["id"]
    return id


def claim(side: Side) -> tuple[str, str]:
    """Return the ids of the next task and of its attempt."""
    answer = side.post("/claims", {}, by="agent")
    assert answer["data"], answer
    [found] = answer["data"]
    return found["task"]["id"], found["attempt"]["id"]


def succeed(side: Side, attempt: str) -> None:
    side.post(f"/attempts/{attempt}/result", {"status": "success"}, by="agent")


def fail(side: Side, attempt: str) -> Any:
    failure = {"type": "verification_failed", "message": "AssertionError: 2 != 3"}
    body = {"status": "failure", "failure": failure}
    return side.post(f"/attempts/{attempt}/result", body, by="agent")


def settle_task_after_failures(one: Side, other: Side) -> None:
    """A task fails until a person is asked, then its agent asks, and then it is done."""
    id = enqueue(one, title="Settle", max_attempts=2, on_exhausted="escalate")
    fail(one, claim(other)[1])
    asked = fail(other, claim(one)[1])["escalation"]["id"]
    one.post(f"/escalations/{asked}/resolve", {"action": "retry"}, by="operator")
    question = {"question": "Which table?", "options": [{"name": "users"}]}
    path = f"/attempts/{claim(other)[1]}/escalate"
    asked = one.post(path, question, by="agent")["id"]
    other.post(f"/escalations/{asked}/resolve", {"text": "answer: users"}, by="operator")
    task, attempt = claim(one)
    assert task == id
    succeed(other, attempt)
    assert one.get(f"/tasks/{id}")["state"] == TaskState.DONE


def replay_dead_letter(one: Side, other: Side) -> None:
    id = enqueue(one, title="Replay", max_attempts=1, on_exhausted="dead_letter")
    fail(other, claim(one)[1])
    [(letter,)] = query(f"select id from ledger_deadletter where task_id = '{id}'")
    other.post(f"/dead-letters/{letter}/replay", {}, by="operator")
    succeed(other, claim(one)[1])


def lose_lease(one: Side, other: Side) -> None:
    """The clock of one version finds the lost attempt of the other."""
    enqueue(one, title="Lose", max_attempts=2)
    _, attempt = claim(one)
    other.ask(sweep="expire_leases")  # the first run after a pause extends all leases
    past = "now() - interval '1 second'"
    query(f"update ledger_attempt set lease_expires_at = {past} where id = '{attempt}'")
    assert other.ask(sweep="expire_leases")["expired"] == 1
    succeed(one, claim(other)[1])


def deliver_instruction(one: Side, other: Side) -> None:
    body = {"agent": "updated", "content": "Run the tests", "max_retries": 1}
    id = one.post("/instructions", body, by="orchestrator")["id"]
    [pulled] = other.post("/instructions/pull", {}, by="agent")["data"]
    assert pulled["id"] == id
    one.post(f"/instructions/{id}/ack", {}, by="agent")
    assert other.get(f"/instructions/{id}")["state"] == InstructionState.ACKNOWLEDGED


def complete_plan(one: Side, other: Side) -> None:
    titles = ("Lay", "Build")
    tasks = [{"title": title, "needs": [1] if n else []} for n, title in enumerate(titles)]
    [(plans,)] = query("select count(*) from ledger_plan")
    body = {"ref": f"07-0{plans}", "agent": "updated", "tasks": tasks}
    plan = one.post("/plans", body, by="orchestrator")
    succeed(one, claim(other)[1])
    succeed(other, claim(one)[1])
    other.ask(sweep="plans")
    found = one.get(f"/plans/{plan['plan']['id']}")["plan"]
    assert found["state"] == PlanState.COMPLETED


def share_tasks(last: Side, today: Side) -> None:
    """Both hand out the same agent's tasks at the same time, and none twice."""
    made = {enqueue(last, title=f"Share {n}") for n in range(20)}

    def claim_some(side: Side) -> list[tuple[str, str]]:
        return [claim(side) for _ in range(10)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(claim_some, (last, today))
    assert {task for task, _ in (*first, *second)} == made
    for side, claimed in ((today, first), (last, second)):
        for _, attempt in claimed:
            succeed(side, attempt)
