"""Plans and tasks declare budgets in their file; an import sets them."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from ledger import planfile
from ledger.database import sql
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Budget, Plan, Project
from ledger.plans.import_diff import ImportOptions
from retries.budgets import counting
from retries.plans import importing
from tests.conftest import Api
from tests.elsewhere import blocked
from tests.factories import NOW
from tests.ledger.api.test_instructions import problem
from tests.retries.api.calls import claim
from tests.retries.budgets.spending import set_budget
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db

YAML = """ref: 03-01
agent: coder
budget: {usd: 5, period: day, at_limit: stop, zone: Europe/Berlin}
tasks:
  - title: Write it
    action: Write
    budget: 500,000 tokens
  - title: Use it
    action: Use
"""
XML = """<plan ref="03-01" agent="coder" budget="2M tokens"><tasks>
<task id="1" budget="$5"><name>Write it</name><action>Write</action></task>
<task id="2"><name>Use it</name><action>Use</action></task>
</tasks></plan>"""
MARKDOWN = """---
ref: 03-01
agent: coder
budget: 5 USD
---
- [ ] Write it
- [ ] Use it
"""


MEDIA = {"yaml": "application/yaml", "xml": "application/xml", "markdown": "text/markdown"}


@pytest.fixture
def send(api: Any, agent: Any) -> Any:
    def post(text: str, *, kind: str = "orchestrator", media: str = "yaml", query: str = "") -> Any:
        caller: Api = api(kind)
        path = f"/plans?mode=merge{query}"
        return caller("POST", path, text, Content_Type=MEDIA[media])

    return post


def listed() -> list[tuple[str, str, Decimal, str, str]]:
    rows = Budget.objects.order_by("created_at", "pk").select_related("task")
    return sorted((b.scope, b.unit, b.amount, b.period, b.at_limit) for b in rows)


TASK = ("task", "tokens", Decimal(500_000), "total", "ask")


def test_each_format_declares_budgets(send: Any) -> None:
    assert send(YAML).status_code == 201
    assert listed() == [("plan", "usd", Decimal(5), "day", "stop"), TASK]
    assert Budget.objects.get(task=None).zone == "Europe/Berlin"
    assert Budget.objects.exclude(task=None).get().task.title == "Write it"


@pytest.mark.parametrize(
    ("text", "media", "expected"),
    [
        (XML, "xml", [("plan", "tokens", Decimal(2_000_000)), ("task", "usd", Decimal(5))]),
        (MARKDOWN, "markdown", [("plan", "usd", Decimal(5))]),
    ],
)
def test_xml_and_front_matter_have_amounts(
    send: Any, text: str, media: str, expected: list[Any]
) -> None:
    answer = send(text, media=media)
    assert answer.status_code == 201, answer.body
    assert [each[:3] for each in listed()] == expected


def test_the_same_file_again_changes_nothing_and_another_amount_is_synced(send: Any) -> None:
    send(YAML, kind="operator")
    versions = list(Budget.objects.order_by("pk").values_list("version", flat=True))
    assert send(YAML, kind="operator").body["unchanged"] is True
    assert list(Budget.objects.order_by("pk").values_list("version", flat=True)) == versions
    raised = YAML.replace("500,000", "600,000").replace("usd: 5", "usd: 7")
    answer = send(raised, kind="operator")
    assert answer.body["diff"]["changed"] == {"03-01:task-1": ["budget"]}
    assert [each[2] for each in listed()] == [Decimal(7), Decimal(600_000)]


def test_what_a_person_changed_stays_until_the_file_names_another_amount(send: Any) -> None:
    send(YAML, kind="operator")
    Budget.objects.filter(task=None).update(amount=50)
    assert send(YAML.replace("Use it", "Use it well"), kind="operator").status_code == 201
    assert Budget.objects.get(task=None).amount == 50


def test_a_budget_stays_when_the_file_names_none_any_more(send: Any) -> None:
    send(YAML, kind="operator")
    bare = "\n".join(line for line in YAML.split("\n") if "budget" not in line)
    assert send(bare, kind="operator").status_code == 201
    assert len(listed()) == 2


def test_a_producer_sets_budgets_and_does_not_change_them(send: Any) -> None:
    send(YAML)
    answer = send(YAML.replace("500,000", "900,000"))
    assert answer.status_code == 201
    assert answer.body["warnings"] == [
        "The budget of task Write it stays at 500,000 tokens: only people change budgets."
    ]
    assert TASK in listed()


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ("500,000 tokens", "500000"),
        ("500,000 tokens", "lots"),
        ("500,000 tokens", "0"),
        ("500,000 tokens", "{}"),
        ("500,000 tokens", "{tokens: 5, usd: 5}"),
        ("500,000 tokens", "{tokens: true}"),
        ("500,000 tokens", "{usd: .inf}"),
        ("500,000 tokens", "{tokens: 1.5}"),
        ("500,000 tokens", "{tokens: 5, perod: day}"),
        ("500,000 tokens", "{tokens: 5, period: week}"),
        ("500,000 tokens", "{tokens: 5, zone: Mars/Olympus}"),
        ("500,000 tokens", "[5]"),
        ("500,000 tokens", '"5 USD\\0"'),
        ("500,000 tokens", "{tokens: " + "9" * 400 + "}"),
        ("500,000 tokens", "x" * 100),
    ],
)
@pytest.mark.parametrize("query", ["", "&dry_run=true"])
def test_a_wrong_budget_is_refused_with_its_place(
    send: Any, given: str, pointer: str, query: str
) -> None:
    answer = send(YAML.replace(given, pointer), query=query)
    found = problem(answer, 422, "validation_error")
    assert found["errors"][0]["pointer"].startswith("/tasks/0/budget")
    assert not Plan.objects.exists() and not Budget.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_report_that_uses_up_the_project_does_not_deadlock_with_an_import(
    send: Any, agent: Agent, elsewhere: Any
) -> None:
    """The report holds budgets that the import waits for, and then marks the project."""
    assert send(YAML).status_code < 300
    plan = Plan.objects.get()
    budget = set_budget(agent, at_limit="stop")
    with transaction.atomic():
        sql.run(counting.LOCK, project=plan.project_id, plan=plan.pk, task=None)
        text = YAML.replace("usd: 5", "usd: 6").encode()
        changed = planfile.parse(text, media="application/yaml").plan
        options = ImportOptions(mode="merge", changes_budgets=True)
        stamp = Stamp(SYSTEM, NOW)
        other = elsewhere(
            lambda: importing.import_plan(agent.project, changed, options=options, stamp=stamp)
        )
        with blocked(other):
            free = Project.objects.select_for_update(no_key=True, nowait=True)
            assert free.get() == agent.project
            counting.refresh_stops([budget], now=NOW)
    other.result(PATIENCE_S)
    assert Budget.objects.get(plan=plan).amount == 6


def test_a_dry_run_sets_nothing(send: Any) -> None:
    assert send(YAML, query="&dry_run=true").status_code == 200
    assert listed() == []


def test_a_declared_budget_holds_its_task_back(send: Any, coder: Api) -> None:
    send(YAML.replace("500,000 tokens", "1000 tokens"))
    first = claim(coder)["data"][0]["attempt"]["id"]
    usage = {"usage": {"input_tokens": 1000}}
    assert coder("POST", f"/attempts/{first}/heartbeat", usage).body["stop_reason"] == "budget_used"
