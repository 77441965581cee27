"""Tasks and plans that start no earlier than a time."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ledger import planfile
from ledger.access.audit import audit
from ledger.errors import Invalid, InvalidTransition, Refusal
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Task
from ledger.plans import editing as plan_editing
from ledger.states import BlockedReason, TaskState
from ledger.tasks import Change
from retries import breaker_actions, claims
from retries.tasks import actions as task_actions
from tests.factories import MINUTE, NOW
from tests.ledger.plans.test_import_writer import do, imported, task
from tests.retries.moves import attempt_of, claim, fail, kinds, make_task

pytestmark = pytest.mark.django_db
S = TaskState
LATER = NOW + 10 * MINUTE
TEXT = "2026-11-21T12:10:00.000Z"


def unblock(now: datetime) -> int:
    return claims.unblock_tasks(stamp=Stamp(SYSTEM, now))


def change(id: UUID, *, now: datetime = NOW, **fields: Any) -> dict[str, Any]:
    version = Task.objects.get(pk=id).version
    return task_actions.change(id, Change(**fields), version=version, stamp=Stamp(SYSTEM, now))


def state_of(id: UUID) -> tuple[str, str | None]:
    row = Task.objects.get(pk=id)
    return row.state, row.blocked_reason


# ---- a task


def test_a_task_is_not_claimed_before_its_time(agent: Agent) -> None:
    id = make_task(agent, not_before=LATER)
    assert state_of(id) == (S.BLOCKED, BlockedReason.NOT_BEFORE)
    empty = claim(agent)
    assert (empty.rows, empty.reason, empty.next_due_at) == ([], "no_task", LATER)
    assert unblock(LATER - timedelta(milliseconds=1)) == 0
    assert unblock(LATER) == 1
    assert claim(agent, now=LATER).rows[0]["id"] == id
    assert kinds(id) == ["task.created", "task.unblocked", "task.claimed"]
    assert Event.objects.get(kind="task.unblocked").data == {"reason": "not_before"}
    assert Event.objects.get(kind="task.created").data == {"reason": "not_before"}
    assert not list(audit())


def test_a_time_that_has_passed_does_not_hold_a_task_back(agent: Agent) -> None:
    id = make_task(agent, not_before=NOW)
    assert claim(agent).rows[0]["id"] == id


def test_tasks_of_one_call_each_have_their_time(coder: Any, operator: Any) -> None:
    each = {"agent": "coder", "type": "code"}
    body = {"tasks": [each | {"not_before": "2120-01-01T00:00:00Z"}]}
    assert operator("POST", "/tasks/bulk", body).status_code == 422
    soon = (datetime.now().astimezone() + timedelta(hours=1)).isoformat(timespec="milliseconds")
    body = {"tasks": [each | {"not_before": soon}, each]}
    made = operator("POST", "/tasks/bulk", body).body["data"]
    assert [row["state"] for row in made] == ["blocked", "queued"]
    assert [row["blocked_reason"] for row in made] == ["not_before", None]
    assert datetime.fromisoformat(made[0]["not_before"]) == datetime.fromisoformat(soon)
    claimed = coder("POST", "/claims", {"limit": 5}).body["data"]
    assert [each["task"]["id"] for each in claimed] == [made[1]["id"]]
    same = operator("GET", f"/tasks/{made[0]['id']}").body
    assert (same["not_before"], same["state"]) == (made[0]["not_before"], "blocked")


def test_a_time_needs_a_zone(operator: Any) -> None:
    body = {"agent": "coder", "type": "code", "not_before": "2026-12-01T10:00:00"}
    refused = operator("POST", "/tasks", body)
    assert refused.status_code == 422
    assert refused.body["errors"][0]["pointer"] == "/not_before"


def test_a_task_waits_for_its_needs_and_then_for_its_time(agent: Agent) -> None:
    imported({}, {"needs": "task-1", "not_before": TEXT})
    waiting = task("03-01:task-2").pk
    assert state_of(waiting) == (S.BLOCKED, BlockedReason.DEPENDENCY)
    assert unblock(LATER) == 0
    do(agent, "03-01:task-1")
    assert state_of(waiting) == (S.BLOCKED, BlockedReason.NOT_BEFORE)
    assert (unblock(LATER), state_of(waiting)) == (1, (S.QUEUED, None))
    assert not list(audit())


def test_a_task_whose_time_has_come_waits_only_for_its_needs(agent: Agent) -> None:
    imported({}, {"needs": "task-1", "not_before": TEXT})
    do(agent, "03-01:task-1", now=LATER)
    assert state_of(task("03-01:task-2").pk) == (S.QUEUED, None)


def test_a_merge_changes_when_a_task_may_start(agent: Agent) -> None:
    imported({})
    first = task("03-01:task-1").pk
    imported({"not_before": TEXT}, mode="merge")
    assert state_of(first) == (S.BLOCKED, BlockedReason.NOT_BEFORE)
    imported({"not_before": TEXT, "needs": "task-2"}, {}, mode="merge")
    assert state_of(first) == (S.BLOCKED, BlockedReason.DEPENDENCY)
    imported({"not_before": TEXT}, {}, mode="merge")
    assert state_of(first) == (S.BLOCKED, BlockedReason.NOT_BEFORE)
    assert unblock(LATER) == 1
    assert not list(audit())


def test_a_merge_keeps_a_persons_time_and_ends_the_files(agent: Agent) -> None:
    imported({})
    first = task("03-01:task-1").pk
    change(first, not_before=LATER)
    imported({"priority": 4}, mode="merge")
    assert state_of(first) == (S.BLOCKED, BlockedReason.NOT_BEFORE)
    assert Task.objects.get(pk=first).not_before == LATER
    imported({"priority": 4, "not_before": "2026-11-21T12:20:00.000Z"}, mode="merge")
    imported({"priority": 4}, mode="merge")
    assert state_of(first) == (S.QUEUED, None)
    assert Task.objects.get(pk=first).not_before is None
    assert claim(agent).rows[0]["id"] == first


def test_nothing_starts_a_queued_task_before_its_time(agent: Agent) -> None:
    id = make_task(agent)
    Task.objects.filter(pk=id).update(not_before=LATER)  # as after the answer of a checkpoint
    assert claim(agent).rows == []
    assert claim(agent, now=LATER).rows[0]["id"] == id


@pytest.mark.parametrize("year", ["0001", "1969", "9999"])
def test_a_time_far_away_is_refused(agent: Agent, operator: Any, year: str) -> None:
    at = f"{year}-12-31T23:59:59-01:00" if year == "9999" else f"{year}-01-01T00:00:00+01:00"
    body = {"agent": "coder", "type": "code", "not_before": at}
    assert operator("POST", "/tasks", body).status_code == 422
    with pytest.raises(Invalid):
        imported({"not_before": at})


def test_a_person_moves_the_time(agent: Agent) -> None:
    id = make_task(agent)
    assert change(id, not_before=LATER)["blocked_reason"] == "not_before"
    assert kinds(id) == ["task.created", "task.changed"]
    assert Event.objects.get(kind="task.changed").data["reason"] == "not_before"
    change(id, not_before=NOW)
    assert unblock(NOW) == 1
    assert claim(agent).rows
    with pytest.raises(InvalidTransition):
        change(id, not_before=LATER)
    assert not list(audit())


def test_a_retry_is_not_due_before_the_time(agent: Agent) -> None:
    id = make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    change(id, not_before=LATER)
    assert Task.objects.get(pk=id).due_at == LATER
    assert claim(agent, now=NOW + MINUTE).next_due_at == LATER
    task_actions.retry_now([id], stamp=Stamp(SYSTEM, NOW + MINUTE))
    assert Task.objects.get(pk=id).not_before is None
    change(id, not_before=LATER + MINUTE)
    change(id, not_before=LATER)
    assert Task.objects.get(pk=id).due_at == LATER
    assert claim(agent, now=LATER).rows[0]["id"] == id


def test_the_end_of_a_breaker_does_not_end_the_wait(agent: Agent) -> None:
    id = make_task(agent)
    breaker_actions.trip([agent], stamp=Stamp(SYSTEM, NOW))
    assert claim(agent, task=id).reason == "breaker_open"
    assert state_of(id) == (S.BLOCKED, BlockedReason.BREAKER_OPEN)
    change(id, not_before=LATER)
    breaker_actions.reset([agent], stamp=Stamp(SYSTEM, NOW))
    assert (unblock(NOW), state_of(id)) == (0, (S.BLOCKED, BlockedReason.NOT_BEFORE))


def test_a_start_names_the_time(agent: Agent) -> None:
    id = make_task(agent, not_before=LATER)
    with pytest.raises(InvalidTransition, match="The task starts at 2026-11-21T12:10:00Z") as found:
        claim(agent, task=id)
    assert found.value.more["current"] == S.BLOCKED


def test_the_longest_wait_is_bounded(agent: Agent) -> None:
    with pytest.raises(Invalid, match="at most 366 days ahead"):
        make_task(agent, not_before=NOW + timedelta(days=400))


def test_an_empty_claim_waits_no_longer_than_until_the_time(agent: Agent) -> None:
    soon = NOW + timedelta(seconds=7)
    make_task(agent, not_before=soon)
    Agent.objects.update(last_worked_at=NOW - timedelta(hours=1))
    assert claim(agent).retry_after_s <= 7
    # The clock has not seen it yet.
    assert claim(agent, now=LATER).retry_after_s == 1


# ---- a plan


def test_a_plan_holds_its_tasks_back(agent: Agent) -> None:
    plan = imported({}, {}, not_before=TEXT).plan
    assert plan.not_before == LATER
    empty = claim(agent)
    assert (empty.rows, empty.reason, empty.next_due_at) == ([], "no_task", LATER)
    assert claim(agent, limit=5).rows == []
    with pytest.raises(InvalidTransition, match="The task's plan starts at 2026-11-21T12:10:00Z"):
        claim(agent, task=task("03-01:task-1").pk)
    other = make_task(agent)
    assert [row["id"] for row in claim(agent, limit=5).rows] == [other]
    assert len(claim(agent, limit=5, now=LATER).rows) == 2


def test_a_person_moves_the_time_of_a_plan(agent: Agent) -> None:
    plan = imported({}).plan
    stamp = Stamp(SYSTEM, NOW)
    plan = plan_editing.change(plan.pk, not_before=LATER, version=plan.version, stamp=stamp)
    assert claim(agent).rows == []
    plan_editing.change(plan.pk, not_before=NOW, version=plan.version, stamp=stamp)
    assert len(claim(agent).rows) == 1


def test_a_paused_plan_is_not_said_to_start(agent: Agent) -> None:
    plan = imported({}, {"not_before": TEXT}, not_before=TEXT).plan
    plan_editing.pause([plan.pk], stamp=Stamp(SYSTEM, NOW))
    assert (claim(agent).reason, claim(agent).next_due_at) == ("plan_paused", None)


# ---- plan files


@pytest.mark.parametrize(
    "text",
    [
        '{"ref": "03-01", "agent": "coder", "not_before": "2026-11-21T13:10:00+01:00",'
        ' "exclusive_files": true, "tasks": [{"not_before": "2026-11-21T12:10:00Z"}]}',
        "ref: 03-01\nagent: coder\nnot_before: 2026-11-21T12:10:00Z\nexclusive_files: true\n"
        "tasks:\n- not_before: 2026-11-21T13:10:00+01:00\n",
        '<plan ref="03-01" agent="coder" not_before="2026-11-21T12:10:00Z"'
        ' exclusive_files="true"><task not_before="2026-11-21T12:10:00Z"><name>x</name></task>'
        "</plan>",
        "---\nref: 03-01\nagent: coder\nnot_before: 2026-11-21T12:10:00Z\nexclusive_files: true\n"
        '---\n<task not_before="2026-11-21T12:10:00Z"><name>x</name></task>\n',
    ],
    ids=["json", "yaml", "xml", "markdown"],
)
def test_a_plan_file_has_the_times(text: str) -> None:
    file = planfile.parse(text.encode()).plan
    assert (file.not_before, file.exclusive_files) == (LATER, True)
    assert file.tasks[0].not_before == LATER
    assert (file.source["not_before"], file.tasks[0].source["not_before"]) == (TEXT, TEXT)


@pytest.mark.parametrize("text", ["tomorrow", "2026-11-21", "2026-11-21T12:10:00"])
def test_a_plan_file_needs_a_time_with_its_zone(text: str) -> None:
    with pytest.raises(Refusal, match="a time with its zone"):
        planfile.canonical({"ref": "03-01", "agent": "a", "not_before": text, "tasks": [{}]})


def test_a_plan_file_without_them_is_as_before() -> None:
    source = planfile.canonical({"ref": "03-01", "agent": "a", "tasks": [{}]}).source
    assert not {"not_before", "exclusive_files"} & {*source, *source["tasks"][0]}
