"""docs/plans.md: its example can be imported, and its tables name what the reader knows."""

import re

import pytest
from django.conf import settings

from ledger import planfile
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Task
from ledger.planfile.canonical import PLAN_KEYS, TASK_KEYS
from ledger.plans import import_writer
from ledger.plans.import_diff import ImportOptions
from tests.factories import NOW
from tests.ledger.plans.test_import_writer import imported

pytestmark = pytest.mark.django_db
GUIDE = (settings.BASE_DIR / "docs" / "plans.md").read_text()


def test_the_example_can_be_imported(agent: Agent) -> None:
    text = GUIDE.partition("```yaml\n")[2].partition("```")[0]
    imported({}, {}, {}, ref="02-05")
    read = planfile.parse(text.encode(), media="application/yaml")
    done = import_writer.import_plan(
        agent.project, read.plan, options=ImportOptions(register=True), stamp=Stamp(SYSTEM, NOW)
    )
    assert [row["need_refs"] for row in done.tasks] == [
        ["02-05:task-1", "02-05:task-2", "02-05:task-3"],
        ["03-01:task-1"],
        ["02-05:task-3", "03-01:task-1", "03-01:task-2"],
    ]
    assert Task.objects.filter(plan=done.plan, state="blocked").count() == 3


def test_the_checklist_can_be_imported() -> None:
    text = GUIDE.partition("<!-- file: checklist.md -->\n```markdown\n")[2].partition("\n```\n")[0]
    read = planfile.parse(text.encode(), media="text/markdown", agent="coder", ref="04-01")
    one, two = read.plan.tasks
    assert read.plan.objective == "Answer every search within 100 ms"
    assert one.payload["files"] == ["src/index.py"] and "Make it pass" in one.payload["action"]
    assert one.payload["verify"]["proposed_command"] == "pytest tests/test_index.py"
    assert (two.needs, two.payload["done"]) == (
        ("04-01:task-1",),
        ["No query is slower than before"],
    )


def test_the_plan_of_the_demo_can_be_imported() -> None:
    text = (settings.BASE_DIR / "examples" / "demo_plan.yaml").read_bytes()
    assert len(planfile.parse(text, media="application/yaml").plan.tasks) == 12


@pytest.mark.parametrize(("table", "known"), [("of the plan", PLAN_KEYS), ("of a task", TASK_KEYS)])
def test_the_tables_name_every_key(table: str, known: tuple[str, ...]) -> None:
    rows = GUIDE.partition(f"| {table} |")[2].partition("\n\n")[0]
    told = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", rows, re.M))))
    assert told == set(known)
