"""The Activity page: filters, sentences, and the paused log."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote_plus
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from dashboard.activity import counts
from dashboard.activity import filters as activity_filters
from dashboard.activity.filters import EventQuery, parse
from dashboard.activity.queries import describe
from dashboard.activity.views import NOUN_ICONS
from dashboard.frame import live_updates
from dashboard.lists import pagination
from dashboard.sentences.event_sentence import EventSubject
from ledger import agents, instructions, journal, tokens
from ledger.journal import Actor, Kind, Stamp, person
from ledger.models import Agent, Event
from retries.escalations.answering import answer
from retries.escalations.choices import Choice
from retries.models import Escalation
from retries.states import Answer
from tests.dashboard.conftest import PART
from tests.factories import make_agent, make_project, pull, send, tick

URL = "/activity/"
Part = Callable[..., HttpResponse]
NOW = datetime(2026, 11, 21, 14, 30, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\u202e &amp;"


def html(response: HttpResponse, status: int = 200) -> str:
    assert response.status_code == status
    return re.sub(r"\s+", " ", unescape(response.content.decode()))


def words(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html(response)))


def kinds(response: HttpResponse) -> list[str]:
    """Return the kinds of the log's events, newest first."""
    return re.findall(r'<span class="ev">.*?<code>(.*?)</code>', html(response))


def ids(response: HttpResponse) -> list[str]:
    return re.findall(r'id="ev-([0-9a-f-]{36})"', html(response))


def notes(response: HttpResponse) -> list[str]:
    found = re.findall(r'<span class="log__msg">(.*?)</span> </summary>', html(response))
    return [re.sub(r"<[^>]+>", "", each).strip() for each in found]


def attribute(response: HttpResponse, name: str) -> str:
    found = re.search(rf' data-{name}="([^"]*)"', response.content.decode())
    assert found
    return unescape(found[1])


def happen(kind: Kind = Kind.AGENT_PAUSED, *, at: datetime, agent: Agent, **more: Any) -> None:
    """Record an event."""
    journal.record(
        kind,
        subject_type=more.pop("subject_type", "agent"),
        subject_id=more.pop("subject_id", agent.pk),
        project_id=agent.project_id,
        agent_id=agent.pk,
        stamp=Stamp(more.pop("actor", Actor("user", "1", "jonas")), at),
        **more,
    )


@pytest.fixture(autouse=True)
def _one_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 10**9)


@pytest.fixture
def story(agent: Agent, now: datetime) -> UUID:
    """Create an instruction acknowledged after a reminder and one that failed."""
    at = now - timedelta(minutes=20)
    id = send(agent, "Rebase on main", stamp=Stamp(Actor("token", "1", "ci"), at))
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    pull(agent, now=at + timedelta(minutes=1))
    instructions.acknowledge_instruction(id, now=at + timedelta(seconds=65))
    send(agent, "Ignored", now=at, max_retries=0, on_failed="escalate")
    pull(agent, now=at)
    tick(at + timedelta(minutes=2))
    return id


# ---- the log


def test_events_are_listed_newest_first(browser: Client, story: UUID) -> None:
    response = browser.get(URL)
    assert kinds(response) == [
        "instruction.failed",
        "escalation.opened",
        "instruction.delivered",
        "instruction.queued",
        "instruction.acknowledged",
        "instruction.delivered",
        "instruction.delivered",
        "instruction.queued",
        "agent.registered",
    ]
    assert notes(response) == [
        "“Ignored” · not acknowledged. Tenfour gave up after 0 retries",
        "“Ignored” · needs an answer",
        "“Ignored”",
        "“Ignored” to coder",
        "“Rebase on main” after 1 m 05 s",
        "“Rebase on main” again as a plain reminder",
        "“Rebase on main”",
        "“Rebase on main” to coder",
        "Registered coder",
    ]
    page = html(response)
    assert f'href="/instructions/{story}/"' in page
    assert f'href="/escalations/{Escalation.objects.get().pk}/"' in page
    assert '"retry_count": 1' in page  # the data, opened without a script
    assert "queued → delivered" in page


def test_events_are_grouped_by_their_age(browser: Client, agent: Agent, now: datetime) -> None:
    for ago in (timedelta(days=2), timedelta(hours=3), timedelta(minutes=5), timedelta(seconds=2)):
        happen(at=now - ago, agent=agent)
    ages = re.findall(r'<h2 class="log__age".*?>(.*?)</h2>', html(browser.get(URL)))
    # the agent was registered first, at a fixed time of the tests
    assert ages[:4] == ["Last minute", "Last hour", "Last 24 hours", "Older"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("kind:instruction.failed", 1),
        ("kind:instruction.failed,escalation.opened", 2),
        ("kind:instruction", 7),
        ("kind:instruction clock:shown", 8),
        ("kind:instruction.requeued", 1),
        ("by:tenfour", 9),
        ("-kind:instruction", 2),
        ("kind:instruction -kind:instruction.delivered", 4),
        ("agent:coder", 9),
        ("agent:nobody", 0),
        ("-agent:coder", 0),
        ("actor:ci", 1),
        ("actor:ci,idle_check", 3),
        ("-actor:ci", 8),
        ("by:tokens", 1),
        ("-by:tenfour", 1),
        ("by:people", 0),
        ("since:15m kind:instruction", 0),
        ("since:3h until:18m30s kind:instruction.queued", 2),  # half of it is nonsense
        ("kind:agent agent:coder by:tenfour", 1),
        ("kind:token", 0),
        ("{story}", 5),
        ("about:{story} kind:instruction.requeued", 1),
        ("agent:coder\x00 -", 9),
    ],
)
def test_a_query_filters(browser: Client, story: UUID, query: str, found: int) -> None:
    assert len(ids(browser.get(URL, {"q": query.format(story=story)}))) == found


def test_invalid_filters_are_reported_and_the_rest_applies(browser: Client, story: UUID) -> None:
    query = "kind:bananas,agent.eaten since:noon hello about:x kind:escalation"
    text = words(browser.get(URL, {"q": query}))
    assert "“bananas”. Use one of: instruction, standing_instruction, signal, task, " in text
    assert "“agent.eaten”. Use one of: agent.registered, agent.paused" in text
    assert "“since:noon” is not a time. Try since:30m" in text
    assert "“hello” is not a filter. Use kind:, agent:" in text
    assert "“about:x” is not an id" in text
    assert "needs an answer" in text


def test_empty_journal_and_no_match_differ(browser: Client, project: object, now: datetime) -> None:
    assert "No activity yet" in words(browser.get(URL))
    happen(at=now, agent=make_agent())
    text = words(browser.get(URL, {"q": "kind:token"}))
    assert "No matching events" in text and "No event matches kind:token" in text
    page = browser.get(URL, {"before": "00000000-0000-7000-8000-000000000000"})
    assert "This page of the journal is empty" in words(page)


def test_pages_by_keyset(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE", 3)
    for number in range(7):
        happen(at=now - timedelta(minutes=9 - number), agent=agent)
    every = [str(id) for id in Event.objects.order_by("-id").values_list("pk", flat=True)]
    assert ids(browser.get(URL)) == every[:3]
    second = browser.get(URL, {"before": every[2]})
    assert ids(second) == every[3:6]
    assert ids(browser.get(URL, {"before": every[5]})) == every[6:]
    assert ids(browser.get(URL, {"after": every[3]})) == every[:3]
    assert ids(browser.get(URL, {"after": every[6]})) == every[3:6]
    assert "3 older" in words(second)
    assert attribute(second, "held") == ""


def test_the_oldest_first(
    browser: Client, agent: Agent, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE", 3)
    for number in range(7):
        happen(at=now - timedelta(minutes=9 - number), agent=agent)
    every = [str(id) for id in Event.objects.order_by("id").values_list("pk", flat=True)]
    assert len(every) == 8, "the agent's registration is one"
    params = {"q": "agent:coder", "sort": "oldest"}

    def read(**place: str) -> list[str]:
        return ids(browser.get(URL, params | place))

    assert read() == every[:3]
    assert read(before=every[2]) == every[3:6]
    assert read(before=every[5]) == every[6:]
    assert read(after=every[6]) == every[3:6]
    assert read(after=every[3]) == every[:3]
    page = browser.get(URL, params)
    assert f"before={every[2]}" in html(page) and "First 3" in words(page)
    assert attribute(page, "held") == "", "new events are on another page"
    assert html(page).count('name="sort" value="oldest"') == 3, "every form keeps the order"
    text = b"".join(browser.get(f"{URL}export/jsonl/", params).streaming_content)
    assert [json.loads(line)["id"] for line in text.splitlines()] == every
    ranged = browser.get(URL, params | {"from": "2026-11-20T09:00"})
    assert ranged["Location"].endswith("&sort=oldest")


def test_counts_beside_the_log(browser: Client, story: UUID, mara: User, now: datetime) -> None:
    agents.pause(Agent.objects.all(), stamp=Stamp(person(mara), now))
    page = html(browser.get(URL, {"q": "kind:agent since:9h"}))
    facets = re.findall(r'<a class="facet.*?" href="(.*?)".*?>(.*?)</a>', page)
    told = {" ".join(re.sub(r"<[^>]+>", " ", text).split()): link for link, text in facets}
    assert told["by people 1"] == "?q=kind%3Aagent+since%3A9h+by%3Apeople"
    assert told["instruction 7"] == "?q=since%3A9h+kind%3Ainstruction"
    assert "timers too" not in " ".join(told), "the clock made no event of this kind"
    assert any(name.startswith("All ") for name in told)
    agents_too = next(link for name, link in told.items() if name.startswith("agent "))
    assert agents_too == "?q=since%3A9h"  # the way back


@pytest.mark.parametrize(
    "query",
    [
        *("", "agent:coder", "agent:codex", "kind:agent", "kind:task,agent", "by:people"),
        *("actor:ci", "actor:ci,jonas", "-actor:ci", "actor:idle_check agent:coder", "actor:zed"),
        *("since:10m", "until:10m", "since:30m until:10m", "since:30d", "until:2026-11-20"),
        *("since:30d until:10m kind:instruction", "since:10m actor:jonas by:people"),
        *("about:{story}", "about:{story} since:10m", "about:{story} until:19m30s -actor:ci"),
        *("{story} kind:instruction.queued", "about:{story} clock:shown"),
        *("by:tenfour", "kind:task.due", "kind:task.unblocked since:1h", "by:tenfour kind:task"),
    ],
)
def test_counts_keep_to_the_other_filters(
    browser: Client, agent: Agent, story: UUID, mara: User, now: datetime, query: str
) -> None:
    """Each count is the number of events that its link shows: of the last day without a range."""
    codex = make_agent("codex")
    happen(at=now - timedelta(minutes=3), agent=codex)
    happen(at=now - timedelta(days=9), agent=codex, actor=Actor("token", "1", "ci"))
    happen(at=now - timedelta(days=2), agent=make_agent("far", project=make_project("far")))
    agents.pause([codex], stamp=Stamp(person(mara), now))
    text = query.format(story=story)
    response = browser.get(URL, {"q": text})
    facets = response.context["facets"]
    has_range = any(f"{key}:" in text for key in ("since", "until", "about")) or str(story) in text
    assert facets.scope == ("" if has_range else "24 h")
    for each in [*facets.kinds, *facets.agents]:
        if each.label != "timers too" and (not each.current or each.label == "All"):
            shown = browser.get(URL, {"q": f"{each.query}{'' if has_range else ' since:24h'}"})
            assert len(ids(shown)) == each.count, each
    listed = ids(browser.get(URL, {"q": text if has_range else f"{text} since:24h"}))
    if "kind:" not in text and "by:" not in text:
        assert facets.kinds[0].count == len(listed)
        assert sum(each.count for each in facets.kinds[1:] if each.icon in NOUNS) == len(listed)


NOUNS = {*NOUN_ICONS.values(), "info"}


def test_the_clock_is_counted_by_itself(browser: Client, story: UUID) -> None:
    for query, count in (("", 1), ("since:1h", 1), ("since:10m", None), ("actor:ci", None)):
        facets = browser.get(URL, {"q": query}).context["facets"]
        told = {each.label: each.count for each in facets.kinds}
        assert told.get("timers too") == count, query


def test_what_is_too_much_to_count_has_no_number(
    browser: Client, agent: Agent, story: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more events are read than the limit, whatever the filter leaves of them."""
    every = Event.objects.count()
    for limit, number in ((every, 1), (every - 1, None)):
        monkeypatch.setattr(counts, "MOST_READ", limit)
        page = browser.get(URL, {"q": "since:300d actor:ci"})
        facets = page.context["facets"]
        told = {each.label: each.count for each in [*facets.kinds, *facets.agents]}
        assert told["All"] == told["instruction"] == told["coder"] == number
        assert ("too many to count" in words(page)) == (number is None)
        assert ("by people" in told) == ("token" in told) == (number is None)
    # what is about one subject, and a day, can be counted
    for query in (f"about:{story}", "since:24h"):
        monkeypatch.setattr(counts, "MOST_READ", 5 if query == f"about:{story}" else 0)
        assert browser.get(URL, {"q": query}).context["facets"].kinds[0].count, query
    monkeypatch.setattr(counts, "MOST_READ", 4)
    assert browser.get(URL, {"q": f"about:{story}"}).context["facets"].kinds[0].count is None


def test_histogram_of_the_last_hour(browser: Client, story: UUID) -> None:
    page = html(browser.get(URL))
    assert re.search(r'aria-label="8 events in 60 minutes, 2 of them failures\."', page)
    assert "of them failures" not in html(browser.get(URL, {"q": "kind:instruction.queued"}))
    assert "0 events in 60 minutes." in html(browser.get(URL, {"q": "kind:token"}))


def test_a_range_of_time_is_in_the_address(
    browser: Client, agent: Agent, story: UUID, now: datetime
) -> None:
    """The form and the links set it; the bars cover it in at most 60 steps."""
    form = {
        "q": "agent:coder since:2h older:1m",
        "from": "2026-11-20T09:00",
        "to": "2026-11-20T10:30",
    }
    query = "agent:coder since:2026-11-20T09:00 until:2026-11-20T10:30"
    answer = browser.get(URL, form)
    assert (answer.status_code, unquote_plus(answer["Location"])) == (302, f"{URL}?q={query}")
    happen(at=datetime(2026, 11, 20, 9, 31, tzinfo=UTC), agent=agent)
    page = html(browser.get(URL, {"q": query}))
    assert 'data-step="120" data-bars="45"' in page and "events in 90 minutes." in page
    assert f'data-start="{int(datetime(2026, 11, 20, 9, tzinfo=UTC).timestamp())}"' in page
    assert 'name="from" value="2026-11-20T09:00"' in page
    assert 'data-rest="agent:coder"' in page
    wide = html(browser.get(URL, {"q": "since:24h"}))
    assert 'data-step="1800"' in wide and re.search(r'aria-current="true">24 hours<', wide)
    counted = re.search(r'aria-label="(\d+) events in 1,4[47]0 minutes', wide)
    assert counted and int(counted[1]) == len(ids(browser.get(URL, {"q": "since:24h"})))


def test_a_project_has_its_own_journal(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    happen(at=now, agent=other)
    assert len(ids(browser.get(URL))) == 3
    response = browser.get(URL, {"project": "other", "q": "agent:elsewhere"})
    assert len(ids(response)) == 2
    assert f'/agents/{other.pk}/?project=other"' in html(response)


# ---- polls


def test_page_part_and_poll(browser: Client, part: Part, story: UUID, now: datetime) -> None:
    page = browser.get(URL)
    live = html(part(URL))
    assert "<html" not in live and '<div id="activity"' in live and live.count("hx-swap-oob") == 2
    assert part(URL, since=attribute(page, "since")).status_code == 204
    send(Agent.objects.get(), "News", now=now)
    fresh = part(URL, since=attribute(page, "since"))
    assert kinds(fresh)[0] == "instruction.queued"
    for response in (page, fresh):
        assert "HX-Request" in response["Vary"]


def test_paused_log_shows_the_number_of_new_events(
    browser: Client, part: Part, story: UUID, now: datetime
) -> None:
    page = browser.get(URL, {"q": "kind:instruction"})
    held, since = attribute(page, "held"), attribute(page, "since")
    assert held == ids(page)[0]
    assert part(URL, q="kind:instruction", held=held, since=since).status_code == 204
    for number in range(3):
        send(Agent.objects.get(), f"News {number}", now=now)
    happen(at=now, agent=Agent.objects.get())
    counted = part(URL, q="kind:instruction", held=held, since=since)
    assert (counted["HX-Retarget"], counted["HX-Reswap"]) == ("#fresh", "outerMorph")
    assert '<a href="?q=kind%3Ainstruction"> 3 new </a>' in html(counted)
    assert "ev-" not in html(counted)
    again = attribute(counted, "since")
    assert part(URL, q="kind:instruction", held=held, since=again).status_code == 204
    # without a script, and with nonsense, it is the page
    assert len(ids(browser.get(URL, {"held": held}))) > 3
    assert len(ids(part(URL, held="nonsense"))) > 3


def test_the_number_of_rows_costs_no_statement(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime
) -> None:
    def more(count: int) -> None:
        for number in range(count):
            other = make_agent(f"agent {Agent.objects.count()}")
            send(other, f"Do {number}", now=now)
            happen(at=now, agent=other)

    query = {"q": "kind:instruction,agent agent:coder"}
    more(2)
    few = statements(browser, URL), statements(browser, URL, query)
    more(20)
    assert (statements(browser, URL), statements(browser, URL, query)) == few
    assert max(few) <= 15
    since = attribute(browser.get(URL), "since")
    assert statements(browser, URL, {"since": since}, headers=PART) <= 5


def test_looking_changes_nothing_and_strangers_see_nothing(
    browser: Client, agent: Agent, story: UUID
) -> None:
    before = Event.objects.count()
    browser.get(URL, {"q": "kind:instruction", "held": str(uuid4()), "since": "x"})
    assert browser.post(URL).status_code == 405
    assert Event.objects.count() == before
    stranger = Client()
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/activity/"
    assert stranger.get(URL, headers=PART).status_code == 401


def test_an_event_of_a_limit_links_to_the_page_of_limits(
    browser: Client, agent: Agent, now: datetime
) -> None:
    of = {"subject_type": "limit", "subject_id": uuid4(), "data": {"name": "team"}}
    happen(Kind.LIMIT_REACHED, at=now, agent=agent, **of)
    link = re.compile(r'href="/limits/[^"]*"[^>]*>\s*Open the limit')
    assert link.search(html(browser.get(URL)))


def test_hostile_data_stays_text(browser: Client, agent: Agent, now: datetime) -> None:
    send(agent, HOSTILE, stamp=Stamp(Actor("token", "1", HOSTILE[:40]), now))
    data = {"type": HOSTILE, "data": {HOSTILE: [HOSTILE]}}
    happen(Kind.SIGNAL_MATCHED, at=now, agent=agent, data=data)
    response = browser.get(URL)
    raw = response.content.decode()
    assert "<script>alert" not in raw and "&lt;script&gt;alert" in raw
    assert "&amp;amp;" in raw
    assert json.dumps(HOSTILE, ensure_ascii=False).strip('"') in unescape(raw)


def test_long_data_is_cut_and_says_so(browser: Client, agent: Agent, now: datetime) -> None:
    long = {"type": "fs_command", "data": {"output": "w" * 100_000}}
    happen(Kind.SIGNAL_MATCHED, at=now, agent=agent, data=long)
    response = browser.get(URL)
    assert len(response.content) < 60_000
    assert "The first 4,000 of 100,0" in words(response)
    assert notes(response)[0] == "Reported fs_command, as expected"


# ---- words


def event(kind: str, /, *, actor: Actor = journal.SYSTEM, **data: Any) -> Event:
    return Event(
        kind=kind, actor_type=actor.type, actor_name=actor.name, data=data, subject_type="agent"
    )


MARA = Actor("user", "1", "mara")
ABOUT = EventSubject("coder", "Rebase on main\nbefore you push", 1.84)
QUOTE = "“Rebase on main before you push”"


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (event("instruction.queued", actor=MARA), f"mara sent coder {QUOTE}"),
        (event("instruction.queued", rule="01a2"), f"A rule sent coder {QUOTE}"),
        (event("instruction.held", holds=3), f"coder could not stop: {QUOTE}, hold 3"),
        (event("instruction.delivered", retry_count=0), f"coder received {QUOTE}"),
        (event("instruction.delivered", retry_count=3), f"coder received {QUOTE} again as URGENT"),
        (event("instruction.read", call=3), f"coder read {QUOTE}"),
        (event("instruction.acknowledged"), f"coder acknowledged {QUOTE} in 1.8 s"),
        (
            event("instruction.acknowledged", actor=MARA),
            f"mara acknowledged for coder {QUOTE} in 1.8 s",
        ),
        (event("instruction.declined"), f"coder declined {QUOTE}"),
        (event("instruction.acknowledged_late"), f"coder acknowledged {QUOTE} too late"),
        (
            event("instruction.requeued", retry_count=2),
            f"coder has not acknowledged {QUOTE}. Queued again as IMPORTANT",
        ),
        (
            event("instruction.requeued", actor=MARA, retry_count=2),
            f"mara sent coder again {QUOTE} as IMPORTANT",
        ),
        (
            event("instruction.failed", retry_count=3),
            f"coder ignored {QUOTE}. Tenfour gave up after 3 retries",
        ),
        (
            event("instruction.failed", retry_count=1, holds=7),
            f"coder ignored {QUOTE}. Tenfour let it go after 7 holds",
        ),
        (event("instruction.cancelled", actor=MARA), f"mara cancelled {QUOTE} for coder"),
        (event("standing_instruction.paused", actor=MARA), f"mara paused the rule {QUOTE}"),
        (
            event(
                "standing_instruction.updated", actor=MARA, changed=["expect_match", "expect_type"]
            ),
            f"mara changed the rule {QUOTE}: what it expects",
        ),
        (event("signal.matched", type="fs_command"), "coder reported fs_command, as expected"),
        (event("escalation.opened"), f"coder ignored {QUOTE}. Needs an answer"),
        (
            event("escalation.resolved", actor=MARA, action="fix"),
            f"mara answered for coder {QUOTE}: fix",
        ),
        (event("pattern.ignored", actor=MARA), f"mara ignored the failures {QUOTE}"),
        (event("pattern.resolved", actor=MARA), f"mara resolved the failures {QUOTE}"),
        (event("pattern.reopened", actor=MARA), f"mara reopened the failures {QUOTE}"),
        (event("pattern.reopened"), f"coder repeated {QUOTE}"),
        (event("pattern.regressed"), f"coder repeated {QUOTE}"),
        (event("pattern.assigned", actor=MARA, user="ben"), f"mara assigned {QUOTE} to ben"),
        (event("pattern.commented", actor=MARA, text="a\nb"), f"mara commented on {QUOTE}: a b"),
        (event("task.assigned", actor=MARA, user=None), f"mara assigned {QUOTE} to no one"),
        (event("task.commented", actor=MARA, text="On it"), f"mara commented on {QUOTE}: On it"),
        (event("pattern.merged", patterns=[1, 2]), f"Tenfour merged 2 patterns into {QUOTE}"),
        (event("agent.registered", actor=MARA), "mara registered coder"),
        (event("agent.paused", actor=MARA), "mara paused coder"),
        (event("agent.resumed", actor=MARA), "mara resumed coder"),
        (
            event("agent.needs_attention", message="Claude needs your permission to use Bash"),
            "coder waits for the person at its terminal:"
            " “Claude needs your permission to use Bash”",
        ),
        (event("agent.needs_attention"), "coder waits for the person at its terminal"),
        (event("agent.silent", waiting=2), "coder has not called while 2 instructions waited"),
        (
            event("agent.silent", waiting=1, tasks=500),
            "coder has not called while 500 tasks and 1 instruction waited",
        ),
        (event("agent.heard"), "coder called again"),
        (
            event("webhook.disabled", actor=MARA, name="mirror", reason="gave_up"),
            "mara disabled the channel mirror: gave up",
        ),
        (
            event("channel.updated", actor=MARA, name="mirror", changed=["events", "url"]),
            "mara changed the channel mirror: events, url",
        ),
        (event("channel.rotated", actor=MARA), "mara rotated the signing secret of the channel"),
        (
            event(
                "notification_rule.updated",
                actor=MARA,
                conditions=["escalation", "task.completed"],
                channel="#oncall",
                changed=["enabled"],
                enabled=False,
            ),
            "mara changed the notification rule when an escalation opens or task.completed, "
            "tell #oncall: off",
        ),
        (
            event("escalation.told", policy="nights", people=["ada", "ben"]),
            f"Policy nights told ada, ben of {QUOTE}",
        ),
        (
            event("escalation_policy.updated", actor=MARA, name="nights", changed=["steps"]),
            "mara changed the escalation policy nights: steps",
        ),
        (event("rota.deleted", actor=MARA, name="nights"), "mara deleted the rota nights"),
        (
            event("saved_view.created", actor=MARA, name="Stuck", list="tasks"),
            "mara saved the view Stuck of tasks",
        ),
        (
            event("marker.created", actor=MARA, name="2024.11", kind="deploy"),
            "mara marked deploy 2024.11",
        ),
        (
            event("marker.deleted", actor=MARA, name="Deploy 2024.11", kind="deploy"),
            "mara deleted the marker Deploy 2024.11",
        ),
        (
            event("agent.reset", actor=MARA, cancelled=1),
            "mara reset coder: 1 instruction cancelled",
        ),
        (
            event("agent.limited", account="team", waits_until="2026-11-21T14:00:00.000Z"),
            "coder waits for a limit of the account team",
        ),
        (event("agent.limited", actor=MARA, account="team"), "mara set coder’s account to team"),
        (
            event("token.created", actor=MARA, kind="agent", prefix="tenfour_ab"),
            "mara created coder’s token, tenfour_ab…",
        ),
        (event("token.revoked", actor=MARA), "mara revoked coder’s token"),
        (
            event(
                "task.changed",
                actor=MARA,
                changed=["agent", "priority"],
                from_agent="a",
                to_agent="b",
            ),
            f"mara reassigned {QUOTE} to b and changed priority",
        ),
        (event("moon.landed", actor=MARA), "mara moon.landed"),
        (event("instruction.teleported", actor=MARA), "mara instruction.teleported"),
    ],
    ids=lambda each: each.kind if isinstance(each, Event) else "",
)
def test_each_kind_has_its_sentence(what: Event, sentence: str) -> None:
    line = describe(what, ABOUT)
    quoted = f" “{line.quote}”" if line.quote else ""
    assert f"{line.who} {line.does}{quoted}{line.tail}" == sentence


def test_every_kind_has_a_sentence() -> None:
    missing = [kind for kind in Kind if describe(event(kind), ABOUT).does == kind]
    assert missing == []


def test_a_long_text_is_quoted_in_part() -> None:
    assert EventSubject("coder", "word " * 60).quote.endswith("word…")
    assert len(EventSubject("coder", "w" * 8192).quote) == 90


def test_answer_is_described(browser: Client, story: UUID, mara: User, now: datetime) -> None:
    answer(
        Escalation.objects.get().pk,
        Choice(Answer.SKIP),
        among=Escalation.objects.all(),
        stamp=Stamp(person(mara), now),
        channel="page",
    )
    tokens.issue("agent", project=make_project(), agent=make_agent(), stamp=Stamp(person(mara)))
    assert notes(browser.get(URL))[1] == "“Ignored” · skip"
    assert notes(browser.get(URL))[0].startswith("Created coder’s token, tenfour_")


# ---- queries


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("since:30m", NOW - timedelta(minutes=30), None),
        ("since:2h until:45s", NOW - timedelta(hours=2), NOW - timedelta(seconds=45)),
        ("since:99999d", NOW - timedelta(days=99_999), None),
        ("since:14:05", NOW.replace(hour=14, minute=5), None),
        ("since:23:59:30", datetime(2026, 11, 20, 23, 59, 30, tzinfo=UTC), None),
        ("since:2026-11-20", datetime(2026, 11, 20, tzinfo=UTC), None),
        ("until:2026-11-20", None, datetime(2026, 11, 21, tzinfo=UTC)),
        ('since:"2026-11-20T14:00+02:00"', datetime(2026, 11, 20, 12, tzinfo=UTC), None),
    ],
)
def test_times(text: str, since: datetime | None, until: datetime | None) -> None:
    query = parse(text, now=NOW)
    assert (query.since, query.until, query.problems) == (since, until, ())


@pytest.mark.parametrize("value", ["", "0001-01-01", "9999-12-31", "25:00", "tomorrow", "1e9d"])
def test_invalid_time_is_reported(value: str) -> None:
    query = parse(f"since:{value}x", now=NOW)
    assert query.since is None and len(query.problems) == 1


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("kind:", 1),
        ("-", 1),
        ('"', 1),
        (":", 1),
        ("kind:,,", 0),
        ("agent:\ud800", 1),
        ("a" * 9999, 1),
        ("\x00", 0),
    ],
)
def test_a_malformed_query_filters_nothing(text: str, problems: int) -> None:
    query = parse(text, now=NOW)
    assert query == EventQuery(text=query.text)
    assert len(query.problems) == problems and len(query.text) <= 300


def test_a_time_cannot_be_excluded() -> None:
    query = parse("-since:1h", now=NOW)
    assert query.since is None and query.problems[0].startswith("“since:” can’t be excluded.")


def test_excluded_kind_leaves_no_kinds() -> None:
    query = parse("kind:token -kind:token", now=NOW)
    assert activity_filters.kinds(query.kind) == []
