"""The database refuses invalid rows, no matter who writes them."""

import pytest
from django.db import IntegrityError, connection, transaction

from ledger import tasks
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Instruction, Task
from ledger.states import InstructionState
from ledger.tasks import Spec
from retries import claims
from tests.factories import NOW, make_instruction

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "change",
    [
        "state = 'lost'",
        "state = 'acknowledged'",
        "state = 'failed'",
        "state = 'cancelled'",
        "state = 'delivered'",
        "failed_at = now()",
        "max_retries = 21",
        "retry_count = 4",
        "retry_count = -1",
        "tracked = false, state = 'failed', failed_at = now()",
        "on_failed = 'explode'",
    ],
)
def test_a_row_that_makes_no_sense_is_refused(agent: Agent, change: str) -> None:
    row = make_instruction(InstructionState.QUEUED, agent=agent)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"update ledger_instruction set {change}")
    assert Instruction.objects.get().updated_at == row.updated_at


def test_the_same_content_can_be_unsettled_only_once(agent: Agent) -> None:
    row = make_instruction(InstructionState.QUEUED, agent=agent)
    row.pk = None
    with pytest.raises(IntegrityError, match="instruction_unsettled_once"), transaction.atomic():
        row.save(force_insert=True)


@pytest.mark.parametrize(
    "change",
    [
        "state = 'lost'",
        "state = 'done or so', completed_at = now()",
        "state = 'done'",
        "state = 'retry'",
        "state = 'running'",
        "state = 'blocked'",
        "state = 'blocked', blocked_reason = 'moods'",
        "blocked_reason = 'dependency'",
        "current_attempt = uuidv7()",
        "completed_at = now()",
        "unmet = -1",
        "retry_count = -1",
        "attempts = -1",
        "attempts = attempt_limit + 1",
        "ref = '01-01:task-1'",
    ],
)
def test_a_task_that_makes_no_sense_is_refused(agent: Agent, change: str) -> None:
    tasks.enqueue(agent, "x", now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"update ledger_task set {change}")
    assert Task.objects.get().updated_at == NOW


@pytest.mark.parametrize(
    "change", ["outcome = 'success'", "outcome = 'lost', ended_at = now()", "ended_at = now()"]
)
def test_an_attempt_that_makes_no_sense_is_refused(agent: Agent, change: str) -> None:
    claims.start(tasks.enqueue(agent, "x", now=NOW), stamp=Stamp(SYSTEM, NOW))
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"update ledger_attempt set {change}")


def test_what_enqueueing_gives_is_the_row(agent: Agent) -> None:
    """Put together from what was asked for, it is what the database would say."""
    need = tasks.enqueue(agent, "first", now=NOW)
    asked = [
        Spec(type="x", payload={"n": 1}, title="One"),
        Spec(type="x", payload={"n": True, "password": "hunter2!"}, priority=3, lease_s=60),
        Spec(type="x", needs=[need], after=[0], max_attempts=5),
    ]
    for some in (asked[:1], asked[:2], asked):
        rows = tasks.enqueue_many([(agent, spec) for spec in some], stamp=Stamp(SYSTEM, NOW))
        found = [row.pop("need_ids") for row in rows]
        assert [row.pop("skipped_needs") for row in rows] == [None] * len(rows)
        assert rows == [tasks.fetch_task(row["id"]) for row in rows]
    assert found == [[], [], sorted([need, rows[0]["id"]])]
    assert [row["state"] for row in rows] == ["queued", "queued", "blocked"]
    assert tasks.fetch_task(rows[1]["id"])["payload"]["n"] is True
