"""The Tasks pages: the list with its filters, and one task with its story."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from dashboard import live_updates
from dashboard.json_tree import DEEPEST, MOST, tree
from dashboard.query_box import Values
from dashboard.tasks.filters import TaskQuery, parse
from dashboard.tasks.timeline import build_timeline
from ledger.journal import SYSTEM
from ledger.models import Agent, Attempt, DeadLetter, Event, Task
from ledger.states import TaskState, Who, allowed_moves
from ledger.tokens import TrustedCaller
from retries import breaker, deadletters
from retries import task_actions as work
from retries.attempts import heartbeats
from retries.models import Escalation
from tests.dashboard import seen
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, said, words
from tests.dashboard.worked import claimed, enqueued, failed, make_task
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db

rows = partial(seen.rows, of="task")
URL = "/tasks/"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def address(task: Task | UUID) -> str:
    return f"{URL}{task.pk if isinstance(task, Task) else task}/"


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is torn by the end of a bucket."""
    monkeypatch.setattr(live_updates, "BUCKET_SECONDS", 10**9)


@pytest.fixture
def one_of_each(agent: Agent, now: datetime) -> dict[str, Task]:
    return {
        state.value: make_task(state, f"A {state.value} one", agent=agent, now=now - 2 * MINUTE)
        for state in TaskState
    }


# ---- the query box


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", TaskQuery()),
        ("agent:coder state:retry", TaskQuery(agent=Values(("coder",)), state=Values(("retry",)))),
        ("type:code,test -type:x", TaskQuery(type=Values(("code", "test"), ("x",)))),
        ("state:NEEDS-YOU", TaskQuery(state=Values(("needs-you",)))),
        ("error:timeout", TaskQuery(error=Values(("timeout",)))),
        ("attempts:>1 attempts:<4", TaskQuery(attempts_over=1, attempts_under=4)),
        ("reason:breaker_open", TaskQuery(reason=Values(("breaker_open",)))),
        ("some words", TaskQuery(words=("some", "words"))),
    ],
)
def test_what_is_typed_and_what_it_means(text: str, means: TaskQuery) -> None:
    found = parse(text)
    assert found.problems == ()
    names = [name for name in TaskQuery.__slots__ if name != "text"]
    assert all(getattr(found, name) == getattr(means, name) for name in names)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state:foo", "Unknown state “foo”. Use one of: needs-you, queued,"),
        ("attempts:many", "“attempts:many” is not a number"),
        ("a b c d e f g h i", "Only the first 8 words are searched."),
    ],
)
def test_nonsense_becomes_a_sentence(text: str, problem: str, browser: Client) -> None:
    assert parse(text).problems[0].startswith(problem)
    assert problem in words(browser.get(URL, {"q": text}))


# ---- the list


def test_the_page_has_its_frame_and_the_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and 'id="tasks"' in page
    assert "<html" not in live and '<div id="tasks"' in live
    assert "No tasks yet" in page


def test_a_line_says_what_its_task_waits_for(browser: Client, one_of_each: dict[str, Task]) -> None:
    page = browser.get(URL)
    assert rows(page)[0] == str(one_of_each["aborted"].pk)  # newest first
    text = words(page)
    for label in ("Needs you", "Queued", "Running", "Retry", "Blocked", "Done", "Failed"):
        assert label in text
    assert "running for 2 m" in text
    assert "waiting for What comes first" in text
    assert "needs you" in text and "dead letter" in text and "took 5.0 s" in text
    assert "before it ran" in text
    assert "All 10" in text  # with the one that is waited for
    assert "Queued 2" in text and "Needs you 1" in text


def test_a_retry_counts_down(browser: Client, agent: Agent, now: datetime) -> None:
    make_task(TaskState.RETRY, agent=agent, now=now)
    assert re.search(
        r'due in <span class="num" data-countdown="(59|60|61)\d"', html(browser.get(URL))
    )


@pytest.mark.parametrize("state", [state.value for state in TaskState])
def test_each_state_is_a_filter(browser: Client, one_of_each: dict[str, Task], state: str) -> None:
    page = browser.get(URL, {"q": f"state:{state}"})
    assert str(one_of_each[state].pk) in rows(page)
    assert len(rows(page)) == (2 if state == "queued" else 1)
    assert html(page).count('aria-current="true"') == 1


def test_filters_narrow_and_name_what_they_find(
    browser: Client, agent: Agent, now: datetime
) -> None:
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
    assert "Did you mean coder" in near


def test_counts_beside_the_list_are_for_any_value_of_their_own(
    browser: Client, agent: Agent, now: datetime
) -> None:
    make_task(TaskState.DONE, agent=agent, now=now)
    make_task(TaskState.QUEUED, agent=make_agent("codex"), now=now, type="test")
    text = words(browser.get(URL, {"q": "agent:coder"}))
    assert "All 1" in text and "Queued 0" in text and "Done 1" in text
    assert re.search(r"coder 1 cx codex 1|codex 1 .*coder 1|co coder 1 co codex 1", text)
    assert "code 1" in text and "test 0" not in text


def test_a_project_shows_its_own(browser: Client, agent: Agent, now: datetime) -> None:
    here = make_task(agent=agent, now=now)
    there = make_task(agent=make_agent("coder", project=make_project("other")), now=now)
    assert rows(browser.get(URL, {"project": "other"})) == [str(there.pk)]
    assert rows(browser.get(URL)) == [str(there.pk), str(here.pk)]
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


def test_pages_lead_to_each_other(browser: Client, agent: Agent, now: datetime) -> None:
    made = [str(enqueued(agent, now=now)) for _ in range(95)][::-1]
    first = browser.get(URL)
    assert rows(first) == made[:40] and "Newest 40 of 95" in words(first)
    second = browser.get(URL, {"before": made[39]})
    assert rows(second) == made[40:80]
    assert rows(browser.get(URL, {"before": made[79]})) == made[80:]
    assert rows(browser.get(URL, {"after": made[80]})) == made[40:80]
    assert rows(browser.get(URL, {"after": made[3]})) == made[:40]
    assert rows(browser.get(URL, {"before": "nonsense"})) == made[:40]


def test_a_poll_is_empty_until_something_happens(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    task = make_task(agent=agent, now=now - MINUTE)
    since = key(browser.get(URL))
    assert (part(URL, since=since).status_code, part(URL, since=since).content) == (204, b"")
    claimed(agent, task.pk, now=now)
    assert part(URL, since=since).status_code == 200


def test_a_page_costs_at_most_15_statements_whatever_the_rows(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    need = enqueued(agent, now=now)
    for n in range(3):
        make_task(TaskState.FAILED, agent=agent, now=now)
        make_task(TaskState.BLOCKED, agent=agent, now=now, needs=[need])
        make_task(TaskState.RETRY, agent=make_agent(f"agent-{n}"), now=now)
    few = statements(browser, URL)
    for n in range(12):
        make_task(TaskState.FAILED, agent=make_agent(f"more-{n}"), now=now)
        make_task(TaskState.RUNNING, agent=agent, now=now)
    assert statements(browser, URL) == few <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 4


# ---- one


def test_the_story_of_one(browser: Client, agent: Agent, now: datetime) -> None:
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
    assert (
        " running, " in text and 'class="g-bad"' in html(page) and 'class="g-lease"' in html(page)
    )


def test_its_neighbours_both_ways(browser: Client, agent: Agent, now: datetime) -> None:
    first = enqueued(agent, "Lay the ground", now=now)
    middle = enqueued(agent, "Build", now=now, needs=[first])
    last = enqueued(agent, "Paint", now=now, needs=[middle])
    page = html(browser.get(address(middle)))
    assert f'href="{address(first)}"' in page and f'href="{address(last)}"' in page
    text = words(browser.get(address(middle)))
    assert "Needs Lay the ground Queued" in text and "Needed by Paint Blocked" in text
    assert "Blocked: waiting for another task. 1 need is not met yet." in text
    assert "Dependencies" not in words(browser.get(address(enqueued(agent, now=now))))


def test_trouble_upstream_is_told_until_somebody_has_dealt_with_it(
    browser: Client, agent: Agent, now: datetime
) -> None:
    failed_one = make_task(TaskState.FAILED, "Lay the ground", agent=agent, now=now)
    other = enqueued(agent, "Fetch stones", now=now)
    enqueued(agent, "Build", now=now, needs=[failed_one.pk, other])
    assert "a need failed" in words(browser.get("/tasks/"))
    deadletters.dismiss(
        DeadLetter.objects.values_list("pk", flat=True),
        among=DeadLetter.objects.all(),
        actor=SYSTEM,
        now=now,
    )
    assert "waiting for Fetch stones" in words(browser.get("/tasks/"))
    work.abort([other], actor=SYSTEM, now=now)
    assert "a need was aborted" in words(browser.get("/tasks/"))


def test_hostile_text_stays_text(browser: Client, agent: Agent, now: datetime) -> None:
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


@pytest.mark.parametrize("state", [state.value for state in TaskState])
def test_only_what_a_person_may_do_is_offered(
    browser: Client, agent: Agent, now: datetime, state: str
) -> None:
    """The buttons come from the table of moves; one that runs can be told to stop."""
    task = make_task(state, agent=agent, now=now)
    found = set(re.findall(rf"/tasks/{task.pk}/([a-z-]+)/", html(browser.get(address(task)))))
    may = allowed_moves(state, Who.PERSON)
    wanted = {verb for verb, to in (("skip", "skipped"), ("abort", "aborted")) if to in may}
    wanted |= {"abort"} if state == "running" else set()
    wanted |= {"retry-now"} if state == "retry" else set()
    assert found == wanted


def test_retry_now(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.RETRY, agent=agent, now=now)
    path = f"{address(task)}retry-now/"
    assert "1 task will retry now." in said(browser, path, {})
    assert "Nothing changed" in said(browser, path, {})
    task.refresh_from_db()
    assert task.due_at and task.due_at < now + MINUTE
    assert "mara retried it now" in words(browser.get(address(task)))


@pytest.mark.parametrize("verb", ["skip", "abort"])
def test_what_can_not_be_undone_asks_first(
    browser: Client, agent: Agent, now: datetime, verb: str
) -> None:
    task = make_task(agent=agent, now=now)
    waiting = enqueued(agent, now=now, needs=[task.pk])
    path = f"{address(task)}{verb}/"
    asked = browser.post(path)
    assert asked["Location"] == f"{address(task)}?ask={verb}"
    assert "1 task waits for it." in words(browser.get(asked["Location"]))
    assert Task.objects.get(pk=task.pk).state == TaskState.QUEUED
    said(browser, path, {"confirmed": "yes"})
    assert Task.objects.get(pk=task.pk).state == {"skip": "skipped", "abort": "aborted"}[verb]
    assert Task.objects.get(pk=waiting).state == ("queued" if verb == "skip" else "blocked")
    assert Event.objects.filter(subject_id=task.pk).latest("id").actor_name == "mara"
    assert "Nothing changed" in said(browser, path, {"confirmed": "yes"})


def test_skip_can_leave_what_depends_on_it_blocked(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(agent=agent, now=now)
    waiting = enqueued(agent, now=now, needs=[task.pk])
    said(browser, f"{address(task)}skip/", {"confirmed": "yes", "dependents": "block"})
    assert Task.objects.get(pk=waiting).blocked_reason == "dependency_skipped"
    assert "Blocked: a task it needs was skipped." in words(browser.get(address(waiting)))
    assert "1 task unblocked" in said(browser, f"{address(waiting)}unblock/", {})
    assert Task.objects.get(pk=waiting).state == TaskState.QUEUED
    assert "/unblock/" not in html(browser.get(address(waiting)))


def test_what_is_skipped_along_makes_up_for_none_that_could_not(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task, over = enqueued(agent, now=now), make_task(TaskState.DONE, agent=agent, now=now).pk
    for _ in range(2):
        enqueued(agent, now=now, needs=[task])
    form = {"id": [str(task), str(over)], "confirmed": "yes", "dependents": "skip"}
    told = said(browser, f"{URL}skip/all/", form)
    assert told == (
        "1 task skipped, and 2 dependent tasks. 1 left unchanged, because the state has changed."
    )


def test_one_that_runs_is_told_to_stop(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.RUNNING, agent=agent, now=now)
    assert "1 task asked to stop." in said(browser, f"{address(task)}abort/", {"confirmed": "yes"})
    text = words(browser.get(address(task)))
    assert "stop requested" in text and "mara asked it to stop" in text
    assert "/abort/" not in html(browser.get(address(task)))


def test_aborting_an_escalated_one_closes_its_question(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    question = Escalation.objects.get(task=task)
    assert f"/escalations/{question.pk}/" in html(browser.get(address(task)))
    said(browser, f"{address(task)}abort/", {"confirmed": "yes"})
    assert Escalation.objects.get().state == "withdrawn"
    assert f"/escalations/{question.pk}/" not in html(browser.get(address(task)))


def test_many_at_once_say_how_many_before_and_after(
    browser: Client, agent: Agent, now: datetime
) -> None:
    ids = [str(enqueued(agent, now=now)) for _ in range(3)]
    ids.append(str(make_task(TaskState.DONE, agent=agent, now=now).pk))
    form = {"id": [*ids, "nonsense"], "next": f"{URL}?q=agent%3Acoder"}
    asked = browser.post(f"{URL}abort/all/", form)
    assert asked["Location"].startswith(f"{URL}?q=agent%3Acoder&ask=abort&id=")
    assert "Abort 4 tasks?" in words(browser.get(asked["Location"]))
    assert not Task.objects.filter(state="aborted").exists()
    told = said(browser, f"{URL}abort/all/", form | {"confirmed": "yes"})
    assert told == "3 tasks aborted. 1 left unchanged, because the state has changed."
    assert Task.objects.filter(state="aborted").count() == 3
    assert "Select at least one task" in said(browser, f"{URL}abort/all/", {})
    assert browser.post(f"{URL}abort/all/", {"next": "//evil.example"})["Location"] == URL


@pytest.mark.parametrize("verb", ["retry-now", "skip", "abort", "explode"])
def test_looking_never_acts_and_strangers_never_do(
    browser: Client, agent: Agent, now: datetime, verb: str
) -> None:
    task = make_task(agent=agent, now=now)
    for path in (f"{address(task)}{verb}/", f"{URL}{verb}/all/"):
        assert browser.get(path).status_code == 405
        assert Client().post(path)["Location"].startswith("/sign-in/")
        assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert browser.post(f"{URL}{uuid4()}/{verb}/").status_code == 404
    assert Task.objects.get().state == TaskState.QUEUED


def test_an_unknown_one_and_one_that_is_searched(
    browser: Client, agent: Agent, now: datetime
) -> None:
    assert browser.get(address(uuid4())).status_code == 404
    task = make_task(agent=agent, now=now)
    assert browser.get("/search/", {"q": f" {task.pk} "})["Location"] == address(task)


def test_one_costs_at_most_15_statements(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    task = make_task(TaskState.ESCALATED, agent=agent, now=now, needs=[])
    path = address(task)
    few = statements(browser, path)
    for _ in range(5):
        enqueued(agent, now=now, needs=[task.pk])
    assert statements(browser, path) == few <= 15
    since = key(browser.get(path))
    assert statements(browser, path, {"since": since}, headers=PART) <= 4


def test_a_queued_one_is_held_while_the_breaker_is_open(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(agent=agent, now=now)
    breaker.trip([agent], reason="by hand", actor=SYSTEM, now=now)
    assert "on hold, coder open" in words(browser.get(URL))
    assert browser.get(address(task)).status_code == 200


# ---- told elsewhere


def test_the_journal_tells_of_tasks(browser: Client, agent: Agent, now: datetime) -> None:
    task = make_task(TaskState.ESCALATED, "Mend the build", agent=agent, now=now)
    breaker.trip([agent], reason="too hot", actor=SYSTEM, now=now)
    text = words(browser.get("/activity/"))
    assert "“ Mend the build ”" in text and "Claimed by coder, attempt 1" in text
    assert "no attempts left" in text
    assert "Is on hold: its breaker opened" in text
    assert f'href="{address(task)}"' in html(browser.get("/activity/"))
    assert "Mend the build" in words(browser.get("/"))


def test_a_question_about_a_task_is_answered_in_the_inbox(
    browser: Client, agent: Agent, now: datetime
) -> None:
    task = make_task(TaskState.ESCALATED, "Mend the build", agent=agent, now=now)
    question = Escalation.objects.get()
    page = browser.get("/escalations/")
    text = words(page)
    assert "Mend the build" in text and "Failed 1 of 1 attempts." in text
    assert "it broke" in text and "Fix with an instruction" in text and "Try again" in text
    assert f'href="{address(task)}"' in html(page)
    form = {"action": "retry", "version": str(question.version)}
    answered = browser.post(f"/escalations/{question.pk}/answer/", form, follow=True)
    assert "The task gets another round of attempts." in words(answered)
    assert "mara granted a retry" in words(answered)
    task.refresh_from_db()
    assert (task.state, task.attempt_limit) == (TaskState.RETRY, 2)
    assert "mara answered: retry" in words(browser.get(address(task)))
    assert "mara granted a retry" in words(browser.get("/escalations/"))


@pytest.mark.parametrize("action", ["skip", "abort"])
def test_it_asks_before_it_skips_or_aborts_a_task(
    browser: Client, agent: Agent, now: datetime, action: str
) -> None:
    task = make_task(TaskState.ESCALATED, agent=agent, now=now)
    question = Escalation.objects.get()
    path = f"/escalations/{question.pk}/answer/"
    form = {"action": action, "version": str(question.version)}
    assert "This cannot be undone" in words(browser.post(path, form))
    assert Task.objects.get(pk=task.pk).state == TaskState.ESCALATED
    browser.post(path, form | {"confirmed": "yes"})
    assert Task.objects.get(pk=task.pk).state == {"skip": "skipped", "abort": "aborted"}[action]


# ---- the pictures


def test_the_bars_stand_where_the_times_are(agent: Agent, now: datetime) -> None:
    start = now - 100 * SECOND
    id = enqueued(agent, now=start)
    failed(agent, id, now=start + 40 * SECOND, retry_after_s=0)
    task, events = Task.objects.get(), list(Event.objects.filter(subject_id=id).order_by("id"))
    drawn = build_timeline(task, events, list(Attempt.objects.all()), now=now)
    queued, backoff = drawn.waits
    assert (queued.x, round(queued.width)) == (0.0, 39)  # 40 of 102 s
    assert [round(drawn.attempts[0].x), round(drawn.attempts[0].width)] == [39, 10]
    assert round(backoff.x) == 49 and drawn.now and drawn.now.x == pytest.approx(98, abs=0.1)
    assert (drawn.working, drawn.waiting) == (10 * SECOND, 90 * SECOND)
    assert [tick.label for tick in drawn.ticks][:2] == ["0", "+30 s"]


@pytest.mark.parametrize("days", [0, 1, 3, 4000])
def test_a_timeline_of_any_length_has_few_ticks(agent: Agent, now: datetime, days: int) -> None:
    id = enqueued(agent, now=now - timedelta(days=days))
    events = list(Event.objects.filter(subject_id=id))
    drawn = build_timeline(Task.objects.get(), events, [], now=now)
    assert 0 < len(drawn.ticks) <= 8
    assert all(0 <= bar.x <= 100 and bar.x + bar.width <= 100.01 for bar in drawn.waits)


def test_json_is_a_tree_that_ends_somewhere() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    node, depth = tree(deep), 0
    while node.children:
        node, depth = node.children[0], depth + 1
    assert depth == DEEPEST + 1 and node.text == "… 1 more"
    wide = tree(list(range(10_000)))
    assert len(wide.children) <= MOST + 1 and wide.children[-1].text.endswith("more")
