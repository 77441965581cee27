"""The inbox at volume: groups, filters with counts, orders, snooze, and where a person goes next."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from dashboard.escalations import queries
from dashboard.escalations.inbox import outline as inbox_outline
from dashboard.escalations.inbox import page as inbox
from dashboard.escalations.inbox import selection as inbox_queries
from dashboard.escalations.inbox.filters import REASONS
from ledger.journal import Actor, Stamp
from ledger.models import Agent, Event, Task
from ledger.states import TaskState
from retries.escalations import assignment
from retries.models import Escalation, FailurePattern, Operation
from tests.dashboard.escalations.test_escalations import PART, URL, address, ignored, jonas_answers
from tests.dashboard.escalations.test_task_escalations import asked
from tests.dashboard.seen import html, rows, words
from tests.dashboard.worked import enqueued, failed, make_plan
from tests.factories import make_agent, make_project
from tests.retries.operations.worlds import run

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LXML, TABLE = "No module named 'lxml'", 'relation "invoices" does not exist'
MARA = Actor("user", "1", "mara")


def escalated(agent: Agent, title: str, error: str, *, now: datetime, **more: Any) -> Escalation:
    """The escalation of a task that failed its only attempt."""
    id = enqueued(agent, title, now=now, max_attempts=1, on_exhausted="escalate", **more)
    failed(agent, id, now=now, type="verification_failed", message=error)
    return Escalation.objects.get(task=id)


def groups(page: Any) -> list[tuple[str, int, int]]:
    """The keys of the groups with their numbers of escalations and of waiting tasks."""
    return [(each.key, each.count, each.waiting) for each in page.context["inbox"].groups]


def counts(page: Any) -> dict[str, int]:
    inbox = page.context["inbox"]
    facets = [*inbox.chips, *inbox.agents, *inbox.plans, *inbox.assignees]
    return {each.label: each.count for each in facets if each.count}


def lines(page: Any) -> list[str]:
    return [each.title for group in page.context["inbox"].groups for each in group.lines]


@pytest.fixture
def world(agent: Agent, now: datetime) -> dict[str, Escalation]:
    """Two patterns with two and three escalations, a question, and an ignored instruction."""
    codex = make_agent("codex")
    _, ids = make_plan("03-01", [("Ledger", [])], now=now, agent=codex)
    failed(codex, ids[0], now=now - 2 * HOUR, message=TABLE)
    made = {
        "t1": Escalation.objects.get(task=ids[0]),
        "t2": escalated(agent, "t2", TABLE, now=now - 90 * MINUTE),
        "l1": escalated(agent, "l1", LXML, now=now - 50 * MINUTE),
        "l2": escalated(agent, "l2", LXML, now=now - 40 * MINUTE),
        "l3": escalated(codex, "l3", LXML, now=now - 30 * MINUTE),
        "q": asked(agent, now=now - 20 * MINUTE),
        "i": ignored(agent, "Run df -h", now=now - 10 * MINUTE),
    }
    # two tasks wait for l2 and one of them for l3 too: three waits, two tasks
    enqueued(agent, "w1", now=now, needs=[made["l2"].task_id, made["l3"].task_id])
    enqueued(agent, "w2", now=now, needs=[made["l2"].task_id])
    return made


def test_groups_have_counts_and_singles_come_last(
    browser: Client, world: dict[str, Escalation]
) -> None:
    page = browser.get(URL)
    lxml, table = (str(p.pk) for p in FailurePattern.objects.order_by("-first_seen"))
    assert groups(page) == [(lxml, 3, 2), ("one-of-a-kind", 2, 0), (table, 2, 0)]
    assert lines(page)[:3] == ["l2", "l3", "l1"], "most waiting first, then the oldest"
    said = words(page)
    assert "Answer all 3…" in said and "2 agents · 2 tasks wait" in said
    assert said.count("Answer all") == 2 and "All 7, in 3 groups" in said
    assert f'hx-get="{address(world["l2"])}?list=yes"' in html(page)
    by_age = browser.get(URL, {"sort": "oldest"})
    assert [key for key, _, _ in groups(by_age)] == [table, lxml, "one-of-a-kind"]
    flat = browser.get(URL, {"sort": "newest", "group": "none"})
    assert lines(flat) == ["Run df -h", "Clean up", "l3", "l2", "l1", "t2", "Ledger"]
    assert len(groups(browser.get(URL, {"group": "agent"}))) == 2
    assert ("no-plan", 6, 2) in groups(browser.get(URL, {"group": "plan"}))
    assert len(groups(browser.get(URL, {"group": "reason"}))) == 3


def test_each_count_leaves_out_its_own_filter_alone(
    browser: Client, world: dict[str, Escalation], now: datetime
) -> None:
    stamp, every = Stamp(MARA, now), Escalation.objects.all()
    assignment.assign(world["l1"].pk, "mara", among=every, stamp=stamp)
    assert counts(browser.get(URL)) == {
        "New in the last hour": 5,
        "Failed": 5,
        "Asks": 1,
        "No acknowledgment": 1,
        "Blocks other tasks": 2,
        "Older than 1 h": 2,
        "Assigned to me": 1,
        "Unassigned": 6,
        "coder": 5,
        "codex": 2,
        "03-01": 1,
        "mara": 1,
    }
    page = browser.get(URL, {"q": "agent:coder reason:failed"})
    assert sorted(lines(page)) == ["l1", "l2", "t2"] and "3 of 7" in words(page)
    told = counts(page)
    assert (told["coder"], told["codex"]) == (3, 2), "agents under the reason alone"
    assert (told["Failed"], told["Asks"]) == (3, 1), "reasons under the agent alone"
    assert told["Blocks other tasks"] == 1 and "mara" in told
    for text, found in {
        "pattern:lxml": ["l1", "l2", "l3"],
        "-pattern:lxml reason:failed": ["Ledger", "t2"],
        "assignee:me": ["l1"],
        "assignee:none blocks:yes": ["l2", "l3"],
        "-blocks:yes reason:failed": ["Ledger", "l1", "t2"],
        "older:1h": ["Ledger", "t2"],
        "plan:03-01": ["Ledger"],
        "df": ["Run df -h"],
        "invoices": ["Ledger", "t2"],
        "reason:asks,no-answer": ["Clean up", "Run df -h"],
        f"{world['l1'].pk}": ["l1"],
        "100% _": [],
    }.items():
        assert sorted(lines(browser.get(URL, {"q": text}))) == found, text
    unknown = words(browser.get(URL, {"q": "reason:fialed agnt:coder"}))
    assert "Did you mean “failed”?" in unknown and "Did you mean “agent:coder”?" in unknown
    none = browser.get(URL, {"q": "nowhere"})
    assert "No open escalation matches" in words(none)


def test_a_deep_link_is_selected_and_stands_above_a_filter_that_hides_it(
    browser: Client, world: dict[str, Escalation]
) -> None:
    page = browser.get(address(world["t2"]))
    inbox = page.context["inbox"]
    (group,) = [each for each in inbox.groups if each.is_open]
    assert [each.current for each in group.lines] == [False, True] and inbox.place == 7
    assert "7 of 7" in words(page) and "Not in this filter" not in words(page)
    hidden = browser.get(address(world["t2"]), {"q": "pattern:lxml"})
    assert "Not in this filter" in words(hidden)
    assert html(hidden).count('aria-current="true"') > 0 and not hidden.context["inbox"].place


def test_the_next_of_the_same_group_opens_and_undo_goes_back(
    browser: Client, world: dict[str, Escalation], now: datetime
) -> None:
    def goes_to(escalation: Escalation, **params: str) -> str:
        path = f"{address(escalation)}answer/?{'&'.join(f'{k}={v}' for k, v in params.items())}"
        form = {"action": "retry", "version": escalation.version}
        found: str = browser.post(path, form, headers=PART)["HX-Redirect"]
        return found

    url = goes_to(world["l3"], sort="waiting")
    assert url.startswith(address(world["l1"])) and f"answered={world['l3'].pk}" in url
    page = browser.get(url)
    assert "Retry granted to codex" in words(page) and "data-focus" in html(page)
    back = browser.post(f"{address(world['l3'])}undo/", follow=True)
    assert "Answer undone." in words(back) and Escalation.objects.open().count() == 7
    assert goes_to(world["l1"]).startswith(address(world["l2"])), "the group's first, at its end"
    assert goes_to(world["i"]).startswith(address(world["q"]))
    assert goes_to(world["q"]).startswith(address(world["t1"])), "the first one of the next group"


def test_a_snoozed_one_leaves_the_inbox_and_its_counts(
    browser: Client, world: dict[str, Escalation], now: datetime
) -> None:
    path = f"{address(world['l2'])}snooze/"
    said = browser.post(path, {"until": "hour"}, follow=True)
    assert "Snoozed until" in words(said)
    page = browser.get(URL)
    assert groups(page)[0][1:] == (2, 1) and "6 need an answer" in words(page)
    listed = browser.get(URL, {"state": "snoozed"})
    assert "Snoozed 1" in words(listed) and "Snoozed by mara · 2 tasks need it" in words(listed)
    assert "Bring it back now" in words(browser.get(address(world["l2"])))
    undo = re.search(rf'action="({path}\?[^"]*until=now)"', html(said))
    assert undo and browser.post(undo[1]).status_code == 302
    assert groups(browser.get(URL))[0][1:] == (3, 2)
    own = {"until": "own", "own": "2020-01-01T10:00", "zone": "Europe/Berlin"}
    assert "Choose a time in the future" in words(browser.post(path, own, follow=True))
    for bad in ({}, {"until": "own", "own": "soon"}, {"until": "x\0"}, own | {"zone": "\0../x"}):
        assert browser.post(path, bad).status_code == 302
    assert Escalation.objects.snoozed(now).count() == 0
    when = (now + 2 * HOUR).strftime("%Y-%m-%dT%H:%M")
    browser.post(path, {"until": "own", "own": when, "zone": "UTC"})
    until = Escalation.objects.get(pk=world["l2"].pk).snoozed_until
    assert until and f"{until:%Y-%m-%dT%H:%M}" == when
    assert Event.objects.filter(kind="escalation.snoozed").count() == 2


def test_pages_and_long_groups(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(24):
        escalated(agent, f"t{number}", LXML, now=now - number * MINUTE)
    page = browser.get(URL)
    assert len(lines(page)) == 20 and "Show 4 more" in words(page)
    whole = re.search(r'href="([^"]*whole=[^"#]*)', html(page))
    assert whole and len(lines(browser.get(whole[1]))) == 24
    flat = browser.get(URL, {"group": "none", "page": "2"})
    assert len(lines(flat)) == 24, "the last page, if there are fewer"
    assert browser.get(URL, {"page": "nonsense"}).status_code == 200


def test_a_deep_link_shows_the_page_of_its_line(
    browser: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    """More than 25 groups, and a line beyond the first 20 of its group."""
    made = []
    for number in range(27):
        error = f"{'abcdefghijklmnopqrstuvwxyz-'[number] * 5} is missing"
        for copy in range(2):
            at = now - (100 - number - copy) * MINUTE
            made.append(escalated(agent, f"t{number}.{copy}", error, now=at))
    first = browser.get(URL)
    inbox = first.context["inbox"]
    assert len(groups(first)) == 25 and inbox.group_count == 27
    assert inbox.first == made[0].pk and inbox.older == "?page=2" and not inbox.newer
    page = browser.get(URL, {"page": "2"})
    inbox = page.context["inbox"]
    assert sorted(lines(page)) == ["t25.0", "t25.1", "t26.0", "t26.1"]
    assert inbox.first == made[50].pk and inbox.newer == "?page=1" and not inbox.older
    assert f'hx-get="{address(made[50])}?page=2&list=yes"' in html(page), "as a poll does"
    polled = browser.get(f"{address(made[0])}?page=2&list=yes")
    assert sorted(lines(polled)) == ["t25.0", "t25.1", "t26.0", "t26.1"]
    deep = browser.get(address(made[52]))
    inbox = deep.context["inbox"]
    assert sorted(lines(deep)) == ["t25.0", "t25.1", "t26.0", "t26.1"] and inbox.place == 53
    assert inbox.before == address(made[51]) and inbox.after == address(made[53])
    assert "Not in this filter" not in words(deep)
    assert statements(browser, address(made[52])) <= 15
    flat = browser.get(address(made[30]), {"group": "none", "sort": "oldest"})
    assert len(lines(flat)) == 25 and "t15.0" in lines(flat) and flat.context["inbox"].newer


def test_a_line_stands_among_its_neighbors(browser: Client, agent: Agent, now: datetime) -> None:
    """Beyond the first 20 of a group, so that the next line follows it."""
    made = [escalated(agent, f"t{n}", LXML, now=now - (90 - n) * MINUTE) for n in range(40)]
    page = browser.get(address(made[25]))
    assert lines(page) == [f"t{n}" for n in range(15, 35)]
    assert "Show 15 before" in words(page) and "Show 5 more" in words(page)
    assert lines(browser.get(address(made[39]))) == [f"t{n}" for n in range(20, 40)]
    whole = re.search(r'href="([^"]*whole=[^"#]*)', html(page))
    assert whole and len(lines(browser.get(whole[1]))) == 40


def test_a_group_too_long_for_a_page_is_read_in_pages(
    browser: Client, world: dict[str, Escalation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the term that finds this group alone; without one, around the next line."""
    monkeypatch.setattr(inbox_outline, "FIRST_LINES", 1)
    monkeypatch.setattr(inbox_outline, "LINES", 1)
    monkeypatch.setattr(inbox_outline, "MOST_LINES", 1)
    monkeypatch.setattr(inbox, "MOST_LINES", 1)
    for group, counted in {
        "pattern": [1, 2, 3],
        "agent": [2, 5],
        "plan": [],
        "reason": [5],
    }.items():
        page = browser.get(URL, {"group": group, "q": "older:1m"})
        found = []
        for each in page.context["inbox"].groups:
            if "group=none" in each.after_url:
                more = browser.get(each.after_url)
                assert "older:1m" in more.context["inbox"].query.text
                assert len(lines(more)) == each.count
                found.append(each.count)
        assert sorted(found) == [n for n in counted if n > 1], group
    single = browser.get(URL).context["inbox"].groups[1]
    assert (single.key, single.count) == ("one-of-a-kind", 2)
    assert single.after_url.startswith(address(world["i"]))
    more = browser.get(single.after_url)
    assert "Run df -h" in lines(more) and "Show 1 before" in words(more)


def test_a_line_is_the_headline_of_its_last_failure(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """Not the first line of what a check printed."""
    printed = "\n".join(
        ["===== test session starts =====", *["tests/test_a.py ."] * 90, f"E   {LXML}", "1 failed"]
    )
    made = escalated(agent, "t", printed, now=now)
    page = browser.get(URL)
    (line,) = [each for group in page.context["inbox"].groups for each in group.lines]
    assert line.text.endswith(LXML) and line.is_error
    told = words(browser.get(address(made)))
    assert told.index(LXML, told.index("Last error")) < told.index("test session starts")


def test_lines_are_sorted_by_pattern_in_every_grouping(
    browser: Client, agent: Agent, world: dict[str, Escalation]
) -> None:
    flat = browser.get(URL, {"group": "none", "sort": "pattern"})
    assert lines(flat)[:5] == ["l2", "l3", "l1", "Ledger", "t2"], "without a pattern comes last"
    grouped = browser.get(URL, {"group": "reason", "sort": "pattern"})
    assert lines(grouped)[:3] == ["l2", "l3", "l1"]
    by_pattern = browser.get(URL, {"sort": "pattern"})
    assert [count for _, count, _ in groups(by_pattern)] == [3, 2, 2]


def test_overview_counts_what_waits_like_the_inbox(
    browser: Client, world: dict[str, Escalation]
) -> None:
    """Every task that needs it and is not final, also one that a person let start."""
    Task.objects.filter(title="w2").update(state=TaskState.QUEUED, blocked_reason=None)
    listed = browser.get(URL, {"group": "none"}).context["inbox"].groups[0].lines
    waiting = {each.id: each.waiting for each in listed}
    home = browser.get("/")
    for each in home.context["questions"].lines:
        assert each.waiting == waiting[each.id]
    assert waiting[world["l2"].pk] == home.context["causes"].waiting == 2


def test_a_pattern_is_looked_for_in_its_project_alone(agent: Agent, now: datetime) -> None:
    """However many patterns of others have the same words."""
    other = make_agent("codex", project=make_project("other"))
    for each in (agent, other):
        escalated(each, "t", LXML, now=now)
    found = inbox_queries.list_patterns(["lxml"], other.project)
    assert found == [FailurePattern.objects.get(project=other.project).pk]
    assert len(inbox_queries.list_patterns(["lxml"], None)) == 2


def test_a_snooze_ends_by_itself(
    browser: Client, world: dict[str, Escalation], now: datetime
) -> None:
    until = {"snoozed_until": now + HOUR, "snoozed_by_name": "mara"}
    Escalation.objects.filter(pk=world["l2"].pk).update(**until)
    assert groups(browser.get(URL))[0][1:] == (2, 1)
    Escalation.objects.filter(pk=world["l2"].pk).update(snoozed_until=now - MINUTE)
    page = browser.get(URL)
    assert groups(page)[0][1:] == (3, 2) and "7 need an answer" in words(page)
    assert "Snoozed 0" in words(page)


@pytest.mark.parametrize("state", ["snoozed", "answered"])
def test_the_other_lists_are_filtered_and_have_pages(
    browser: Client,
    world: dict[str, Escalation],
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    statements: Callable[..., int],
    state: str,
) -> None:
    if state == "snoozed":
        Escalation.objects.update(snoozed_until=now + HOUR, snoozed_by_name="mara")
    else:
        for each in world.values():
            jonas_answers(each, "skip", now)
    for query, found in {
        "agent:codex": 2,
        "pattern:lxml": 3,
        "-pattern:lxml reason:failed": 2,
        "plan:03-01": 1,
        "lxml": 3,
        "reason:asks,no-answer": 2,
    }.items():
        page = browser.get(URL, {"state": state, "q": query})
        assert len(rows(page, "esc")) == found, query
        assert f"{found} found" in words(page), query
        assert f'value="{query}"' in html(page), "the box keeps it"
        assert statements(browser, page.wsgi_request.get_full_path()) <= 15
    told = words(browser.get(URL, {"state": state, "q": "nowhere"}))
    assert f"No {state} escalation matches" in told
    told = words(browser.get(URL, {"state": state, "q": "agnt:codex"}))
    assert "Did you mean “agent:codex”?" in told
    monkeypatch.setattr(queries, "PAGE", 2)
    seen: list[str] = []
    link = f"{URL}?state={state}&q=pattern:lxml"
    for count in (2, 1):
        page = browser.get(link)
        assert len(rows(page, "esc")) == count
        seen += rows(page, "esc")
        pager = html(page).partition('id="list-pager"')[2]
        link = re.findall(r'href="([^"]*(?:before)=[^"]*)"', pager)[0] if count == 2 else ""
    assert len(set(seen)) == 3


@pytest.mark.parametrize("state", ["snoozed", "answered"])
def test_the_other_lists_are_read_from_either_end(
    browser: Client,
    world: dict[str, Escalation],
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    for number, each in enumerate(world.values()):
        if state == "snoozed":
            until = {"snoozed_until": now + (number + 1) * HOUR, "snoozed_by_name": "mara"}
            Escalation.objects.filter(pk=each.pk).update(**until)
        else:
            jonas_answers(each, "skip", now + timedelta(seconds=number))
    first = rows(browser.get(URL, {"state": state}), "esc")
    turned = rows(browser.get(URL, {"state": state, "sort": "oldest"}), "esc")
    assert len(first) == len(world) and turned == first[::-1]
    text = browser.get("/escalations/export/jsonl/", {"state": state, "sort": "oldest"})
    exported = b"".join(text.streaming_content).splitlines()
    assert [json.loads(line)["id"] for line in exported] == turned
    monkeypatch.setattr(queries, "PAGE", 2)
    link, seen = f"{URL}?state={state}&sort=oldest&q=reason:failed", list[str]()
    while link:
        page = browser.get(link)
        seen += rows(page, "esc")
        pager = html(page).partition('id="list-pager"')[2].partition("</nav>")[0]
        links = re.findall(r'href="([^"]*before=[^"]*)"', pager)
        link = links[0] if links else ""
    of_reason = Escalation.objects.filter(reason__in=REASONS["failed"])
    wanted = set(map(str, of_reason.values_list("pk", flat=True)))
    assert seen == [id for id in turned if id in wanted] and len(seen) > 2
    up = re.findall(r'href="([^"]*after=[^"]*)"', pager)[0]
    last = len(rows(page, "esc"))
    assert rows(browser.get(up), "esc") == seen[-last - 2 : -last]
    opened = browser.get(f"/escalations/{turned[1]}/?state={state}&sort=oldest")
    assert f"/escalations/{turned[0]}/?state={state}&sort=oldest" in html(opened), "rows keep it"


def test_only_an_opened_page_is_seen(browser: Client, world: dict[str, Escalation]) -> None:
    """A phone shows the list without the first one, so the list alone notes nothing."""
    seen = Escalation.objects.exclude(seen_at=None)
    first = browser.get(URL).context["inbox"].first
    browser.get(f"/escalations/{first}/?list=yes")
    assert not seen.exists()
    browser.head(f"/escalations/{first}/")
    assert seen.get().pk == first


def test_the_number_of_escalations_costs_no_statement(
    browser: Client, world: dict[str, Escalation], statements: Callable[..., int]
) -> None:
    for path in (URL, *(address(each) for each in world.values())):
        assert statements(browser, path, {"q": "reason:failed,asks,no-answer"}) <= 15, path
    assert statements(browser, URL, {"state": "snoozed"}) <= 15


def test_a_viewer_sees_no_form_and_no_snooze(
    world: dict[str, Escalation], django_user_model: type[User], now: datetime
) -> None:
    eve = django_user_model.objects.create_user("eve", is_staff=True)
    rights = Permission.objects.filter(codename__startswith="view_")
    eve.user_permissions.set(rights)
    reader = Client()
    reader.force_login(eve)
    told = html(reader.get(address(world["l1"])))
    assert "Answer all" not in told and "/snooze/" not in told and 'id="read-only"' in told
    assert "data-pick" not in told and "bulk-form" not in told
    path = f"{address(world['l1'])}snooze/"
    assert reader.post(path, {"until": "hour"}).status_code == 403
    assert not Escalation.objects.snoozed(now).exists()


# ---- what just broke, and many at once


def test_what_just_broke_comes_first(
    browser: Client, agent: Agent, world: dict[str, Escalation], now: datetime
) -> None:
    """OPR-3: new before old, then severity, growth and size; each order has its address."""
    asked(agent, now=now - 3 * HOUR, severity="high")  # equal to the question of the world
    page = browser.get(URL)
    lxml, table = (str(p.pk) for p in FailurePattern.objects.order_by("-first_seen"))
    same = page.context["inbox"].groups[0]
    assert (same.name, same.count, same.growth, same.is_severe) == ("Drop the table?", 2, 1, True)
    others = (lxml, "one-of-a-kind", table)
    assert [each.key for each in page.context["inbox"].groups[1:]] == list(others)
    headings = [each.heading for each in page.context["inbox"].groups]
    assert headings == ["New in the last hour · 5", "", "", "Waiting longer · 2"]
    Escalation.objects.filter(pk=world["t2"].pk).update(severity="high")
    assert [key for key, _, _ in groups(browser.get(URL))] == [same.key, *others]
    for sort, order in {
        "growth": [lxml, same.key, table, "one-of-a-kind"],
        "size": [lxml, same.key, table, "one-of-a-kind"],
        "seen": [same.key, lxml, table, "one-of-a-kind"],
    }.items():
        page = browser.get(URL, {"sort": sort})
        assert [key for key, _, _ in groups(page)] == order, sort
        assert "Waiting longer" not in words(page)
    for text, found in {
        "severity:high": ["Clean up", "t2"],
        "-severity:high reason:failed": ["Ledger", "l1", "l2", "l3"],
        "seen:35m": ["Clean up", "Run df -h", "l1", "l2", "l3"],
    }.items():
        assert sorted(lines(browser.get(URL, {"q": text, "group": "none"}))) == found, text
    wrong = words(browser.get(URL, {"q": "severity:urgent seen:soon"}))
    assert "Use one of: high, normal, low." in wrong and "Try seen:24h" in wrong


def test_equal_ones_are_one_group_with_one_answer(
    browser: Client, agent: Agent, now: datetime
) -> None:
    """OPR-2: the same ignored instruction of one agent, and the same question with its options."""
    deaf, choices = make_agent("deaf"), [{"name": "yes"}, {"name": "no"}]
    equal = [ignored(deaf, "Run `df -h .`", now=now - n * HOUR) for n in range(3, 0, -1)]
    ignored(agent, "Run `df -h .`", now=now - 3 * HOUR)
    for _ in range(2):
        asked(agent, now=now - 4 * HOUR, choices=choices)
    asked(agent, now=now - 5 * HOUR)
    page = browser.get(URL, {"q": "older:1m"})
    told, questions, singles = page.context["inbox"].groups
    assert (told.count, told.name, singles.count) == (3, "Run `df -h .`", 2)
    assert (questions.count, questions.name) == (2, "Drop the table?")
    assert singles.why_not and not singles.is_answerable and words(page).count("Answer all") == 2

    form = {"matching": "yes", "q": told.answer_query}
    question = browser.post("/operations/new/escalation.answer/", form)
    said = html(question)
    assert "Answer 3 matching escalations?" in words(question) and "Run `df -h .`" in words(
        question
    )
    assert re.search(r'name="action" value="retry" checked', said)
    confirmed = form | {"confirmed": "yes", "action": "retry", "fix": ""}
    browser.post("/operations/new/escalation.answer/", confirmed)
    run(Operation.objects.get(), now=timezone.now())
    answered = Escalation.objects.filter(action="retry")
    assert {each.pk for each in answered} == {each.pk for each in equal}

    form = {"matching": "yes", "q": questions.answer_query}
    said = html(browser.post("/operations/new/escalation.answer/", form))
    assert re.search(r'name="action" value="answer" checked', said)
    assert 'name="fix" value="yes"' in said and 'name="fix" value="no"' in said
    confirmed = form | {"confirmed": "yes", "action": "answer", "fix": ["no", ""]}
    browser.post("/operations/new/escalation.answer/", confirmed)
    run(Operation.objects.latest("id"), now=timezone.now())
    assert list(Escalation.objects.filter(action="answer").values_list("fix", flat=True)) == [
        "no",
        "no",
    ]


def test_ticked_ones_are_snoozed_assigned_and_skipped(
    browser: Client, world: dict[str, Escalation], now: datetime
) -> None:
    """OPR-2: the bulk bar of Tasks, with verbs of the inbox."""
    page = html(browser.get(URL))
    assert page.count("data-pick ") == 7 and 'id="bulk-form"' in page

    def start(verb: str, *names: str, **options: str) -> Any:
        form = {"id": [str(world[name].pk) for name in names], "next": URL} | options
        return browser.post(f"/operations/new/escalation.{verb}/", form)

    times = re.findall(r'name="until" value="([^"]+)"', html(start("snooze", "l1", "q")))
    assert len(times) >= 3
    start("snooze", "l1", "q", confirmed="yes", until=times[-1])
    run(Operation.objects.latest("id"), now=timezone.now())
    snoozed = Escalation.objects.exclude(snoozed_until=None)
    assert {each.pk for each in snoozed} == {world["l1"].pk, world["q"].pk}
    wrong = start("snooze", "l2", confirmed="yes", until="soon")
    assert "Choose a time." in html(wrong, 422)

    assert '<option value="mara" selected>' in html(start("assign", "l2", "i"))
    start("assign", "l2", "i", confirmed="yes", user="mara")
    run(Operation.objects.latest("id"), now=timezone.now())
    assert Escalation.objects.filter(assignee__username="mara").count() == 2
    mine = {"matching": "yes", "q": "assignee:me", "next": URL}
    question = browser.post("/operations/new/escalation.skip/", mine)
    assert "Skip 2 matching escalations?" in words(question)
    assert "2 other tasks wait for them" in words(question)
    browser.post("/operations/new/escalation.skip/", mine | {"confirmed": "yes"})
    run(Operation.objects.latest("id"), now=timezone.now())
    skipped = Escalation.objects.filter(action="skip")
    assert {each.pk for each in skipped} == {world["l2"].pk, world["i"].pk}
