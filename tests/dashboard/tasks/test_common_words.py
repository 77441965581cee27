"""Words that many tasks have: the same list, read as far as a page needs."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

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


def walk(monkeypatch: pytest.MonkeyPatch, *, common_from: int, most_walked: int) -> list[Any]:
    """Return the pages of a list, there and back, and what stands beside each task."""
    monkeypatch.setattr(common_words, "COUNT_CAP", common_from)
    monkeypatch.setattr(common_words, "MOST_WALKED", most_walked)
    found: list[Any] = []
    for text in ("importer", "agent:codex repair importer"):
        query = parse(text)
        page = first = order.list_ids(query, None, "", before=None, after=None)
        for _ in range(20):
            if len(page) <= PAGE:
                break
            page = order.list_ids(query, None, "", before=page[PAGE - 1], after=None)
            back = order.list_ids(query, None, "", before=None, after=page[0])
            found += [page, back]
        found += [first]
        for task in Task.objects.filter(pk__in=first[::8]).order_by("pk"):
            beside = order.find_beside_task(query, None, "", task)
            found.append((beside.previous, beside.next))
    return found


@pytest.mark.parametrize("most_walked", [3, 50])
def test_the_list_is_the_same_however_common_a_word_is(
    world: list[UUID], monkeypatch: pytest.MonkeyPatch, most_walked: int
) -> None:
    rare = walk(monkeypatch, common_from=10_000, most_walked=most_walked)
    assert set(world) >= set(rare[0]) and len(world) == DONE // 2 + 6
    assert walk(monkeypatch, common_from=0, most_walked=most_walked) == rare


def test_counts_are_the_same_and_stop_at_the_newest(
    world: list[UUID], monkeypatch: pytest.MonkeyPatch, browser: Client, project: Project
) -> None:
    texts = ("repair importer", "agent:codex importer")
    rare = [read_counts(text) for text in texts]
    assert counts.count_tasks(parse("importer"), None).total == len(world)
    monkeypatch.setattr(common_words, "COUNT_CAP", 0)
    assert [read_counts(text) for text in texts] == rare
    for module in (counts, common_words):
        monkeypatch.setattr(module, "COUNT_CAP", 12)
    for compiled in (counts.fetch_state_counts, counts.group_newest_by_agent):
        monkeypatch.setattr(counts, compiled.__name__, uncompiled(compiled))
    found = counts.count_tasks(parse("importer"), None)
    assert found.states["done"] == 12 and found.states["escalated"] == 1
    assert found.are_some and sum(number for _, number in found.agents) == 12
    page = words(browser.get(URL, {"q": "importer"}))
    assert "coder 8+" in page and "codex 4+" in page


def uncompiled(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that builds the query, so that it sees another limit."""
    built: Callable[..., Any] = fetch.__wrapped__  # type: ignore[attr-defined]
    return lambda *args: list(built(*args))


def read_counts(text: str) -> tuple[Any, ...]:
    found = counts.count_tasks(parse(text), None)
    return {state: n for state, n in found.states.items() if n}, found.agents, found.are_some
