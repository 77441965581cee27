"""The filters of the Tasks list by failure pattern and by the time of the last change."""

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client

from dashboard.date_range import DateRange, read_dates
from dashboard.tasks.filters import TaskQuery, parse
from dashboard.tasks.listing import common_words, facet_counts
from dashboard.tasks.listing.counts import count_tasks
from dashboard.tasks.listing.facet_counts import ChangeCounts, count_changes, count_patterns
from dashboard.tasks.listing.facets import build_facets
from ledger import search_words
from ledger.models import Agent, Project
from retries.models import FailurePattern
from tests.dashboard.seen import html, words
from tests.dashboard.worked import enqueued, failed, make_task
from tests.factories import make_agent, make_project

URL = "/tasks/"
LXML, DISK = "No module named lxml", "the disk is full"
pytestmark = pytest.mark.django_db


@pytest.fixture
def world(agent: Agent, now: datetime) -> Agent:
    """Three tasks failed for want of a module, one of them twice; two on a full disk."""
    at = now - timedelta(minutes=5)
    for n in range(3):
        start = at + timedelta(seconds=20 * n)
        id = enqueued(agent, f"Import {n}", now=start, max_attempts=5)
        for when in (start, now - timedelta(minutes=3))[: 1 + (n == 0)]:
            failed(agent, id, now=when, message=LXML, type="verification_failed", retry_after_s=0)
    for state in ("escalated", "failed"):
        why = {"message": DISK, "type": "verification_failed"}
        make_task(state, "Write", agent=make_agent("writer"), now=at, why=why)
    make_task("done", agent=agent, now=at)
    return agent


def patterns_of(text: str, project: Project | None = None) -> list[tuple[str, int, bool]]:
    query = parse(text)
    found = count_patterns(query, project, count_tasks(query, project))
    return [(each.template, each.tasks, each.are_some) for each in found]


def changes_of(text: str) -> ChangeCounts:
    query = parse(text)
    return count_changes(query, None, count_tasks(query, None))


def fingerprint_of(message: str) -> str:
    return FailurePattern.objects.get(example__contains=message).fingerprint


@pytest.mark.parametrize("short", [0, facet_counts.SHORT])
def test_tasks_are_counted_once_by_pattern_in_short_lists_and_long_ones(
    world: Agent, monkeypatch: pytest.MonkeyPatch, short: int
) -> None:
    """For any pattern, with the rest of the query."""
    monkeypatch.setattr(facet_counts, "SHORT", short)
    lxml = FailurePattern.objects.get(example__contains="lxml").template
    disk = FailurePattern.objects.get(example__contains="disk").template
    both = [(lxml, 3, False), (disk, 2, False)]
    for _ in range(2):  # also with the statement that is built once
        assert patterns_of("") == both
        assert patterns_of(f"pattern:{fingerprint_of('disk')}") == both
        assert patterns_of("agent:writer") == [(disk, 2, False)]
        assert patterns_of("state:failed,done") == [(disk, 1, False)]
        assert patterns_of("state:done") == []
        assert patterns_of("import") == [(lxml, 3, False)]


def test_a_long_list_counts_the_newest_failures_and_says_so(
    world: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facet_counts, "SHORT", 0)
    monkeypatch.setattr(facet_counts, "FAILURES_WALKED", 2)
    lxml, disk = patterns_of("")[0], patterns_of("")[1]
    assert sorted([lxml[1:], disk[1:]]) == [(2, False), (2, True)]
    assert patterns_of("state:escalated") == [(disk[0] if disk[2] is False else lxml[0], 1, False)]


def test_a_pattern_of_two_projects_is_one_in_all_projects(world: Agent, now: datetime) -> None:
    other = make_agent("coder", project=make_project("elsewhere"))
    why = {"message": DISK, "type": "verification_failed"}
    make_task("failed", agent=other, now=now, why=why)
    assert [n for _, n, _ in patterns_of("")] == [3, 3]
    assert [n for _, n, _ in patterns_of("", other.project)] == [1]
    assert [n for _, n, _ in patterns_of("", world.project)] == [3, 2]


def test_words_that_many_tasks_have_are_counted_among_the_newest(
    world: Agent, monkeypatch: pytest.MonkeyPatch, now: datetime
) -> None:
    make_task("done", "Import later", agent=world, now=now - timedelta(hours=3))
    with connection.cursor() as cursor:
        text = search_words.TASK_TEXT("t")
        cursor.execute(f"insert into ledger_taskwords select t.id, {text} from ledger_task t")
    monkeypatch.setattr(common_words, "COUNT_CAP", 0)
    assert [(n, some) for _, n, some in patterns_of("import")] == [(3, True)]
    changes = changes_of("import")
    assert (changes.tasks, changes.are_some) == ({"1h": 3, "24h": 4, "7d": 4}, True)
    monkeypatch.setattr(common_words, "MOST_COUNTED", 1)
    assert changes_of("import state:retry,done").tasks == {"1h": 0, "24h": 1, "7d": 1}
    assert patterns_of("import state:retry") != [] == patterns_of("import state:done")


def test_tasks_are_counted_by_the_time_of_their_last_change(agent: Agent, now: datetime) -> None:
    """For any time of change, with the rest of the query."""
    ages = (timedelta(minutes=2), timedelta(hours=3), timedelta(days=2), timedelta(days=8))
    for age in ages:
        for state in ("done", "queued"):
            make_task(state, agent=agent, now=now - age)
    for _ in range(2):
        assert changes_of("").tasks == {"1h": 2, "24h": 4, "7d": 6}
        assert changes_of("changed:1h").tasks == {"1h": 2, "24h": 4, "7d": 6}
        assert changes_of("state:done").tasks == {"1h": 1, "24h": 2, "7d": 3}
        assert changes_of("state:failed").tasks == {"1h": 0, "24h": 0, "7d": 0}


def test_each_filter_leads_to_the_list_that_it_counts(
    world: Agent, browser: Client, now: datetime
) -> None:
    make_task("done", agent=world, now=now - timedelta(hours=3))
    query = parse("state:retry,escalated,failed,done")
    counts = count_tasks(query, None)
    patterns = count_patterns(query, None, counts)
    facets = build_facets(query, counts, patterns, changes_of(query.text))
    for facet in (*facets.patterns, *facets.changes):
        shown = words(browser.get(URL, {"q": facet.query}))
        assert re.search(rf"(First|1 to|All) [^.]*{facet.count}\b", shown), (facet.label, shown)
    assert [facet.count for facet in facets.changes] == [6, 7, 7]


def test_the_pattern_that_is_asked_for_is_marked_and_can_be_left(
    world: Agent, browser: Client
) -> None:
    """Also by a few digits, by words, and if it is not among the frequent ones."""
    name = fingerprint_of("disk")
    page = browser.get(URL, {"q": f"agent:writer pattern:{name}"})
    assert 'aria-current="true" title="the disk is full"' in html(page)
    assert 'href="?q=agent%3Awriter"' in html(page)
    shown = html(browser.get(URL, {"q": f"pattern:{name[:6]} state:escalated"}))
    assert re.search(r'the disk is full</bdi> <span class="num">1</span>', shown)
    shown = html(browser.get(URL, {"q": "pattern:lxml agent:coder"}))
    assert re.search(r'aria-current="true" title="lxml".*?<bdi class="trunc">lxml</bdi>', shown)
    assert re.search(r'<bdi class="trunc">lxml</bdi> <span class="num">3</span>', shown)


def test_templates_are_text(agent: Agent, browser: Client, now: datetime) -> None:
    hostile = "<script>alert(1)</script> is no module"
    why = {"message": hostile, "type": "verification_failed"}
    make_task("failed", agent=agent, now=now, why=why)
    response = browser.get(URL)
    assert "is no module" in words(response)
    assert "<script>alert" not in response.content.decode()


@pytest.mark.parametrize(
    ("text", "typed", "found"),
    [
        ("agent:coder", ("2026-11-01", "2026-11-20"), "agent:coder changed:2026-11-01..2026-11-20"),
        ("changed:7d x", ("2026-11-20", "2026-11-01"), "x changed:2026-11-01..2026-11-20"),
        ("", ("2026-11-01", ""), "changed:2026-11-01.."),
        ("", ("", "2026-11-20"), "changed:..2026-11-20"),
        ("changed:7d x", ("", ""), "x"),
        ("changed:7d x", ("soon", "2026-13-40"), "x"),
        ("", ("2026-11-01 state:done", ""), ""),
    ],
)
def test_two_days_become_a_term_of_the_query(text: str, typed: tuple[str, str], found: str) -> None:
    data = QueryDict(mutable=True)
    data["changed_from"], data["changed_to"] = typed
    assert read_dates(parse(text), "changed", data) == found
    assert parse(found).problems == ()


def test_the_days_that_are_asked_for_are_shown_and_can_be_left(
    agent: Agent, browser: Client, now: datetime
) -> None:
    make_task(agent=agent, now=now)
    day = f"{now:%F}"
    typed = {"q": "agent:coder", "sort": "-task", "column": "type", "before": "x"}
    sent = browser.get(URL, typed | {"changed_from": day, "changed_to": day})
    place = f"/tasks/?q=agent%3Acoder+changed%3A{day}..{day}&sort=-task&column=type"
    assert (sent.status_code, sent.headers["Location"]) == (302, place)
    page = html(browser.get(place))
    assert f'<bdi class="trunc">{day}</bdi> <span class="num">1</span>' in page
    assert f'name="changed_from" value="{day}"' in page and 'name="column" value="type"' in page
    assert 'href="?q=agent%3Acoder&sort=-task&column=type"' in page
    cleared = browser.get(f"{place}&changed_from=&changed_to=")
    assert cleared.headers["Location"] == "/tasks/?q=agent%3Acoder&sort=-task&column=type"


@pytest.mark.parametrize(
    ("text", "range"),
    [
        ("", DateRange("changed")),
        ("changed:7d", DateRange("changed")),
        ("changed:2026-11-01", DateRange("changed", "2026-11-01", "2026-11-01")),
        ("changed:2026-11-01..", DateRange("changed", "2026-11-01")),
        ("changed:..2026-11-20", DateRange("changed", "", "2026-11-20")),
        ("changed:2026-11-01..2026-11-20", DateRange("changed", "2026-11-01", "2026-11-20")),
        ("changed:7d..2026-11-20", DateRange("changed")),
        ("changed:2026-11-01T10:00..", DateRange("changed")),
    ],
)
def test_the_form_starts_with_the_days_of_the_query(text: str, range: DateRange) -> None:
    nothing = count_tasks(parse("state:failed"), None)
    none = ChangeCounts({}, are_some=False)
    assert build_facets(parse(text), nothing, [], none).dates == range


def test_an_agent_outside_of_the_frequent_ones_has_its_count(
    browser: Client, agent: Agent, now: datetime
) -> None:
    for n in range(9):
        for _ in range(2):
            enqueued(make_agent(f"agent-{n}"), now=now)
    make_task(agent=agent, now=now)
    shown = html(browser.get(URL, {"q": "agent:coder"}))
    assert re.search(r'<bdi class="trunc">coder</bdi> </span> <span class="num">1</span>', shown)


def test_counts_depend_on_no_order_of_terms() -> None:
    assert isinstance(parse("pattern:x").patternless(), TaskQuery)
    assert parse("pattern:x agent:a").patternless() == parse("agent:a").patternless()
    assert parse("changed:7d agent:a").changeless() == parse("agent:a").changeless()


@pytest.mark.usefixtures("world")
def test_lists_that_can_have_no_tasks_count_none(browser: Client) -> None:
    """Django sends no SQL for a condition that no row meets, such as a word without letters."""
    assert set(changes_of("~").tasks.values()) == {0}
    assert browser.get(URL, {"q": "~"}).status_code == 200
