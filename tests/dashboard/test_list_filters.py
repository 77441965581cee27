"""Each key of a list finds its rows, and leaves them out after a minus."""

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client

from dashboard.activity import filters as event_filters
from dashboard.audit import counts, queries, views
from ledger import agents
from ledger.journal import Stamp
from ledger.models import Agent, DeadLetter, Instruction, Plan, Project
from retries.models import Escalation, FailurePattern
from tests.dashboard.activity.test_activity import happen
from tests.dashboard.escalations.test_inbox import escalated
from tests.dashboard.notifications.deliveries import make_channel, make_delivery
from tests.dashboard.seen import html, rows
from tests.dashboard.worked import MARA, buried, failed, make_plan
from tests.factories import make_agent, send
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import make_person, run, start

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
# the paths of lists, and what the ids of their rows begin with
LISTS = {
    "/escalations/": "esc",
    "/patterns/": "pattern",
    "/instructions/": "ins",
    "/plans/": "plan",
    "/agents/": "agent",
    "/instructions/standing/": "rule",
    "/operations/": "op",
}


@pytest.fixture
def world(agent: Agent, now: datetime) -> dict[str, list[str]]:
    """Two rows of each list, by path: the first one's task is in a plan and has timed out."""
    tester = make_agent("tester")
    plan, [first] = make_plan("03-01", [("One", [])], now=now, agent=agent)
    make_plan("04-02", [("Two", [])], now=now, agent=tester)
    failed(agent, first, now=now, type="timeout", message="no disk")
    second = escalated(tester, "Import", "no route", now=now).task_id
    for each, task in ((agent, first), (tester, second)):
        send(each, task=task, now=now)
        send(each, now=now)
    agents = Agent.objects.order_by("name")
    for count, each in enumerate(agents):
        letter = buried(agent=each, now=now, type="other", error="no memory")
        made = start(
            "dead_letter.dismiss",
            DeadLetter.objects.filter(pk=letter.pk),
            by=make_person(f"person{count}"),
            now=now - 2 * HOUR * (1 - count),
            reason=f"reason {count}",
        )
        if count == 0:
            run(made, now=now - HOUR)
    about = Instruction.objects.exclude(task=None).order_by("id")
    patterns = FailurePattern.objects.exclude(template__icontains="memory").order_by("template")
    rules = [make_rule(f"Rule {number}") for number in range(2)]
    Instruction.objects.filter(pk=about[0].pk).update(rule=rules[0])
    assert plan.ref == "03-01"
    found = {
        "/escalations/": Escalation.objects.filter(task__in=[first, second]).order_by("id"),
        "/patterns/": patterns,
        "/instructions/": about,
        "/plans/": Plan.objects.order_by("id"),
        "/agents/": agents,
        "/instructions/standing/": rules,
        "/operations/": made.__class__.objects.order_by("id"),
    }
    return {path: [str(each.pk) for each in listed] for path, listed in found.items()}


def test_a_key_finds_the_first_row_alone(browser: Client, world: dict[str, list[str]]) -> None:
    for path, query in (
        *(("/escalations/", query) for query in ("error:timeout", "error:disk", "pattern:disk")),
        *(("/patterns/", query) for query in ("plan:03-01", "error:timeout", "error:disk")),
        *(("/instructions/", query) for query in ("plan:03-01", "error:timeout", "error:disk")),
        *(("/instructions/", query) for query in ("pattern:disk", "type:code plan:03-01")),
        *(("/plans/", query) for query in ("plan:03-01", "agent:coder")),
        *(("/agents/", query) for query in ("agent:coder", "agent:coder,x")),
        *(("/operations/", query) for query in ("state:done", "by:person0", '"reason 0"')),
        *(("/operations/", query) for query in ("older:90m", "started:3h..90m")),
        *(("/instructions/standing/", query) for query in ("fired:1h", "fired:1h..")),
    ):
        first, second = world[path]
        of = LISTS[path]
        every = rows(browser.get(path, {"group": "none"}), of)
        assert {first, second} <= set(every), path
        assert rows(browser.get(path, {"q": query, "group": "none"}), of) == [first], (path, query)
        if query.startswith(("older", "started", "fired", '"')) or " " in query:
            continue
        others = rows(browser.get(path, {"q": f"-{query}", "group": "none"}), of)
        assert set(others) == set(every) - {first}, (path, query)


def test_types_on_lists_about_tasks(
    browser: Client, world: dict[str, list[str]], agent: Agent, now: datetime
) -> None:
    review = escalated(agent, "Look", "no paper", now=now, type="review")
    asked = {"q": "type:review", "group": "none"}
    assert rows(browser.get("/escalations/", asked), "esc") == [str(review.pk)]
    others = rows(browser.get("/escalations/", asked | {"q": "-type:review"}), "esc")
    assert set(others) == set(world["/escalations/"])
    told = send(agent, task=review.task_id, now=now)
    assert rows(browser.get("/instructions/", {"q": "type:review"}), "ins") == [str(told)]


def test_events_older_than_an_age(now: datetime) -> None:
    """With `until:`, the earlier of both counts."""
    for text in ("older:90m", "older:90m until:1m", "until:90m older:1m"):
        assert event_filters.parse(text, now=now).until == now - 1.5 * HOUR, text
    query = event_filters.parse("older:soon", now=now)
    assert query.until is None and "is not a duration" in query.problems[0]


@pytest.mark.parametrize(
    ("path", "key", "of"),
    [
        ("/dead-letters/", "failed", "dead"),
        ("/escalations/", "opened", "esc"),
        ("/settings/deliveries/", "sent", "delivery"),
    ],
)
def test_a_range_of_time_on_each_list(
    browser: Client, agent: Agent, now: datetime, path: str, key: str, of: str
) -> None:
    """Days are UTC's, and end with the last one's midnight."""
    escalated(agent, "Import", "no disk", now=now)
    buried(agent=agent, now=now)
    make_delivery(make_channel(now=now), now=now)
    today, tomorrow = (f"{now.astimezone(UTC) + timedelta(days=days):%F}" for days in (0, 1))
    for period, found in (
        (f"{today}..{tomorrow}", 1),
        (f"..{tomorrow}", 1),
        ("1h", 1),
        ("1h..", 1),
        ("9d..8d", 0),
        ("2026-01-01", 0),
    ):
        asked = {"q": f"{key}:{period}", "group": "time" if of == "dead" else "none"}
        assert len(rows(browser.get(path, asked), of)) == found, period
    assert "is not a time range" in html(browser.get(path, {"q": f"{key}:soon"}))


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/dead-letters/", "failed"),
        ("/escalations/", "opened"),
        ("/instructions/", "sent"),
        ("/settings/deliveries/", "sent"),
    ],
)
def test_two_days_of_a_form_become_a_term_of_the_list(
    browser: Client, project: Project, path: str, key: str
) -> None:
    """The form keeps the filter and the order, and leaves the page of another list."""
    typed = {"q": "state:open" if key == "failed" else "older:1h", "sort": "sent", "before": "x"}
    days = {f"{key}_from": "2026-11-01", f"{key}_to": "2026-11-20"}
    sent = browser.get(path, typed | days)
    query = f"{typed['q']} {key}:2026-11-01..2026-11-20"
    assert sent.status_code == 302
    assert sent.headers["Location"] == f"{path}?{urlencode({'q': query, 'sort': 'sent'})}"
    page = html(browser.get(sent.headers["Location"]))
    form = page[page.index('<form class="dates"') :].partition("</form>")[0]
    assert f'name="{key}_from" value="2026-11-01"' in form
    assert f'name="q" value="{query}"' in form and 'name="sort" value="sent"' in form
    assert 'class="listing__note hint hint--err"' not in page


def test_the_counts_of_the_audit_log_are_those_of_its_links(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signing in and what the admin does have no kind, so only the periods count them."""
    for age in (HOUR, 2 * HOUR, 50 * HOUR, 400 * HOUR, 1_000 * HOUR):
        happen(at=now - age, agent=agent, actor=MARA)
    buried(agent=agent, now=now)
    start("dead_letter.dismiss", DeadLetter.objects.order_by("id"), now=now)
    path = "/settings/audit/"
    for query in ("", "kind:instruction", "since:24h", "since:7d kind:task", "actor:mara"):
        page = browser.get(path, {"q": query})
        facets = [*page.context["nouns"], *page.context["periods"]]
        assert all(each.number == str(each.count) for each in facets)
        assert sum(each.count for each in facets) > 3
        for each in facets:
            if not each.current:
                linked = browser.get(path, {"q": each.query}).context
                assert each.count == linked["count"], (query, each)
    monkeypatch.setattr(counts, "COUNT_CAP", 2)
    numbers = {each.label: each.number for each in browser.get(path).context["periods"]}
    assert numbers["24 h"].endswith("+"), numbers


def test_the_audit_log_is_read_from_both_ends(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of all sources, whose ids and times have one order, and the export."""
    client = Client()
    for number in range(5):
        agents.pause([agent], paused=number % 2 == 0, stamp=Stamp(MARA, now))
        client.post("/sign-in/", {"username": f"stranger{number}", "password": "x"})
    monkeypatch.setattr(queries, "PAGE", 3)
    monkeypatch.setattr(views, "PAGE", 3)
    path = "/settings/audit/"

    def walk(sort: str) -> list[str]:
        """Return the ids of all pages in an order."""
        found: list[str] = []
        before = ""
        while True:
            page = browser.get(path, {"sort": sort, "before": before})
            found += [str(record.id) for record in page.context["records"]]
            if not (before := page.context["older"]):
                return found

    listed = walk("")
    assert len(listed) == 10 and listed == sorted(listed, reverse=True)
    assert walk("oldest") == listed[::-1]
    sent = browser.get(f"{path}export/jsonl/", {"sort": "oldest"})
    lines = b"".join(sent.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert [json.loads(line)["who"] for line in lines[:2]] == ["mara", "no account"]


def test_operations_are_sorted_and_counted(browser: Client, world: dict[str, list[str]]) -> None:
    first, second = world["/operations/"]
    page = browser.get("/operations/")
    assert rows(page, "op") == [second, first]
    assert {each.label: each.count for each in page.context["states"] if each.count} == {
        "All": 2,
        "Finished": 1,
        "Starts soon": 1,
    }
    assert rows(browser.get("/operations/", {"sort": "started"}), "op") == [first, second]
    assert rows(browser.get("/operations/", {"sort": "-verb"}), "op") == [second, first]
    nothing = html(browser.get("/operations/", {"q": "state:stopped"}))
    assert "No operations match" in nothing and "Show all operations" in nothing


def test_rules_are_sorted_by_their_columns(browser: Client, world: dict[str, list[str]]) -> None:
    first, second = world["/instructions/standing/"]
    for sort, listed in (
        ("", [first, second]),
        ("sent", [second, first]),
        ("name", [first, second]),
        ("-name", [second, first]),
        ("last", [first, second]),
        ("-last", [first, second]),
        ("reason", [first, second]),
    ):
        found = rows(browser.get("/instructions/standing/", {"sort": sort}), "rule")
        assert found == listed, sort


def test_a_rule_leads_to_the_next_one_of_its_list(
    browser: Client, world: dict[str, list[str]]
) -> None:
    first, second = world["/instructions/standing/"]
    listed = "/instructions/standing/"
    kept = "?q=rule&sort=-name"
    page = html(browser.get(f"{listed}{kept}"))
    assert f'href="{listed}{first}/{kept}"' in page
    page = html(browser.get(f"{listed}{first}/{kept}"))
    assert "2 of 2" in page and f'href="{listed}{second}/{kept}" rel="prev"' in page
    assert f'href="{listed}{kept}"' in page
    assert "Back to the list" in html(browser.get(f"{listed}{first}/?q=nothing"))
