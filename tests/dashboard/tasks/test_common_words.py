"""Words that many tasks have: the same tasks, newest first, read as far as a page needs."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import Client

from dashboard.completion.lists import count_task_states
from dashboard.completion.sources import Typed
from dashboard.lists.pagination import PAGE
from dashboard.tasks.filters import parse
from dashboard.tasks.listing import common_words, counts, order
from ledger import search_words
from ledger.models import Agent, Project, Task
from ledger.states import TaskState
from tests.dashboard.seen import words
from tests.dashboard.worked import enqueued, failed, make_task
from tests.factories import make_agent

URL = "/tasks/"
DONE = 120


@pytest.fixture
def world(agent: Agent, now: datetime) -> list[UUID]:
    """Return the ids of the tasks with the word, most of them finished."""
    title = "Repair the importer"
    other = make_agent("codex")
    for state in (TaskState.ESCALATED, TaskState.RUNNING, TaskState.ABORTED):
        make_task(state, title, agent=agent, now=now)
        make_task(state, "Rest", agent=agent, now=now)
    make_task(TaskState.FAILED, "Rest", agent=agent, now=now, why={"message": "no importer here"})
    done = [enqueued(agent if n % 3 else other, f"Step {n} of it", now=now) for n in range(DONE)]
    Task.objects.filter(pk__in=done).update(state=TaskState.DONE, completed_at=now)
    Task.objects.filter(pk__in=done[::2]).update(title=title)
    retried = enqueued(agent, "Rest", now=now)
    failed(agent, retried, now=now, message="the importer is away")
    with connection.cursor() as cursor:
        text = search_words.TASK_TEXT("t")
        cursor.execute(
            f"insert into ledger_taskwords select t.id, {text} from ledger_task t"
            " on conflict do nothing"  # an update has written them
        )
    enqueued(agent, title, now=now)  # has no words yet
    return [task.pk for task in Task.objects.filter(search_words.match_task("importer"))]


def walk(sort: str) -> list[Any]:
    """Return the pages of a list, there and back, and what stands beside each task."""
    found: list[Any] = []
    for text in ("importer", "agent:codex repair importer", "state:failed,escalated importer"):
        query = parse(text)
        page = first = order.list_ids(query, None, sort, before=None, after=None)
        for _ in range(20):
            if len(page) <= PAGE:
                break
            page = order.list_ids(query, None, sort, before=page[PAGE - 1], after=None)
            back = order.list_ids(query, None, sort, before=None, after=page[0])
            found += [page, back]
        found += [first]
        for task in Task.objects.filter(pk__in=first[::8]).order_by("pk"):
            beside = order.find_beside_task(query, None, sort, task)
            found.append((beside.previous, beside.next))
        found.append(list(order.order_all(query, None, sort).values_list("pk", flat=True)))
    return found


@pytest.mark.parametrize("most_walked", [3, 50])
def test_a_list_by_creation_is_the_same_however_common_a_word_is(
    world: list[UUID], monkeypatch: pytest.MonkeyPatch, most_walked: int
) -> None:
    """It is the order without another one, and its pages have every task that has the word."""
    newest_first, oldest_first = walk("-created"), walk("created")
    monkeypatch.setattr(common_words, "MOST_WALKED", most_walked)
    monkeypatch.setattr(common_words, "COUNT_CAP", 0)
    assert walk("") == walk("-created") == newest_first
    assert walk("created") == oldest_first
    pages = newest_first[2][:PAGE] + newest_first[0]
    assert pages == sorted(world, reverse=True) and len(world) == DONE // 2 + 6


def test_a_page_and_its_counts_look_for_a_word_in_a_limited_number_of_tasks(
    world: list[UUID],
) -> None:
    """Also where no task has it. Each reads the words of a task once, or not at all."""
    query, most = parse("missing"), 30
    assert max(count_reads(build(order.walk)(query, None, "-created", None, None, most))) == most
    assert max(count_reads(build(counts.group_newest_by_agent)(query, None, most))) == most
    of_states = count_reads(build(counts.count_newest_by_state)(query, None, most))
    assert max(of_states) == most and sum(of_states) < most + 30


def count_reads(rows: QuerySet[Any]) -> list[int]:
    """Return how often each node of a plan reads words of tasks."""
    with connection.cursor() as cursor:
        text, values = rows.query.sql_with_params()
        cursor.execute(f"explain (analyze, format json) {text}", values)
        plans = [cursor.fetchone()[0][0]["Plan"]]
    for plan in plans:
        plans += plan.get("Plans", [])
    return [
        plan["Actual Loops"] for plan in plans if plan.get("Relation Name") == "ledger_taskwords"
    ]


def build(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that builds the query."""
    built: Callable[..., Any] = fetch.__wrapped__  # type: ignore[attr-defined]
    return built


def test_counts_are_the_same_and_stop_at_the_newest(
    world: list[UUID], monkeypatch: pytest.MonkeyPatch, browser: Client, project: Project
) -> None:
    texts = ("repair importer", "agent:codex importer")
    rare = [read_counts(text) for text in texts]
    assert counts.count_tasks(parse("importer"), None).total == len(world)
    assert "of 66" in words(browser.get(URL, {"q": "importer"}))
    monkeypatch.setattr(common_words, "COUNT_CAP", 0)
    assert [read_counts(text) for text in texts] == rare
    monkeypatch.setattr(common_words, "MOST_COUNTED", 12)
    query = parse("importer")
    found = counts.count_tasks(query, None)
    assert found.states["done"] == 6 and found.states["escalated"] == 1 and found.cut == {"done"}
    assert found.is_cut(query) and not found.is_cut(parse("state:escalated,failed importer"))
    page = words(browser.get(URL, {"q": "importer", "sort": "agent"}))
    assert "All 12+" in page and "Done 6+" in page and "Needs you 1 " in page
    assert "First 40 of" not in page and "Filter to at most 10,000 tasks" in page
    assert "coder 6+" in page and "codex 1+" in page
    typed = count_task_states(Typed("state", "", "importer", None, None))
    assert typed["done"] is None and typed["needs-you"] == typed["running"] == 1


def read_counts(text: str) -> tuple[Any, ...]:
    found = counts.count_tasks(parse(text), None)
    return {state: n for state, n in found.states.items() if n}, found.agents, found.cut
