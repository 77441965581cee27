"""The Patterns pages and their actions."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from dashboard.frame import live_updates
from dashboard.lists import pagination
from ledger.journal import Stamp
from ledger.models import Agent, Event
from ledger.states import TaskState, Who
from retries.failures import patterns
from retries.failures.fixes import reading as fixes
from retries.models import FailurePattern, Operation
from retries.states import PatternState, allowed_pattern_moves
from tests.dashboard.conftest import PART
from tests.dashboard.worked import MARA, buried, make_task
from tests.factories import NOW, make_agent, make_project
from tests.retries.failures.test_suggestions import MISSING, fixed

pytestmark = pytest.mark.django_db

URL = "/patterns/"
Part = Callable[..., HttpResponse]
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NO_MODULE = "ModuleNotFoundError: No module named 'lxml'"


def html(response: HttpResponse) -> str:
    assert response.status_code == 200
    return re.sub(r"\s+", " ", unescape(response.content.decode()))


def words(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html(response)))


def rows(response: HttpResponse) -> list[str]:
    return re.findall(r'<tr id="pattern-([0-9a-f-]{36})"', html(response))


def key(response: HttpResponse) -> str:
    found = re.search(r'data-since="([^"]+)"', response.content.decode())
    assert found
    return unescape(found[1])


def of(start: str) -> FailurePattern:
    return FailurePattern.objects.get(template__startswith=start)


def address(row: FailurePattern) -> str:
    return f"{URL}{row.pk}/"


def said(client: Client, path: str, data: dict[str, Any]) -> str:
    response = client.post(path, data, follow=True)
    assert response.status_code == 200
    return " ".join(str(message) for message in response.context["messages"])


@pytest.fixture(autouse=True)
def _one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the live key from changing with the time bucket during a test."""
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 10**9)


# ---- the list


def test_the_page_has_its_frame_and_the_part_has_none(browser: Client, part: Part) -> None:
    page, live = html(browser.get(URL)), html(part(URL))
    assert page.startswith("<!doctype html>") and "No failures yet" in page
    assert "<html" not in live and '<div id="patterns"' in live


def test_the_list_counts_and_sorts(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        buried(agent=agent, now=now - HOUR, error=NO_MODULE.replace("lxml", f"x{n}"))
    buried(agent=make_agent("gemini"), now=now - 30 * HOUR, error=NO_MODULE)
    buried(agent=agent, now=now - MINUTE, error="disk full")
    often, last = of("Module"), of("disk")
    page = browser.get(URL)
    assert rows(page) == [str(last.pk), str(often.pk)]
    text = words(page)
    assert "2 open · Patterns · Tenfour" in text and "Open 2 Ignored 0 Resolved 0 All 2" in text
    counted = "No module named ‹text› 3 failures – no open escalations 2 failures in the last 24 h "
    assert f"{counted}coder , gemini" in text
    assert '<span class="mk">‹text›</span>' in html(page)
    assert rows(browser.get(URL, {"sort": "-failures"})) == [str(often.pk), str(last.pk)]
    monkeypatch.setattr(pagination, "PAGE", 1)  # of all, not of those seen last
    assert rows(browser.get(URL, {"sort": "-failures"})) == [str(often.pk)]
    assert rows(browser.get(URL, {"sort": "failures"})) == [str(last.pk)]


def test_only_rising_patterns_are_red_and_open_escalations_are_counted_and_linked(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for at in (30, 26, 2):
        buried(agent=agent, now=now - at * HOUR, error="disk full")
    for n in range(2):
        why = {"type": "verification_failed", "message": NO_MODULE}
        make_task(TaskState.ESCALATED, agent=agent, now=now - n * HOUR, why=why)
    calm, asked = of("disk"), of("Module")
    FailurePattern.objects.filter(pk=asked.pk).update(first_seen=now - 60 * HOUR)

    def row(of: FailurePattern) -> str:
        found = re.search(rf'<tr id="pattern-{of.pk}".*?</tr>', html(browser.get(URL)))
        assert found
        return found[0]

    assert "st--calm" in row(calm) and "bar--bad" not in row(calm) and "st--calm" in row(asked)
    address = f"/escalations/?q=pattern%3A{asked.fingerprint}"
    assert f'href="{address}" title="2 open escalations"' in row(asked)
    assert "No module named" in words(browser.get(address))
    assert f'href="{address}" >2 open questions</a>' in html(browser.get(f"{URL}{asked.pk}/"))
    make_project("other")  # whose patterns may have the same fingerprint
    own = address.replace("?", "?project=default&")
    assert f'href="{own}"' in row(asked)
    assert f'href="{own}"' in html(browser.get(f"{URL}{asked.pk}/"))
    patterns.resolve([calm.pk], stamp=Stamp(MARA, now))
    buried(agent=agent, now=now, error="disk full")
    assert "Came back" in row(calm) and "bar--bad" in row(calm)
    for _ in range(3):
        buried(agent=agent, now=now - MINUTE, error=NO_MODULE)
    assert "Rising" in row(asked) and "bar--bad" in row(asked)


def test_states_words_and_projects(browser: Client, agent: Agent, now: datetime) -> None:
    for error in ("disk full", NO_MODULE, "no such user"):
        buried(agent=agent, now=now, error=error)
    there = make_agent("coder", project=make_project("other"))
    buried(agent=there, now=now, error="disk full")
    patterns.ignore([of("no such").pk], stamp=Stamp(MARA, now))
    patterns.resolve([of("Module").pk], stamp=Stamp(MARA, now))
    assert len(rows(browser.get(URL))) == 2
    ignored = browser.get(URL, {"q": "state:ignored"})
    assert rows(ignored) == [str(of("no such").pk)]
    assert "<title>2 open · Patterns · Tenfour</title>" in html(ignored)
    assert rows(browser.get(URL, {"q": "state:resolved"})) == [str(of("Module").pk)]
    assert len(rows(browser.get(URL, {"q": "state:all no"}))) == 2
    everything = html(browser.get(URL, {"q": "state:all"}))
    assert re.search(r'aria-current="true"\s*>All <span class="num">4</span>', everything)
    assert len(rows(browser.get(URL, {"q": "state:nonsense"}))) == 2
    theirs = FailurePattern.objects.get(project__name="other")
    assert rows(browser.get(URL, {"project": "other"})) == [str(theirs.pk)]
    assert "No patterns match" in words(browser.get(URL, {"q": "gone"}))
    empty = browser.get(URL, {"q": "state:ignored", "project": "other"})
    assert "Nothing matches state:ignored ." in words(empty)


def test_a_type_finds_the_patterns_of_its_tasks(
    browser: Client, agent: Agent, now: datetime
) -> None:
    buried(agent=agent, now=now, error="disk full")
    buried(agent=agent, now=now, error=NO_MODULE, type="review")
    disk, module = str(of("disk").pk), str(of("Module").pk)
    assert rows(browser.get(URL, {"q": "type:review"})) == [module]
    assert rows(browser.get(URL, {"q": "-type:review"})) == [disk]
    assert "Open 1 " in words(browser.get(URL, {"q": "type:review"})), "the counts keep to it"
    wrong = browser.get(URL, {"q": "type:reviw"})
    assert rows(wrong) == [] and "type:review" in words(wrong)
    offered = browser.get("/complete/patterns/", {"key": "type", "prefix": "rev", "q": ""})
    assert [each["term"] for each in offered.json()["options"]] == ["type:review"]


def test_pattern_without_failures_is_still_listed(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for error in ("disk full", NO_MODULE):
        buried(agent=agent, now=now, error=error)
    of("disk").grouped.all().delete()
    of("disk").failure_counts.all().delete()
    page = browser.get(URL, {"sort": "-failures"})
    assert rows(page) == [str(of("Module").pk), str(of("disk").pk)]
    assert "disk full 0 failures" in words(page)
    assert "0 failures by 0 agents" in words(browser.get(address(of("disk"))))


def test_deleted_failures_count_in_the_list_and_in_its_export(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for whose in (agent, agent, make_agent("gemini")):
        buried(agent=whose, now=now, error="disk full")
    buried(agent=agent, now=now, error=NO_MODULE)
    of("disk").grouped.all().delete()
    query = {"q": "agent:gemini"}
    page = browser.get(URL, query)
    assert rows(page) == [str(of("disk").pk)] and "disk full 3 failures" in words(page)
    assert "3 failures by 2 agents" in words(browser.get(address(of("disk"))))
    exported = browser.get(
        reverse("dashboard:patterns_export", args=["jsonl"]), {"sort": "failures"}
    )
    lines = b"".join(exported.streaming_content).splitlines()  # type: ignore[attr-defined]
    found = {line["id"]: line["failures"] for line in map(json.loads, lines)}
    assert found == {str(of("Module").pk): 1, str(of("disk").pk): 3}
    assert list(found.values()) == [1, 3]


def test_recurring_pattern_is_open_and_marked(browser: Client, agent: Agent, now: datetime) -> None:
    buried(agent=agent, now=now - HOUR, error="disk full")
    patterns.resolve([of("disk").pk], stamp=Stamp(MARA, now - HOUR))
    assert rows(browser.get(URL)) == []
    assert "Every failure pattern is resolved or ignored" in words(browser.get(URL))
    buried(agent=agent, now=now, error="disk full")
    assert "Came back" in words(browser.get(URL))


def test_pages_lead_to_each_other(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE", 2)
    for word in ("one", "two", "three"):
        buried(agent=agent, now=now, error=word)
    for sort in ("", "failures", "-failures", "first"):
        first = browser.get(URL, {"sort": sort})
        second = browser.get(URL, {"sort": sort, "before": rows(first)[-1]})
        assert len(rows(first)) == 2 and len(rows(second)) == 1
        assert f"before={rows(first)[-1]}" in html(first)
        assert f"after={rows(second)[0]}" in html(second)
        assert rows(browser.get(URL, {"sort": sort, "after": rows(second)[0]})) == rows(first)
    for nonsense in ("0", "x", "²", str(uuid4())):
        assert browser.get(URL, {"before": nonsense}).status_code == 200


def test_a_poll_is_empty_until_something_happens(
    browser: Client, part: Part, agent: Agent, now: datetime
) -> None:
    buried(agent=agent, now=now - MINUTE)
    for n, path in enumerate((URL, address(FailurePattern.objects.get()))):
        since = key(browser.get(path))
        assert part(path, since=since).status_code == 204
        buried(agent=agent, now=now + n * MINUTE)
        assert part(path, since=since).status_code == 200


def test_a_page_costs_at_most_15_statements_whatever_the_rows(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    buried(agent=agent, now=now, error="disk full")
    few, one = statements(browser, URL), statements(browser, address(of("disk")))
    for n in range(12):
        other = make_agent(f"agent-{n}")
        buried(agent=other, now=now, error=f"boom {'x' * n}")
        buried(agent=other, now=now, error="disk full")
    assert statements(browser, URL) == few <= 15
    assert statements(browser, address(of("disk"))) == one <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 4


# ---- one


def test_pattern_shows_examples_and_fixes(browser: Client, agent: Agent, now: datetime) -> None:
    first = buried("Stem", agent=agent, now=now - HOUR, error=NO_MODULE)
    make_task(
        TaskState.ESCALATED,
        "Parse",
        agent=make_agent("gemini"),
        now=now - MINUTE,
        why={"message": NO_MODULE.replace("lxml", "bs4"), "root_cause_guess": "the wheel is old"},
    )
    page = browser.get(address(of("Module")))
    text = words(page)
    assert "2 failures by 2 agents" in text
    assert "2 tasks are stuck : 1 dead letter, 0 pending retries, 1 open question ." in text
    assert '<span class="mk">‹text›</span>' in html(page)
    assert "No module named 'bs4'" in text and NO_MODULE in text
    assert "Likely cause (reported by the agent) the wheel is old" in text
    assert "Suggested fix (known error) Add it to the project" in text
    assert f'href="/tasks/{first.task_id}/"' in html(page)
    assert browser.get("/search/", {"q": str(of("Module").pk)})["Location"] == address(of("Module"))
    assert browser.get(f"{URL}{uuid4()}/").status_code == 404


RETRY = "/operations/new/task.retry/"


def test_retry_all_is_an_operation_on_the_stuck_tasks(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Counted and asked first, for one pattern and for several; other tasks stay as they are."""
    letter = buried(agent=agent, now=now, error="disk full")
    asked = make_task(TaskState.ESCALATED, agent=agent, now=now, why={"message": "disk full"})
    other = buried(agent=agent, now=now, error="no route")
    page = address(of("disk"))
    assert f'action="{RETRY}"' in html(browser.get(page)) and RETRY in html(browser.get(URL))
    form: dict[str, Any] = {"of": "patterns", "id": str(of("disk").pk), "next": page}
    question = browser.post(RETRY, form)
    assert "Retry 2 stuck tasks?" in words(question)
    assert f'href="{page}"' in html(question) and not Operation.objects.exists()
    assert "2 tasks will be retried" in said(browser, RETRY, form | {"confirmed": "yes"})
    operation = Operation.objects.get()
    assert operation.query == f"pattern:{of('disk').fingerprint[:12]}"
    assert set(operation.items.values_list("subject_id", flat=True)) == {letter.task_id, asked.pk}
    found = html(browser.get("/tasks/", {"q": operation.query}))
    assert [f"/tasks/{id}/" in found for id in (letter.task_id, asked.pk, other.task_id)] == [
        True,
        True,
        False,
    ]
    both = form | {"id": [str(of(word).pk) for word in ("disk", "no")]}
    assert "Retry 3 stuck tasks?" in words(browser.post(RETRY, both))
    assert "Select at least one pattern" in said(browser, RETRY, {"of": "patterns"})
    letter.refresh_from_db()
    assert letter.closed_at is None and other.closed_at is None


def test_the_buttons_are_the_legal_moves(browser: Client, agent: Agent, now: datetime) -> None:
    buried(agent=agent, now=now, error="disk full")
    verbs = {
        PatternState.IGNORED: "ignore",
        PatternState.RESOLVED: "resolve",
        PatternState.OPEN: "reopen",
    }
    for state in PatternState:
        targets = allowed_pattern_moves(state, Who.PERSON)
        FailurePattern.objects.update(**{"state": state})
        page = html(browser.get(address(of("disk"))))
        for to, verb in verbs.items():
            path = f'action="{address(of("disk"))}{verb}/"'
            assert (path in page) == (to in targets and to != state), (state, verb)


def test_ignore_resolve_and_reopen(browser: Client, agent: Agent, now: datetime) -> None:
    buried(agent=agent, now=now, error="disk full")
    page = address(of("disk"))
    assert said(browser, f"{page}ignore/", {"for": "3600"}) == "1 pattern ignored for 1 hour."
    assert said(browser, f"{page}reopen/", {}) == "1 pattern reopened."
    ignored = browser.post(f"{page}ignore/", {"for": "3600"}, follow=True)
    undo = f'class="toast__more".{{,200}}action="{URL}reopen/all/[?]id={of("disk").pk}"'
    assert re.search(undo, html(ignored))
    until = of("disk").ignored_until
    assert until and timedelta(minutes=59) < until - now < timedelta(minutes=62)
    assert "until" in words(browser.get(page))
    assert said(browser, f"{page}reopen/", {}) == "1 pattern reopened."
    assert said(browser, f"{page}ignore/", {"for": "x"}) == "1 pattern ignored indefinitely."
    assert said(browser, f"{page}resolve/", {}) == "1 pattern resolved."
    assert "Nothing changed" in said(browser, f"{page}resolve/", {})
    assert "mara resolved the failures" in words(browser.get("/"))
    assert Event.objects.filter(kind__startswith="pattern.").count() == 6


def test_many_at_once(browser: Client, agent: Agent, now: datetime) -> None:
    for word in ("one", "two", "three"):
        buried(agent=agent, now=now, error=word)
    ids = [str(of(word).pk) for word in ("one", "two")]
    resolved = browser.post(f"{URL}resolve/all/", {"id": ids}, follow=True)
    assert "2 patterns resolved." in words(resolved)
    assert FailurePattern.objects.filter(state="open").get() == of("three")
    [undo] = re.findall(
        r'class="toast__more">\s*<form method="post" action="([^"]+)"', html(resolved)
    )
    assert said(browser, unescape(undo), {}) == "2 patterns reopened."
    assert FailurePattern.objects.filter(state="open").count() == 3
    said(browser, f"{URL}resolve/all/", {"id": ids[:1]})
    some = browser.post(f"{URL}ignore/all/", {"id": ids}, follow=True)
    assert 'class="toast__more"' not in html(some)  # one of them would not be as it was
    assert "Select at least one pattern" in said(browser, f"{URL}ignore/all/", {})


@pytest.mark.parametrize("verb", ["ignore", "resolve", "reopen", "explode"])
def test_looking_never_acts_and_strangers_never_do(
    browser: Client, agent: Agent, now: datetime, verb: str
) -> None:
    buried(agent=agent, now=now, error="disk full")
    for path in (f"{address(of('disk'))}{verb}/", f"{URL}{verb}/all/"):
        assert browser.get(path).status_code == 405
        assert Client().post(path)["Location"].startswith("/sign-in/")
        assert Client(enforce_csrf_checks=True).post(path).status_code == 403
    assert browser.post(f"{URL}{uuid4()}/{verb}/").status_code == 404
    assert of("disk").state == PatternState.OPEN


def test_hostile_text_stays_text(browser: Client, agent: Agent, now: datetime) -> None:
    bad = "<script>alert(1)</script>"
    buried(bad, agent=agent, now=now, error=bad, why={"suggested_fix": bad})
    for path in (URL, address(FailurePattern.objects.get()), f"{URL}?q={bad}"):
        assert bad not in browser.get(path).content.decode()


def test_fixes_are_shown_by_signature_and_judged(browser: Client, agent: Agent) -> None:
    """With their counts beside plain retries; a promoted or retired one says who did it."""
    for n in range(3):
        fixed(agent, "Add uuid", works=True, now=NOW + n * HOUR)
    fixed(agent, "Pin it", works=False, now=NOW + 4 * HOUR, message=MISSING.replace("uuid", "lxml"))
    page = address(of("Cannot find"))
    shown = words(browser.get(page))
    assert "Plain retries of this pattern, without a fix: 0 of 0 worked." in shown
    assert "Add uuid Advice for uuid : worked 3 of 3, last by mara" in shown
    assert "Pin it Tried for lxml : worked 0 of 1, last by mara" in shown
    advice, tried = fixes.list_learned_fixes(of("Cannot find").pk)
    chosen = {"signature": tried.signature, "key": tried.key}
    done = browser.post(f"{page}fix/promote/", chosen, follow=True)
    assert "Promoted. Attempts after such errors now get it." in words(done)
    assert "Pin it Promoted for lxml : worked 0 of 1" in words(done)
    retire = {"signature": advice.signature, "key": advice.key}
    done = browser.post(f"{page}fix/retire/", retire, follow=True)
    assert re.search(r"Add uuid Retired for uuid .*, retired by mara", words(done))
    assert "Reset. Its counts decide" in words(
        browser.post(f"{page}fix/reset/", retire, follow=True)
    )
    gone = browser.post(f"{page}fix/retire/", {"signature": "x", "key": "y"}, follow=True)
    assert "Nothing was changed." in words(gone)
    assert browser.post(f"{page}fix/burn/", retire).status_code == 404
    journaled = Event.objects.filter(kind__startswith="pattern.fix_").order_by("id")
    assert [each.kind for each in journaled] == [
        "pattern.fix_promoted",
        "pattern.fix_retired",
        "pattern.fix_reset",
    ]
