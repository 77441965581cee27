"""The list of tasks with its facets, and the page of one task."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from dashboard.tasks.filters import parse
from dashboard.tasks.listing.counts import count_tasks
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, DeadLetter, Task
from ledger.pools import membership
from ledger.states import TaskState
from ledger.tasks.spec import Backoff
from ledger.tokens import TrustedCaller
from retries import breaker_actions, deadletters
from retries.attempts import finishing, heartbeats
from retries.attempts.report_fields import Report
from retries.models import Escalation
from retries.tasks import actions as work
from tests.dashboard import seen
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.dashboard.worked import claimed, enqueued, failed, make_task
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db


rows = partial(seen.rows, of="task")


URL = "/tasks/"


SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def address(task: Task | UUID) -> str:
    return f"{URL}{task.pk if isinstance(task, Task) else task}/"


@pytest.fixture
def one_of_each(agent: Agent, now: datetime) -> dict[str, Task]:
    return {
        state.value: make_task(state, f"A {state.value} one", agent=agent, now=now - 2 * MINUTE)
        for state in TaskState
    }


def test_page_has_a_frame_and_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and 'id="tasks"' in page
    assert "<html" not in live and '<div id="tasks"' in live
    assert "No tasks yet" in page


def test_rows_show_what_tasks_wait_for(browser: Client, one_of_each: dict[str, Task]) -> None:
    page = browser.get(URL)
    assert rows(page)[0] == str(one_of_each["escalated"].pk)  # what needs someone first
    text = words(page)
    for label in ("Needs you", "Queued", "Running", "Retry", "Blocked", "Done", "Failed"):
        assert label in text
    assert "running for 2 m" in text
    assert "waiting for What comes first" in text
    assert "1 of 1 failed" in text and "dead letter" in text and "took 5.0 s" in text
    assert "before it ran" in text
    assert "All 10" in text  # with the one that is waited for
    assert "Queued 2" in text and "Needs you 1" in text


def test_retry_counts_down(browser: Client, agent: Agent, now: datetime) -> None:
    make_task(TaskState.RETRY, agent=agent, now=now)
    assert re.search(
        r'due in <span class="num" data-countdown="(59|60|61)\d"', html(browser.get(URL))
    )


@pytest.mark.parametrize("state", [state.value for state in TaskState])
def test_filter_by_state(browser: Client, one_of_each: dict[str, Task], state: str) -> None:
    page = browser.get(URL, {"q": f"state:{state}"})
    assert str(one_of_each[state].pk) in rows(page)
    assert len(rows(page)) == (2 if state == "queued" else 1)
    assert html(page).count('aria-current="true"') == 1


def test_filters(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("codex")
    mine = make_task(TaskState.RETRY, "Mend the build", agent=agent, now=now)
    theirs = make_task(
        TaskState.RETRY, "Read", agent=other, now=now, type="review", why={"type": "timeout"}
    )
    for query, found in (
        ("agent:coder", [mine]),
        ("-agent:coder", [theirs]),
        ("type:review", [theirs]),
        ("error:timeout", [theirs]),
        ("error:broke", [theirs, mine]),
        ("attempts:>0 mend", [mine]),
        ("attempts:>1", []),
        (str(mine.pk), [mine]),
        ("state:foo", [theirs, mine]),
    ):
        page = browser.get(URL, {"q": query})
        assert rows(page) == [str(task.pk) for task in found], query
    assert "No tasks match" in words(browser.get(URL, {"q": "attempts:>1"}))
    near = words(browser.get(URL, {"q": "agent:codr", "project": "default"}))
    assert "Did you mean agent:coder" in near


def test_tasks_of_a_pool_are_found_whoever_has_them(
    browser: Client, agent: Agent, now: datetime
) -> None:
    stamp = Stamp(SYSTEM, now)
    pool = membership.create("nights", members=[agent], project=agent.project, stamp=stamp)
    waits = make_task(TaskState.QUEUED, agent=pool, now=now)
    has = make_task(TaskState.RUNNING, agent=agent, now=now)
    own = make_task(TaskState.QUEUED, agent=agent, now=now)
    Task.objects.filter(pk__in=[waits.pk, has.pk]).update(pool=pool)
    for query, found in (
        ("pool:nights", [has, waits]),
        ("-pool:nights", [own]),
        ("pool:nights agent:coder", [has]),
        ("(pool:nights OR type:none) state:running", [has]),
    ):
        page = browser.get(URL, {"q": query})
        assert set(rows(page)) == {str(task.pk) for task in found}, query
    text = words(browser.get(URL, {"q": "pool:nights"}))
    assert "All 2" in text and "Queued 1" in text and "coder 1" in text and "nights 1" in text
    near = words(browser.get(URL, {"q": "pool:night", "project": "default"}))
    assert "Did you mean pool:nights" in near
    exported: Any = browser.get("/tasks/export/csv/", {"q": "pool:nights state:running"})
    head, row = (line.split(",") for line in exported.getvalue().decode().splitlines()[:2])
    assert dict(zip(head, row, strict=True))["pool"] == "nights"


def test_facets_ignore_their_own_key(browser: Client, agent: Agent, now: datetime) -> None:
    make_task(TaskState.DONE, agent=agent, now=now)
    make_task(TaskState.QUEUED, agent=make_agent("codex"), now=now, type="test")
    text = words(browser.get(URL, {"q": "agent:coder"}))
    assert "All 1" in text and "Queued 0" in text and "Done 1" in text
    assert re.search(r"coder 1 cx codex 1|codex 1 .*coder 1|co coder 1 co codex 1", text)


def test_facets_of_a_search_are_counted_in_one_pass(
    agent: Agent, now: datetime, django_assert_max_num_queries: Any
) -> None:
    for n, state in enumerate((TaskState.DONE, TaskState.DONE, TaskState.QUEUED)):
        make_task(state, agent=make_agent(f"agent-{n % 2}"), now=now, title="Mend the importer")
    make_task(TaskState.DONE, agent=agent, now=now, title="Rest")
    with django_assert_max_num_queries(3) as queries:  # and how common the word is
        found = count_tasks(parse("importer state:done"), None)
    assert found.states == {"done": 2, "queued": 1} and found.total == 3
    assert found.agents == [("agent-0", 1), ("agent-1", 1)]
    searches = [query["sql"].count("ledger_taskwords") for query in queries.captured_queries]
    assert all(count <= 2 for count in searches), "one search, not one for each state and agent"


def test_filter_by_project(browser: Client, agent: Agent, now: datetime) -> None:
    here = make_task(agent=agent, now=now)
    there = make_task(agent=make_agent("coder", project=make_project("other")), now=now)
    assert rows(browser.get(URL, {"project": "other"})) == [str(there.pk)]
    assert rows(browser.get(URL)) == [str(there.pk), str(here.pk)]
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


def test_pagination(browser: Client, agent: Agent, now: datetime) -> None:
    made = [str(enqueued(agent, now=now)) for _ in range(95)][::-1]
    first = browser.get(URL)
    assert rows(first) == made[:40] and "First 40 of 95" in words(first)
    second = browser.get(URL, {"before": made[39]})
    assert rows(second) == made[40:80]
    assert rows(browser.get(URL, {"before": made[79]})) == made[80:]
    assert rows(browser.get(URL, {"after": made[80]})) == made[40:80]
    assert rows(browser.get(URL, {"after": made[3]})) == made[:40]
    assert rows(browser.get(URL, {"before": "nonsense"})) == made[:40]


def test_poll_answers_204_until_something_changes(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    task = make_task(agent=agent, now=now - MINUTE)
    since = key(browser.get(URL))
    assert (part(URL, since=since).status_code, part(URL, since=since).content) == (204, b"")
    claimed(agent, task.pk, now=now)
    assert part(URL, since=since).status_code == 200


def test_list_takes_at_most_15_statements(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    need = enqueued(agent, now=now)
    for n in range(3):
        make_task(TaskState.FAILED, agent=agent, now=now)
        make_task(TaskState.BLOCKED, agent=agent, now=now, needs=[need])
        make_task(TaskState.RETRY, agent=make_agent(f"agent-{n}"), now=now)
    browser.get(URL)  # fills the caches
    few = statements(browser, URL)
    for n in range(12):
        make_task(TaskState.FAILED, agent=make_agent(f"more-{n}"), now=now)
        make_task(TaskState.RUNNING, agent=agent, now=now)
    assert statements(browser, URL) == few <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 4


def test_page_of_one_task(browser: Client, agent: Agent, now: datetime) -> None:
    start = now - 30 * MINUTE
    id = enqueued(agent, "Mend the build", now=start, payload={"goal": "green", "n": [1, True]})
    failed(
        agent,
        id,
        now=start + MINUTE,
        message="TypeError: boom",
        details="line 7",
        type="timeout",
        root_cause_guess="a guess",
        suggested_fix="a fix",
        retry_after_s=0,
        files_modified=[{"path": "src/a.py", "lines_changed": 3}],
        learnings=["it blinks"],
    )
    attempt = claimed(agent, id, now=now - 2 * MINUTE)
    caller = TrustedCaller(SYSTEM, agent=agent)
    heartbeats.renew_lease(
        attempt, progress={"message": "half", "percent": 50}, caller=caller, now=now
    )
    page = browser.get(address(id))
    text = words(page)
    assert "attempt 2 of 3" in text and "running for 2 m" in text
    assert "Attempt 1 timeout" in text and "TypeError: boom" in text and "line 7" in text
    assert "Likely cause a guess" in text and "Suggested fix a fix" in text
    assert "src/a.py 3 lines" in text and "it blinks" in text
    assert "Claimed by coder, attempt 2" in text
    assert "Attempt 1 failed: timeout; attempts left" in text and "Enqueued by tenfour" in text
    assert text.index("Claimed by coder, attempt 2") < text.index(
        "Enqueued by tenfour"
    )  # newest first
    assert '"goal" : "green"' in text and "No result yet. It is stored when" in text
    assert "half" in text and "50 %" in text
    assert 'data-tip="Attempt 1: timed out|for 10\u202fs"' in page.content.decode()
    assert "heartbeat 0 s ago" in text
    assert " at work." in text and 'class="g-bad"' in html(page) and 'class="g-lease"' in html(page)


def test_needs_and_dependents(browser: Client, agent: Agent, now: datetime) -> None:
    first = enqueued(agent, "Lay the ground", now=now)
    middle = enqueued(agent, "Build", now=now, needs=[first])
    last = enqueued(agent, "Paint", now=now, needs=[middle])
    page = html(browser.get(address(middle)))
    assert f'href="{address(first)}"' in page and f'href="{address(last)}"' in page
    text = words(browser.get(address(middle)))
    assert "Needs Lay the ground Queued" in text and "Needed by Paint Blocked" in text
    assert "Blocked: waiting for another task. 1 need is not met yet." in text
    assert "Dependencies" not in words(browser.get(address(enqueued(agent, now=now))))


def test_failed_need_shows_until_it_is_resolved(
    browser: Client, agent: Agent, now: datetime
) -> None:
    failed_one = make_task(TaskState.FAILED, "Lay the ground", agent=agent, now=now)
    other = enqueued(agent, "Fetch stones", now=now)
    enqueued(agent, "Build", now=now, needs=[failed_one.pk, other])
    assert "a need failed" in words(browser.get("/tasks/"))
    deadletters.dismiss(
        DeadLetter.objects.values_list("pk", flat=True),
        among=DeadLetter.objects.all(),
        stamp=Stamp(SYSTEM, now),
    )
    assert "waiting for Fetch stones" in words(browser.get("/tasks/"))
    work.abort([other], stamp=Stamp(SYSTEM, now))
    assert "a need was aborted" in words(browser.get("/tasks/"))


def test_last_lines_show_live_and_stay(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    id = enqueued(agent, now=now - MINUTE, backoff=Backoff(base_delay_ms=0))
    caller = TrustedCaller(SYSTEM, agent=agent)
    attempt = claimed(agent, id, now=now - 30 * SECOND)
    page = browser.get(address(id))
    assert "Attempt 1, live" in words(page) and "Nothing printed yet." in words(page)
    bad = "<script>alert(1)</script>"
    heartbeats.renew_lease(attempt, output=f"12 passed\n{bad}\n", caller=caller, now=now)
    # A heartbeat is something new for the page of its task.
    live = part(address(id), since=key(page))
    assert live.status_code == 200 and "Attempt 1, live" in words(live)
    assert "12 passed" in words(live) and bad not in live.content.decode()
    finishing.finish_attempt(attempt, Report(status="failure"), caller=caller, now=now)
    ended = words(browser.get(address(id)))
    assert "Attempt 1, last lines" in ended and "12 passed" in ended
    # The next attempt has none of its own yet.
    claimed(agent, id, now=now)
    again = words(browser.get(address(id)))
    assert "Attempt 2, live" in again and "Nothing printed yet." in again


def test_hostile_text_is_escaped(browser: Client, agent: Agent, now: datetime) -> None:
    bad = "<script>alert(1)</script>"
    task = make_task(
        TaskState.RETRY,
        bad,
        agent=agent,
        now=now,
        payload={bad: [bad]},
        why={"message": bad, "details": "\u202e" + bad, "verification": {"output": bad}},
    )
    for path in (URL, address(task), f"{URL}?q={bad}"):
        assert bad not in browser.get(path).content.decode()


def test_unknown_task_and_search_by_id(browser: Client, agent: Agent, now: datetime) -> None:
    assert browser.get(address(uuid4())).status_code == 404
    task = make_task(agent=agent, now=now)
    assert browser.get("/search/", {"q": f" {task.pk} "})["Location"] == address(task)


def test_page_of_one_task_takes_at_most_15_statements(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    task = make_task(TaskState.ESCALATED, agent=agent, now=now, needs=[])
    enqueued(agent, now=now, needs=[task.pk])
    path = address(task)
    few = statements(browser, path)
    for _ in range(5):
        enqueued(agent, now=now, needs=[task.pk])
    assert statements(browser, path) == few <= 15
    since = key(browser.get(path))
    assert statements(browser, path, {"since": since}, headers=PART) <= 4


def test_queued_task_is_on_hold_while_the_breaker_is_open(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(agent=agent, now=now)
    breaker_actions.trip([agent], reason="by hand", stamp=Stamp(SYSTEM, now))
    assert "on hold, coder open" in words(browser.get(URL))
    assert "On hold: the breaker for coder is open." in words(browser.get(address(task)))


@pytest.mark.parametrize("state", [TaskState.QUEUED, TaskState.RETRY])
def test_a_task_that_waits_is_on_hold_while_its_agent_is_paused(
    browser: Client, agent: Agent, now: datetime, state: TaskState
) -> None:
    task = make_task(state, agent=agent, now=now)
    Agent.objects.update(paused=True)
    assert "on hold, coder paused" in words(browser.get(URL))
    assert "On hold: coder is paused." in words(browser.get(address(task)))


def test_activity_shows_tasks(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.ESCALATED, "Mend the build", agent=agent, now=now)
    breaker_actions.trip([agent], reason="too hot", stamp=Stamp(SYSTEM, now))
    text = words(browser.get("/activity/"))
    assert "“ Mend the build ”" in text and "Claimed by coder, attempt 1" in text
    assert "no attempts left" in text
    assert "Is on hold: its breaker opened" in text
    assert f'href="{address(task)}"' in html(browser.get("/activity/"))
    assert "Mend the build" in words(browser.get("/"))


def test_answer_in_the_inbox_shows_in_the_history(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(TaskState.ESCALATED, "Mend the build", agent=agent, now=now)
    question = Escalation.objects.get()
    page = browser.get("/escalations/")
    text = words(page)
    assert "Mend the build" in text and "Failed 1 of 1 attempts." in text
    assert "it broke" in text and "Send fix and retry" in text and "Retry" in text
    assert f'href="{address(task)}"' in html(page)
    form = {"action": "retry", "version": str(question.version)}
    answered = browser.post(f"/escalations/{question.pk}/answer/", form, follow=True)
    assert "The task gets another round of attempts." in words(answered)
    assert "mara granted a retry" in words(answered)
    task.refresh_from_db()
    assert (task.state, task.attempt_limit) == (TaskState.RETRY, 2)
    assert "mara answered: retry" in words(browser.get(address(task)))
    assert "mara granted a retry" in words(browser.get("/escalations/", {"state": "answered"}))


def test_the_error_column_is_shown_where_it_matters(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    """OPR-14: for failed tasks by default, elsewhere on request."""
    why = {"message": "make test returned 1", "details": "KeyError: 'sum'"}
    make_task(TaskState.FAILED, "No 0", agent=agent, now=now, why=why)
    browser.get(URL, {"q": "state:failed"})
    one = statements(browser, URL, {"q": "state:failed"})
    for number in (1, 2):
        make_task(TaskState.FAILED, f"No {number}", agent=agent, now=now, why=why)
    assert statements(browser, URL, {"q": "state:failed"}) == one
    for given, number in (
        ({"q": "state:failed"}, 3),
        ({}, 0),
        ({"column": "error"}, 3),
        ({"q": "state:failed", "column": "type"}, 0),
    ):
        assert html(browser.get(URL, given)).count('class="t-err') == number
