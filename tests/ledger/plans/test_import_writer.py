"""Plans imported: all or nothing, the same one twice, merged, replaced, waited for."""

from typing import Any

import pytest

from ledger import planfile
from ledger.access.audit import audit
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, MissingNeed, Need, Plan, Project, Task
from ledger.plans import editing as plan_editing
from ledger.plans.import_diff import ImportOptions, ImportResult, PlanChanged
from ledger.states import TaskState
from ledger.tokens import TrustedCaller
from retries.attempts import finishing, report_fields
from retries.plans import importing
from tests.factories import NOW
from tests.retries.moves import attempt_of, claim, kinds

pytestmark = pytest.mark.django_db
S = TaskState


def plan_file(*tasks: dict[str, Any], ref: str = "03-01", **more: Any) -> planfile.PlanFile:
    listed = list(tasks) or [{}, {"needs": "task-1"}]
    return planfile.canonical({"ref": ref, "agent": "coder", "tasks": listed} | more)


def imported(*tasks: dict[str, Any], now: Any = NOW, **more: Any) -> ImportResult:
    names = ("mode", "dry_run", "register", "allow_missing_needs")
    options = ImportOptions(**{name: more.pop(name) for name in names if name in more})
    project = Project.objects.get(name="default")
    return importing.import_plan(
        project, plan_file(*tasks, **more), options=options, stamp=Stamp(SYSTEM, now)
    )


def task(ref: str) -> Task:
    return Task.objects.current().get(ref=ref)


def states(plan: str = "03-01") -> dict[str, str]:
    rows = Task.objects.current().filter(plan__ref=plan)
    return {row.ref.partition(":")[2]: row.state for row in rows if row.ref}


def do(agent: Agent, ref: str, *, now: Any = NOW) -> None:
    """Claim this task and report it done."""
    found = claim(agent, task=task(ref).pk, now=now)
    finishing.finish_attempt(
        attempt_of(found),
        report_fields.Report(),
        caller=TrustedCaller(SYSTEM, agent=agent),
        now=now,
    )


def test_a_plan_is_made_with_its_tasks(agent: Agent) -> None:
    """S1.3, S1.32: refs, runs, no delay, and a person at the end."""
    done = imported(
        {"title": "One", "action": "do it", "verify": {"command": "npm test"}},
        {"needs": ["task-1"], "max_attempts": 5},
        title="Planner ids",
    )
    assert not done.unchanged and done.diff.added == ["03-01:task-1", "03-01:task-2"]
    plan, first, second = Plan.objects.get(), task("03-01:task-1"), task("03-01:task-2")
    assert (plan.ref, plan.title, plan.run, plan.state) == ("03-01", "Planner ids", 1, "active")
    assert (first.state, first.run, first.type, first.on_exhausted) == (
        S.QUEUED,
        1,
        "auto",
        "escalate",
    )
    assert (first.base_delay_ms, first.max_attempts) == (0, 3)
    assert first.payload["verify"] == {"command": "npm test", "source": "declared"}
    assert (second.state, second.blocked_reason, second.unmet) == (S.BLOCKED, "dependency", 1)
    assert second.max_attempts == 5
    assert [row["ref"] for row in done.tasks] == ["03-01:task-1", "03-01:task-2"]
    assert kinds(plan.pk) == ["plan.imported"] and kinds(first.pk) == ["task.created"]
    assert (
        plan_editing.count_tasks(plan)["queued"] == 1
        and plan_editing.count_tasks(plan)["done"] == 0
    )
    do(agent, "03-01:task-1")
    assert states() == {"task-1": S.DONE, "task-2": S.QUEUED}
    assert list(audit()) == []


def test_the_same_plan_again_changes_nothing(agent: Agent) -> None:
    first = imported()
    events = Event.objects.count()
    again = imported(mode="replace")
    assert again.unchanged and again.plan.pk == first.plan.pk
    assert again.plan.version == first.plan.version and Event.objects.count() == events


def test_another_content_needs_a_mode(agent: Agent) -> None:
    imported()
    with pytest.raises(PlanChanged) as refused:
        imported({"ref": 1, "title": "new"}, {"ref": 2, "needs": "task-1"}, {})
    assert refused.value.more["diff"]["added"] == ["03-01:task-3"]
    assert refused.value.more["diff"]["changed"] == {"03-01:task-1": ["title"]}
    assert Task.objects.count() == 2


def test_merge_adds_and_updates_what_nobody_has_begun(agent: Agent) -> None:
    imported({}, {"needs": "task-1"}, {}, {})
    do(agent, "03-01:task-1")
    claim(agent, task=task("03-01:task-3").pk)
    ids = {row.ref: row.pk for row in Task.objects.all()}
    done = imported(
        {"ref": 1, "title": "one"},
        {"ref": 2, "title": "two", "priority": 7},
        {"ref": 3, "title": "three"},
        {"ref": "task-5", "needs": ["task-1", "task-2"]},
        mode="merge",
    )
    assert done.diff.changed == {"03-01:task-2": ["title", "priority", "needs"]}
    assert done.diff.untouched == ["03-01:task-1", "03-01:task-3"]
    assert (done.diff.added, done.diff.left) == (["03-01:task-5"], ["03-01:task-4"])
    two, five = task("03-01:task-2"), task("03-01:task-5")
    assert (two.pk, two.title, two.priority) == (ids["03-01:task-2"], "two", 7)
    assert task("03-01:task-1").title == "" and task("03-01:task-4").state == S.QUEUED
    assert (five.state, five.unmet) == (S.BLOCKED, 1)
    assert kinds(done.plan.pk) == ["plan.imported", "plan.updated"]
    assert list(audit()) == []


def test_merge_moves_what_now_waits_or_waits_no_more(agent: Agent) -> None:
    imported({}, {"needs": "task-1"}, {})
    imported({}, {}, {"needs": "task-1"}, mode="merge")
    assert states() == {"task-1": S.QUEUED, "task-2": S.QUEUED, "task-3": S.BLOCKED}
    do(agent, "03-01:task-1")
    assert states()["task-3"] == S.QUEUED
    assert list(audit()) == []


def test_replace_aborts_what_is_missing(agent: Agent) -> None:
    imported({}, {}, {})
    do(agent, "03-01:task-2")
    done = imported({}, mode="replace")
    assert (done.diff.aborted, done.diff.left) == (["03-01:task-3"], ["03-01:task-2"])
    assert states() == {"task-1": S.QUEUED, "task-2": S.DONE, "task-3": S.ABORTED}


def test_a_dry_run_keeps_nothing(agent: Agent) -> None:
    imported()
    before = Event.objects.count()
    done = imported({}, {}, {}, dry_run=True, mode="replace")
    assert done.diff.added == ["03-01:task-3"] and len(done.tasks) == 3
    assert done.diff.changed == {"03-01:task-2": ["needs"]}
    assert Task.objects.count() == 2 and Event.objects.count() == before
    assert imported().unchanged


def test_unknown_agents(agent: Agent) -> None:
    from ledger.agents import UnknownAgent

    with pytest.raises(UnknownAgent) as refused:
        imported({"agent": "codr"}, {"agent": "coder"}, {"agent": "codr"})
    assert refused.value.more["nearest"] == ["coder"]
    assert [each["pointer"] for each in refused.value.more["errors"]] == [
        "/tasks/0/agent",
        "/tasks/2/agent",
    ]
    assert not Plan.objects.exists()
    imported({"agent": "codr"}, register=True)
    assert Agent.objects.filter(name="codr").exists()


def test_needs_between_plans(agent: Agent) -> None:
    """`02-05` is every task that no other task of the plan needs; `02-05:task-1` one task of it."""
    imported({}, {"needs": "task-1"}, {"needs": "task-1"}, ref="02-05")
    imported(
        {"needs": "02-05"}, {"needs": "02-05:task-1"}, {"needs": "task-1"}, needs=["02-05:task-2"]
    )
    needed = Need.objects.filter(task__ref="03-01:task-1").values_list("need__ref", flat=True)
    assert sorted(map(str, needed)) == ["02-05:task-2", "02-05:task-3"]
    needed = Need.objects.filter(task__ref="03-01:task-2").values_list("need__ref", flat=True)
    assert sorted(map(str, needed)) == ["02-05:task-1", "02-05:task-2"]
    for n in (1, 2, 3):
        do(agent, f"02-05:task-{n}")
    assert states() == {"task-1": S.QUEUED, "task-2": S.QUEUED, "task-3": S.BLOCKED}


def test_what_is_not_imported_yet(agent: Agent) -> None:
    from ledger.planfile.model import UnknownNeed

    with pytest.raises(UnknownNeed) as refused:
        imported({}, {"needs": ["02-05", "02-06:task-1"]})
    assert [each["pointer"] for each in refused.value.more["errors"]] == [
        "/tasks/1/needs/0",
        "/tasks/1/needs/1",
    ]
    done = imported({"needs": ["02-05", "02-06:task-1"]}, allow_missing_needs=True)
    assert len(done.warnings) == 2 and task("03-01:task-1").unmet == 2
    assert states() == {"task-1": S.BLOCKED} and list(audit()) == []
    imported({}, {}, ref="02-05")
    assert task("03-01:task-1").unmet == 3 and MissingNeed.objects.count() == 1
    imported({}, ref="02-06")
    assert list(audit()) == []
    for ref in ("02-05:task-1", "02-05:task-2", "02-06:task-1"):
        assert states() == {"task-1": S.BLOCKED}
        do(agent, ref)
    assert states() == {"task-1": S.QUEUED} and not MissingNeed.objects.exists()
    assert list(audit()) == []


def test_no_circle_through_other_plans(agent: Agent) -> None:
    from ledger.planfile.model import DependencyCycle

    imported({"needs": "02-05"}, allow_missing_needs=True)
    with pytest.raises(DependencyCycle) as refused:
        imported({}, {"needs": "03-01"}, ref="02-05")
    assert set(refused.value.more["cycle"]) == {"03-01:task-1", "02-05:task-2"}
    assert not Plan.objects.filter(ref="02-05").exists()
    assert task("03-01:task-1").unmet == 1


def test_secrets_in_a_plan_are_masked(agent: Agent) -> None:
    imported(
        {"action": "use AKIAIOSFODNN7EXAMPLE1 password=hunter2hunter2"},
        objective="password=abcdefghij1klmnop",
    )
    plan = Plan.objects.get()
    assert "hunter2" not in str(plan.source) + str(task("03-01:task-1").payload)
    assert "abcdefghij1klmnop" not in plan.objective + str(plan.source)
