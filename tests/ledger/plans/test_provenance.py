"""What became of each line is stored with each version of a plan, and the audit checks it."""

from typing import Any

import pytest

from ledger.access.audit import audit
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Event, Plan
from ledger.plans.editing import record_event
from tests.factories import NOW
from tests.ledger.plans.test_identity import create, listed, merge
from tests.ledger.plans.test_import_writer import do, imported

pytestmark = pytest.mark.django_db


def accounts() -> list[dict[str, Any]]:
    """Return what each version's event says of its file, oldest first."""
    events = Event.objects.filter(kind__in=["plan.imported", "plan.updated"]).order_by("id")
    return [event.data["file"] for event in events]


def test_each_version_says_what_became_of_its_lines(agent: Agent) -> None:
    create("# P\n\n- [ ] A\n  - [ ] one\n  - [ ] two\n- [x] D\n\n## Quality gates\n- [ ] lint\n")
    merge("# P\n\n- [ ] Z\n- [ ] A\n")
    merge("# P\n\n- [ ] Z\n", mode="replace")
    assert accounts() == [
        {"lines": [[3, 3, "task", 1], [4, 5, "step", 1], [6, 6, "done", None], [9, 9, "check", 1]]},
        {"lines": [[3, 3, "task", 2], [4, 4, "task", 1]]},
        {"lines": [[3, 3, "task", 2]], "dropped": {"aborted": [1]}},
    ]
    assert list(audit()) == []


def test_a_format_without_lines_is_accounted_for_by_its_tasks(agent: Agent) -> None:
    imported({"title": "A"}, {"title": "B"})
    imported({"title": "A"}, mode="merge")
    assert accounts() == [
        {"lines": [[0, 0, "task", 1], [0, 0, "task", 2]]},
        {"lines": [[0, 0, "task", 1]], "dropped": {"left": [2]}},
    ]
    assert list(audit()) == []


def test_the_same_content_on_other_lines_is_found_there(agent: Agent) -> None:
    """Nothing but the lines changes, and they name the stored tasks."""
    create(listed("A", "B"))
    merge(listed("Z", "A", "B"))
    version = Plan.objects.get().version
    text = "# P\n\nMore prose.\n\n" + listed("Z", "A", "B").partition("\n\n")[2]
    done = merge(text)
    assert done.unchanged and Plan.objects.get().version == version
    assert [(line.line, line.ref) for line in done.lines] == [
        (5, "03-01:task-3"),
        (6, "03-01:task-1"),
        (7, "03-01:task-2"),
    ]
    stored = Plan.objects.get().source["lines"]
    assert [line[:4] for line in stored] == [
        [5, "task", "03-01:task-3", "Z"],
        [6, "task", "03-01:task-1", "A"],
        [7, "task", "03-01:task-2", "B"],
    ]


def test_the_audit_names_what_was_dropped(agent: Agent) -> None:
    create(listed("A", "B", "C"))
    do(agent, "03-01:task-1")
    merge(listed("A", "C"))
    assert list(audit()) == []
    plan = Plan.objects.get()
    lost = {"lines": [[3, 3, "task", 1], [4, 4, "task", 9]]}
    record_event(plan, Kind.PLAN_UPDATED, stamp=Stamp(SYSTEM, NOW), data={"file": lost})
    assert sorted(map(str, audit())) == [
        f"file of {plan.pk}: line 4 of its file became 03-01:task-9, which is not there",
        f"task of a file {plan.pk}: 03-01:task-3 was open in its file, and tenfour dropped it "
        "without a trace",
    ]
