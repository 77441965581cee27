"""Tasks of a project whose files overlap do not run at once, and none of them starves."""

from datetime import timedelta
from typing import Any

import pytest

from ledger.database import server_time
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Breaker, Plan, Project, Task
from ledger.plans import editing as plan_editing
from ledger.pools import membership
from ledger.tasks import exclusive_files
from ledger.tasks.exclusive_files import find_holder
from retries import sweeps
from retries.policies.editing import change_policies
from tests.factories import NOW, make_agent, make_project
from tests.ledger.plans.test_import_writer import imported, task
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.retries.test_exclusive_files import finish, of, overlap, refs

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def switch(scope: str, *, project: Project | None = None) -> None:
    project = project or Project.objects.get(name="default")
    change_policies(project, {"exclusive_files": scope}, stamp=Stamp(SYSTEM, NOW))


# ---- which tasks


def test_tasks_of_two_plans_wait_for_each_other(agent: Agent) -> None:
    switch("plans")
    imported(of("a"), of("b"))
    imported(of("a"), ref="03-02")
    alone = make_task(agent, payload={"files": ["a"]})
    first = claim(agent)
    assert refs(first) == ["1"]
    assert find_holder(task("03-02:task-1").pk)["ref"] == "03-01:task-1"
    assert refs(claim(agent)) == ["2"]
    assert claim(agent).rows[0]["id"] == alone  # a task of no plan
    assert claim(agent).rows == []
    finish(agent, attempt_of(first))
    assert [row["ref"] for row in claim(agent).rows] == ["03-02:task-1"]


def test_tasks_of_no_plan_wait_for_each_other(agent: Agent) -> None:
    switch("all")
    first, second = (make_task(agent, payload={"files": ["src/"]}) for _ in range(2))
    imported(of("src/a"))
    found = claim(agent)
    assert found.rows[0]["id"] == first and claim(agent).rows == []
    finish(agent, attempt_of(found))
    assert claim(agent).rows[0]["id"] == second


def test_a_plan_can_say_otherwise(agent: Agent) -> None:
    switch("plans")
    imported(of("a"), of("a"), exclusive_files=False)
    imported(of("b"), of("b"), ref="03-02")
    assert [refs(claim(agent)) for _ in range(4)] == [["1"], ["2"], ["1"], []]
    changed = plan_editing.change(
        (plan := Plan.objects.get(ref="03-02")).pk,
        exclusive_files=False,
        version=plan.version,
        stamp=Stamp(SYSTEM, NOW),
    )
    switch("all")
    changed.refresh_from_db()
    assert not changed.exclusive_files
    assert refs(claim(agent)) == ["2"]


def test_a_plan_keeps_its_own_when_the_policy_is_off_again(agent: Agent) -> None:
    imported(of("a"), of("a"), exclusive_files=True)
    imported(of("b"), of("b"), ref="03-02")
    switch("plans")
    assert set(Task.objects.values_list("exclusive", flat=True)) == {True}
    switch("off")
    assert list(Plan.objects.order_by("ref").values_list("exclusive_files", flat=True)) == [
        True,
        False,
    ]
    assert [refs(claim(agent)) for _ in range(4)] == [["1"], ["1"], ["2"], []]


def test_another_project_is_not_changed(agent: Agent) -> None:
    other = make_agent("other", project=make_project("other"))
    switch("all")
    for each in (agent, agent, other, other):
        make_task(each, payload={"files": ["a"]})
    assert len(claim(agent, limit=9).rows) == 1
    assert len(claim(other, limit=9).rows) == 2


def test_a_claim_of_several_takes_none_of_two_plans_that_overlap(agent: Agent) -> None:
    switch("plans")
    imported(of("a"), of("b"))
    imported(of("b"), of("c"), ref="03-02")
    assert refs(claim(agent, limit=9)) == ["1", "2", "2"]


def test_the_clock_tells_the_tasks_that_a_switch_has_not_reached(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive_files, "BATCH", 2)
    ids = [make_task(agent, payload={"files": ["a"]}) for _ in range(5)]
    switch("all")
    marked = Task.objects.filter(exclusive=True)
    assert sorted(marked.values_list("pk", flat=True)) == ids[:2]
    assert sweeps.run("plans", now=NOW)["marked"] == 3
    assert marked.count() == 5
    assert "marked" not in sweeps.run("plans", now=NOW)
    # what was created with the setting of before, in a transaction that ended later
    Task.objects.filter(pk=ids[0]).update(exclusive=False)
    Project.objects.update(marks_files_from=exclusive_files.FIRST_ID)
    assert sweeps.run("plans", now=NOW)["marked"] == 1


# ---- who waits for whom


@pytest.fixture
def wide(agent: Agent) -> Task:
    """A task that needs all files has waited for two minutes; another agent's tasks need few."""
    other = make_agent("reviewer")
    exclusive = {"exclusive_files": True}
    imported(of("./"), *[of("a", agent="reviewer"), of("b", agent="reviewer")] * 2, **exclusive)
    first = claim(other)
    assert refs(first) == ["2"]
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=server_time.now())
    wait(found := task("03-01:task-1"), 2)
    return found


def wait(row: Task, minutes: float) -> None:
    Task.objects.filter(pk=row.pk).update(updated_at=server_time.now() - minutes * MINUTE)


def test_a_wide_task_keeps_its_place_before_tasks_of_other_agents(agent: Agent, wide: Task) -> None:
    other = Agent.objects.get(name="reviewer")
    assert claim(other).rows == []  # although b is free
    assert find_holder(task("03-01:task-3").pk)["ref"] == wide.ref
    finish(other, Task.objects.get(state="running").current_attempt)
    assert claim(other).rows == []
    assert refs(claim(agent)) == ["1"]


def test_a_task_of_higher_priority_goes_before_it(agent: Agent, wide: Task) -> None:
    Task.objects.filter(ref="03-01:task-3").update(priority=1)
    assert refs(claim(Agent.objects.get(name="reviewer"))) == ["3"]


@pytest.mark.parametrize(
    "why",
    ["new", "paused", "silent", "unseen", "limit", "breaker", "plan", "budget", "of plan", "turn"],
)
def test_a_task_that_can_not_start_keeps_no_place(agent: Agent, wide: Task, why: str) -> None:
    now = server_time.now()
    agents = Agent.objects.filter(pk=agent.pk)
    match why:
        case "new":
            wait(wide, 0.5)
        case "paused":
            agents.update(paused=True)
        case "silent":
            agents.update(last_seen_at=now - 3 * MINUTE)
        case "unseen":
            agents.update(last_seen_at=None)
        case "limit":
            agents.update(waits_until=now + MINUTE)
        case "breaker":
            Breaker.objects.create(agent=agent, state="open", opened_at=now, updated_at=now)
        case "plan":
            switch("plans")
            other = imported(of("./"), ref="03-00").plan
            Task.objects.filter(pk=wide.pk).update(plan=other, ref="03-00:task-9")
            Plan.objects.filter(pk=other.pk).update(paused_at=now)
        case "budget":
            Task.objects.filter(pk=wide.pk).update(spent_until=now + MINUTE)
        case "of plan":
            switch("plans")
            other = imported(of("./"), ref="03-00").plan
            Task.objects.filter(pk=wide.pk).update(plan=other, ref="03-00:task-9")
            Plan.objects.filter(pk=other.pk).update(spent_until=now + MINUTE)
        case "turn":
            wait(wide, 11)
    assert refs(claim(Agent.objects.get(name="reviewer"))) == ["3"]
    if why == "turn":
        wait(wide, 21)
        assert claim(Agent.objects.get(name="reviewer")).rows == []


@pytest.mark.parametrize("is_able", [True, False])
def test_a_pools_task_keeps_its_place_while_a_member_can_take_it(
    agent: Agent, wide: Task, is_able: bool
) -> None:
    pool = membership.create(
        "pool", members=[agent], project=agent.project, stamp=Stamp(SYSTEM, NOW)
    )
    Task.objects.filter(pk=wide.pk).update(agent=pool, pool=pool)
    Agent.objects.filter(pk=agent.pk).update(paused=not is_able)
    found = claim(Agent.objects.get(name="reviewer"))
    assert refs(found) == ([] if is_able else ["3"])


def test_a_due_retry_keeps_its_place_before_tasks_of_other_agents(agent: Agent) -> None:
    other = make_agent("reviewer")
    imported(of("a", "b"), *[of("a", agent="reviewer")] * 2, exclusive_files=True)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    retry = task("03-01:task-1")
    now = server_time.now()
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=now)
    Task.objects.filter(pk=retry.pk).update(due_at=now - 2 * MINUTE, updated_at=now - 9 * MINUTE)
    assert claim(other, now=now).rows == []
    assert refs(claim(agent, now=now)) == ["1"]


def test_no_two_tasks_wait_for_each_other(agent: Agent) -> None:
    """Of tasks that all overlap and have waited for long, one can start, whatever their order."""
    other = make_agent("reviewer")
    names, more = ("coder", "reviewer"), {"max_attempts": 9}
    tasks = [of("a", agent=name, priority=p, **more) for p in (0, 1) for name in names]
    imported(*tasks * 3, exclusive_files=True)
    for found in (claim(agent), claim(other)):
        for row in found.rows:
            fail(agent if row["agent_id"] == agent.pk else other, row["attempt_id"], now=NOW)
    now = server_time.now()
    Agent.objects.update(last_seen_at=now)
    Task.objects.update(updated_at=now - 2 * MINUTE)
    Task.objects.filter(state="retry").update(due_at=now - 2 * MINUTE)
    done = 0
    while row := next((row for each in (agent, other) for row in claim(each, now=now).rows), None):
        finish(agent if row["agent_id"] == agent.pk else other, row["attempt_id"])
        done += 1
    assert done == 12


# ---- bounds


def test_a_claim_looks_at_a_hundred_tasks_that_wait(agent: Agent) -> None:
    imported(*[of("a")] * 110, of("b"), {}, exclusive_files=True)
    first = claim(agent)
    assert refs(claim(agent)) == ["112"]  # it has no files
    assert claim(agent).rows == []
    finish(agent, attempt_of(first))
    assert refs(claim(agent)) == ["2"]
    Task.objects.filter(state="queued").exclude(ref="03-01:task-111").filter(
        ref__gte="03-01:task-2"
    ).update(state="skipped", completed_at=NOW)
    assert refs(claim(agent)) == ["111"]


@pytest.mark.parametrize(
    ("files", "other", "overlaps"),
    [
        ([f"src/{n}.py" for n in range(40)], "src/x.py", True),  # the folder counts
        ([f"src/{n}.py" for n in range(32)], "src/x.py", False),
        ([f"src/{n}.py" for n in range(40)], "lib/x.py", False),
        ([f"f{n}" for n in range(501)], "lib/x.py", True),
        (["a/" * 13 + "b"], "a/" * 13 + "c", True),
        (["a/" * 13 + "b"], "a/" * 11 + "c", False),
        ([f"{n}/{'x/' * 90}" for n in range(40)], "y", True),
        (["x" * 5000, "%/" * 3000], "y", False),
    ],
)
def test_many_and_deep_files_count_as_folders(files: list[str], other: str, overlaps: bool) -> None:
    assert overlap(files, [other]) == overlap([other], files) == overlaps


def test_the_api_switches_it(operator: Any, agent: Agent) -> None:
    sent = operator("PATCH", "/policies", {"exclusive_files": "plans"}, If_Match='"v1"')
    assert (sent.body["exclusive_files"], sent.body["version"]) == ("plans", 2)
    assert operator("GET", "/policies").body == sent.body
    wrong = operator("PATCH", "/policies", {"exclusive_files": "yes"}, If_Match='"v2"')
    assert wrong.status_code == 422
