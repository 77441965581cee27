"""The Dead letters pages and their actions."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import pytest
from django.test import Client

from dashboard.deadletters import queries as deadletter_queries
from dashboard.frame import live_updates
from dashboard.lists import pagination
from ledger.models import Agent, DeadLetter, Event, Failure, Task
from ledger.states import TaskState
from retries.models import FailurePattern, Operation
from tests.dashboard import seen
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, said, words
from tests.dashboard.worked import buried, enqueued, make_plan
from tests.factories import make_agent, make_project

pytestmark = pytest.mark.django_db

rows = partial(seen.rows, of="dead")
URL = "/dead-letters/"
MINUTE = timedelta(minutes=1)
NO_MODULE = "ModuleNotFoundError: No module named 'lxml'"


def address(letter: DeadLetter) -> str:
    return f"{URL}{letter.pk}/"


@pytest.fixture(autouse=True)
def _one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the live key from changing with the time bucket during a test."""
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 10**9)


# ---- the list


def test_the_page_has_its_frame_and_the_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and "No dead letter" in page
    assert "<html" not in live and '<div id="dead-letters"' in live


def test_dead_letters_are_grouped_by_cause(browser: Client, agent: Agent, now: datetime) -> None:
    lxml = buried("Stem", agent=agent, now=now - 3 * MINUTE, error=NO_MODULE)
    full = buried("Rebuild", agent=agent, now=now, error="OSError: [Errno 28] No space left")
    bs4 = buried("Parse", agent=make_agent("gemini"), now=now, error=NO_MODULE.replace("lxml", "b"))
    page = browser.get(URL)
    assert rows(page) == [str(letter.pk) for letter in (bs4, lxml, full)]
    text = words(page)
    assert "3 dead letters · Tenfour" in text and "Open 3" in text
    assert "No module named ‹text› 2 Replay all 2…" in text
    assert "2 tasks failed with the same error" in text and "coder , gemini" in text
    by_time = browser.get(URL, {"group": "time"})
    assert rows(by_time) == [str(letter.pk) for letter in (bs4, full, lxml)]
    assert "with the same error" not in words(by_time)
    other = re.search(r"cause=([0-9a-f]{8})\"[^>]*> <code><bdi>OSError", html(page))
    assert other and "1 task failed with this error" in words(browser.get(URL, {"cause": other[1]}))


def test_groups_are_counted_in_the_whole_list(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on the page alone; an action on a group is for all of it."""
    monkeypatch.setattr(pagination, "PAGE", 2)
    old = [buried("Old", agent=agent, now=now - 9 * MINUTE, error=NO_MODULE) for _ in range(3)]
    enqueued(agent, now=now, needs=[old[0].task_id])
    buried("Full", agent=make_agent("gemini"), now=now, error="OSError: No space left")
    newest = buried("New", agent=make_agent("tester"), now=now, error=NO_MODULE)
    other = make_agent("coder", project=make_project("other"))
    foreign = buried("Foreign", agent=other, now=now - 99 * MINUTE, error=NO_MODULE)
    page = browser.get(URL, {"project": "default"})
    text = words(page)
    assert len(rows(page)) == 2 and "No module named ‹text› 4 Replay all 4…" in text
    assert "4 tasks failed with the same error 4 attempts in total" in text
    assert "1 task is waiting for them" in text and "coder , tester" in text
    message, details = "verification failed: exit code 1", f"1 failed\n{NO_MODULE}"
    Failure.objects.filter(task=newest.task_id).update(message=message, details=details)
    DeadLetter.objects.filter(pk=newest.pk).update(error=message)
    shown = words(browser.get(URL, {"project": "default"}))
    assert f"Last error {NO_MODULE} {message}" in shown  # in the words of the headline, too
    fingerprint = FailurePattern.objects.get(grouped__failure__task=newest.task_id).fingerprint
    assert f'name="q" value="pattern:{fingerprint}"' in html(page)
    # OPR-17: the others of the group are one click away, and each of its agents can be told.
    assert " 3 more " in text and f"q=pattern%3A{fingerprint}&group=time" in html(page)
    assert "Send coder an instruction Send tester an instruction" in text
    form = {"matching": "yes", "q": f"pattern:{fingerprint}", "confirmed": "yes"}
    browser.post("/operations/new/dead_letter.dismiss/?project=default", form)
    assert Operation.objects.get().total == 4
    everywhere = html(browser.get(URL))
    assert f'value="pattern:{fingerprint}"' in everywhere
    assert 'formaction="/operations/new/dead_letter.replay/?project=default"' in everywhere
    assert rows(browser.get(URL, {"before": str(old[0].pk)})) == []
    assert foreign.closed_at is None
    some = browser.get(URL, {"q": f"pattern:{fingerprint}", "project": "default"})
    assert "Replay these 2…" in words(some)  # with another filter for patterns
    monkeypatch.setattr(deadletter_queries, "COUNTED", 3)
    assert "No module named ‹text› 2+ Replay all 2+…" in words(
        browser.get(URL, {"project": "default"})
    )


def test_a_line_is_drawn_from_what_was_read_at_once(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime
) -> None:
    counts = []
    for number in range(2):
        buried("Stem", agent=agent, now=now, error=NO_MODULE)
        for verb in ("replay", "dismiss"):
            gone = buried(f"{verb} {number}", agent=agent, now=now)
            said(browser, f"{address(gone)}{verb}/", {"confirmed": "yes"})
        for asked in ("", "?group=time", "?q=state:replayed", "?q=state:dismissed"):
            assert rows(browser.get(URL + asked))
            counts.append(statements(browser, URL + asked))
    assert counts[:4] == counts[4:]


def test_filters(browser: Client, agent: Agent, now: datetime) -> None:
    mine = buried("Stem the words", agent=agent, now=now, error=NO_MODULE)
    theirs = buried(
        "Click", agent=make_agent("tester"), now=now, type="test", why={"type": "timeout"}
    )
    for query, found in (
        ("agent:coder", [mine]),
        ("-agent:coder", [theirs]),
        ("type:test", [theirs]),
        ("error:timeout", [theirs]),
        ("error:lxml", [mine]),
        ("stem", [mine]),
        ("attempts:>1", []),
        ("reason:max_retries_exceeded", [theirs, mine]),
        ("state:dismissed", []),
        (str(mine.pk), [mine]),
        (str(mine.task_id), [mine]),
    ):
        page = browser.get(URL, {"q": query, "group": "time"})
        assert rows(page) == [str(letter.pk) for letter in found], query
    assert "No dead letter matches" in words(browser.get(URL, {"q": "attempts:>1"}))
    assert "Unknown state “x”" in words(browser.get(URL, {"q": "state:x"}))


def test_a_project_shows_its_own(browser: Client, agent: Agent, now: datetime) -> None:
    buried(agent=agent, now=now)
    there = buried(agent=make_agent("coder", project=make_project("other")), now=now)
    assert rows(browser.get(URL, {"project": "other"})) == [str(there.pk)]


def test_a_poll_is_empty_until_something_happens(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    buried(agent=agent, now=now - MINUTE)
    since = key(browser.get(URL))
    assert part(URL, since=since).status_code == 204
    buried(agent=agent, now=now)
    assert part(URL, since=since).status_code == 200


def test_pages_lead_to_each_other(browser: Client, agent: Agent, now: datetime) -> None:
    made = [str(buried(agent=agent, now=now).pk) for _ in range(43)][::-1]
    assert rows(browser.get(URL, {"group": "time"})) == made[:40]
    assert rows(browser.get(URL, {"group": "time", "before": made[39]})) == made[40:]


def test_a_page_costs_at_most_15_statements_whatever_the_rows(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    letter = buried(agent=agent, now=now)
    few, one = statements(browser, URL), statements(browser, address(letter))
    for n in range(12):
        each = buried(agent=make_agent(f"agent-{n}"), now=now, error=f"boom {n}")
        enqueued(agent, now=now, needs=[each.task_id])
    assert statements(browser, URL) == few <= 15
    assert statements(browser, address(letter)) == one <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 4


# ---- one


def test_dead_letter_shows_its_failures(browser: Client, agent: Agent, now: datetime) -> None:
    letter = buried(
        "Stem", agent=agent, now=now, error=NO_MODULE, why={"suggested_fix": "Add the wheel"}
    )
    enqueued(agent, "Needs it", now=now, needs=[letter.task_id])
    page = browser.get(address(letter))
    text = words(page)
    assert "coder failed after 1 attempt: no attempts left." in text
    assert "1 task waits for it." in text and "Suggested fix Add the wheel" in text
    assert NO_MODULE in text and '"n" : 1' in text
    assert f'href="/tasks/{letter.task_id}/"' in html(page)
    assert f'href="{address(letter)}"' in html(browser.get(f"/tasks/{letter.task_id}/"))
    assert browser.get("/search/", {"q": str(letter.pk)})["Location"] == address(letter)
    assert browser.get(f"{URL}{uuid4()}/").status_code == 404


def test_replaying_asks_first_and_makes_a_new_task(
    browser: Client, agent: Agent, now: datetime
) -> None:
    letter = buried("Stem", agent=agent, now=now)
    waiting = enqueued(agent, now=now, needs=[letter.task_id])
    path = f"{address(letter)}replay/"
    asked = browser.post(path)
    assert asked["Location"] == f"{address(letter)}?ask=replay"
    assert "Replay this dead letter?" in words(browser.get(asked["Location"]))
    assert Task.objects.count() == 2
    assert said(browser, path, {"confirmed": "yes"}) == "1 dead letter replayed as a new task."
    letter.refresh_from_db()
    new = letter.replayed_as
    assert new and (new.state, new.replay_of_id) == (TaskState.QUEUED, letter.task_id)
    text = words(browser.get(address(letter)))
    assert "mara replayed it as a new task Queued" in text
    assert f"{address(letter)}replay/" not in html(browser.get(address(letter)))
    assert "Nothing changed" in said(browser, path, {"confirmed": "yes"})
    assert Task.objects.count() == 3
    assert "Replaced by Stem" in words(browser.get(f"/tasks/{letter.task_id}/"))
    assert "Replay of Stem" in words(browser.get(f"/tasks/{new.pk}/"))
    assert f"/tasks/{new.pk}/" in html(browser.get(f"/tasks/{waiting}/"))
    assert "Replayed" in words(browser.get(URL)) and "Recently closed" in words(browser.get(URL))


@pytest.mark.parametrize(("dependents", "state"), [("continue", "queued"), ("block", "blocked")])
def test_dismissing_says_what_becomes_of_those_that_wait(
    browser: Client, agent: Agent, now: datetime, dependents: str, state: str
) -> None:
    letter = buried(agent=agent, now=now)
    waiting = enqueued(agent, now=now, needs=[letter.task_id])
    form = {"confirmed": "yes", "note": "Not needed\0 any more", "dependents": dependents}
    assert said(browser, f"{address(letter)}dismiss/", form) == "1 dead letter dismissed."
    letter.refresh_from_db()
    assert (letter.closed_as, letter.note) == ("dismissed", "Not needed any more")
    assert Task.objects.get(pk=waiting).state == state
    text = words(browser.get(address(letter)))
    assert "mara dismissed it." in text and "Note Not needed any more" in text
    assert rows(browser.get(URL)) == []
    assert rows(browser.get(URL, {"q": "state:dismissed"})) == [str(letter.pk)]
    assert Event.objects.filter(kind="task.dismissed").get().actor_name == "mara"


# ---- many


def test_those_of_an_aborted_plan_are_not_replayed(
    browser: Client, agent: Agent, now: datetime
) -> None:
    letter = buried(agent=agent, now=now)
    plan, _ = make_plan("03-01", now=now, agent=agent, aborted_at=now)
    Task.objects.filter(pk=letter.task_id).update(plan=plan, ref="03-01:task-1", run=1)
    page = html(browser.get(address(letter)))
    assert f"{address(letter)}dismiss/" in page and f"{address(letter)}replay/" not in page
    told = said(browser, f"{address(letter)}replay/", {"confirmed": "yes"})
    assert "1 dead letter of aborted plans can’t be replayed. Restart the plan instead." in told
    assert list(DeadLetter.objects.open()) == [letter]


@pytest.mark.parametrize("verb", ["replay", "dismiss", "explode"])
def test_looking_never_acts_and_strangers_never_do(
    browser: Client, agent: Agent, now: datetime, verb: str
) -> None:
    letter = buried(agent=agent, now=now)
    path = f"{address(letter)}{verb}/"
    assert browser.get(path).status_code == 405
    assert Client().post(path)["Location"].startswith("/sign-in/")
    assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert browser.post(f"{URL}{uuid4()}/{verb}/").status_code == 404
    assert DeadLetter.objects.open().count() == 1


def test_hostile_text_stays_text(browser: Client, agent: Agent, now: datetime) -> None:
    bad = "<script>alert(1)</script>"
    letter = buried(bad, agent=agent, now=now, error=bad)
    for path in (URL, address(letter), f"{URL}?group=time&q={bad}"):
        assert bad not in browser.get(path).content.decode()
