"""The orders of the Tasks list, its pages, its counts and its exports."""

import csv
import io
import json
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.test import Client

from dashboard.lists import sorting
from dashboard.tasks.filters import parse
from dashboard.tasks.listing import order
from ledger.models import Agent, Task
from ledger.states import TaskState
from tests.dashboard import seen
from tests.dashboard.seen import html, words
from tests.dashboard.worked import enqueued, make_task
from tests.factories import make_agent

pytestmark = pytest.mark.django_db

URL = "/tasks/"
MINUTE = timedelta(minutes=1)
SORTS = ["", "-task", "key", "agent", "-attempts", "changed", "-created"]
rows = partial(seen.rows, of="task")


@pytest.fixture
def many(agent: Agent, now: datetime) -> list[str]:
    """Tasks in all states, more than two pages, many alike in each column; by state, newest first."""
    other = make_agent("codex")
    made = [make_task(state, f"A {state}", agent=agent, now=now) for state in TaskState]
    for number in range(85):
        enqueued(other, f"{'aB'[number % 2]} {number % 7}", now=now, type=f"t{number % 3}")
    assert len(made) == 9
    tasks = Task.objects.in_bulk()
    for number, task in enumerate(tasks.values()):
        Task.objects.filter(pk=task.pk).update(updated_at=now - number % 5 * MINUTE)
    ranked = sorted(tasks.values(), key=lambda task: task.pk, reverse=True)
    return [str(task.pk) for task in sorted(ranked, key=lambda task: order.RANKS[task.state])]


def test_the_list_opens_with_what_needs_someone(browser: Client, many: list[str]) -> None:
    first = browser.get(URL)
    assert rows(first) == many[:40]
    assert "Needs you" in words(first) and f"First 40 of {len(many)}" in words(first)


@pytest.mark.parametrize("sort", SORTS)
def test_pages_of_every_order_join_and_lead_back(
    browser: Client, many: list[str], sort: str
) -> None:
    """All rows, each once, in the order of one sorted read; the same backward."""
    query = parse("-state:aborted")
    wanted = [str(pk) for pk in order.order_all(query, None, sort).values_list("pk", flat=True)]
    seen_rows: list[str] = []
    page = rows(browser.get(URL, {"q": query.text, "sort": sort}))
    while page:
        seen_rows += page
        page = rows(browser.get(URL, {"q": query.text, "sort": sort, "before": page[-1]}))
    assert seen_rows == wanted and len(wanted) == len(many) - 1
    back = browser.get(URL, {"q": query.text, "sort": sort, "after": wanted[80]})
    assert rows(back) == wanted[40:80]
    assert (
        rows(browser.get(URL, {"q": query.text, "sort": sort, "after": wanted[3]})) == wanted[:40]
    )


def test_a_column_is_sorted_by_a_click(browser: Client, many: list[str]) -> None:
    page = html(browser.get(URL, {"sort": "-changed"}))
    assert 'aria-sort="descending"' in page and "sort=changed" in page
    assert 'sort="state"' not in page
    strange = browser.get(URL, {"sort": "payload"})
    assert rows(strange) == many[:40]


def test_long_lists_are_not_sorted_by_a_column(
    browser: Client, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "SORTABLE", 50)
    page = browser.get(URL, {"sort": "task"})
    assert rows(page) == many[:40] and "Filter to at most 10,000 tasks" in words(page)
    assert rows(browser.get(URL, {"sort": "created"})) == sorted(many)[:40]


def test_optional_columns(browser: Client, many: list[str]) -> None:
    assert "Priority</a>" not in html(browser.get(URL)).replace(" </a>", "</a>")
    page = html(browser.get(URL, {"column": ["priority", "type", "nonsense"]}))
    assert "sort=-priority" in page and "sort=type" in page and ">nonsense" not in page


def test_an_export_is_exactly_the_list(browser: Client, agent: Agent, now: datetime) -> None:
    """Same filter, same order, all pages; no cell runs as a formula."""
    for number in range(50):
        enqueued(agent, f"one {number}", now=now)
    enqueued(agent, '=HYPERLINK("x")', now=now)
    failing = {"message": 'line one\nline, "two"'}
    make_task("failed", "one ‮ too", agent=agent, now=now, why=failing)
    for query in ({"q": "one"}, {"q": "one", "sort": "-created"}, {"q": "-state:failed"}):
        listed = rows(browser.get(URL, query))
        listed += rows(browser.get(URL, query | {"before": listed[-1]}))
        text = read(browser, "csv", query)
        table = list(csv.DictReader(io.StringIO(text)))
        assert [row["id"] for row in table] == listed
        lines = [json.loads(line) for line in read(browser, "jsonl", query).splitlines()]
        assert [line["id"] for line in lines] == listed
        assert [line["title"] for line in lines] == [
            row["title"].removeprefix("'") for row in table
        ]
    assert "\"'=HYPERLINK(" in text


def read(browser: Client, form: str, query: dict[str, str]) -> str:
    response = browser.get(f"{URL}export/{form}/", query)
    assert response.status_code == 200 and "attachment" in response["Content-Disposition"]
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
