"""The query box of Tasks."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from dashboard.lists.query_box import Values
from dashboard.lists.query_values import Period
from dashboard.tasks.filters import TaskQuery, parse
from dashboard.tasks.queries import filter_tasks
from ledger.models import Agent, Task
from retries.models import Grouped
from tests.dashboard.seen import rows, words
from tests.dashboard.worked import make_task

pytestmark = pytest.mark.django_db


URL = "/tasks/"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", TaskQuery()),
        ("agent:coder state:retry", TaskQuery(agent=Values(("coder",)), state=Values(("retry",)))),
        ("pool:nights", TaskQuery(pool=Values(("nights",)))),
        ("type:code,test -type:x", TaskQuery(type=Values(("code", "test"), ("x",)))),
        ("state:NEEDS-YOU", TaskQuery(state=Values(("needs-you",)))),
        ("error:timeout", TaskQuery(error=Values(("timeout",)))),
        ("attempts:>1 attempts:<4", TaskQuery(attempts_over=1, attempts_under=4)),
        ("older:2h", TaskQuery(older=timedelta(hours=2))),
        ("changed:7d", TaskQuery(changed=Period(timedelta(days=7)))),
        ("pattern:0a1b2c3d", TaskQuery(pattern=Values(("0a1b2c3d",)))),
        ("reason:breaker_open", TaskQuery(reason=Values(("breaker_open",)))),
        ("some words", TaskQuery(words=("some", "words"))),
    ],
)
def test_parse(text: str, means: TaskQuery) -> None:
    found = parse(text)
    assert found.problems == ()
    assert found == replace(means, text=found.text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state:foo", "Unknown state “foo”. Use one of: needs-you, queued,"),
        ("agnet:coder", "There is no filter “agnet”. Did you mean “agent:coder”?"),
        ("attempts:many", "“attempts:many” is not a number"),
        ("a b c d e f g h i", "Only the first 8 words are searched."),
    ],
)
def test_problems(text: str, problem: str, browser: Client) -> None:
    assert parse(text).problems[0].startswith(problem)
    assert problem in words(browser.get(URL, {"q": text}))


def test_the_list_by_time_and_pattern(browser: Client, agent: Agent) -> None:
    """Each filter on, and each filter off: the row is found only where the filter holds."""
    now = timezone.now()
    task = make_task("failed", agent=agent, now=now)
    pattern = Grouped.objects.get(failure__task=task).pattern
    Task.objects.filter(pk=task.pk).update(updated_at=now - timedelta(hours=3))
    day = now.date()
    for query, found in {
        "older:2h": True,
        "older:4h": False,
        "changed:4h": True,
        "changed:2h": False,
        "changed:5h..2h": True,
        f"created:{day - timedelta(days=400)}..{day + timedelta(days=1)}": True,
        "created:2020-01-01..2020-02-01": False,
        "created:1h": True,
        "created:2h..1h": False,
        "created:99999w": True,
        "changed:99999w..2h": True,
        f"pattern:{pattern.fingerprint}": True,
        f"pattern:{pattern.fingerprint[:8].upper()}": True,
        f'pattern:"{pattern.template[:12]}"': True,
        f"-pattern:{pattern.fingerprint}": False,
        "pattern:0000000000000000": False,
    }.items():
        assert (rows(browser.get(URL, {"q": query}), "task") == [str(task.pk)]) == found, query


def test_changes_attempts_and_reasons_are_read_from_indexes() -> None:
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off; set local enable_indexscan = off")
    plan = filter_tasks(parse("changed:1h"), None).explain()
    assert "on task_done_changed" in plan and "on task_not_done" in plan, plan
    plan = filter_tasks(parse("attempts:>2"), None).explain()
    assert "on task_retried" in plan, plan
    plan = filter_tasks(parse("reason:reported"), None).explain()
    assert "on task_blocked" in plan or "on task_not_done" in plan, plan
