"""The first page: what needs a person, today beside yesterday, the agents, the last events."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from dashboard import live_updates
from dashboard.overview import queries as overview_queries
from dashboard.overview.figures import Tile, build_tiles
from dashboard.overview.outcome_chart import draw_outcomes
from dashboard.overview.queries import Day, HalfHour, first_half_hour
from dashboard.sparklines import bars, spark
from ledger import instructions
from ledger.instruction_stats import Statistics
from ledger.models import Agent, Event
from retries.models import Escalation
from tests.dashboard.conftest import PART
from tests.dashboard.seen import Part, html, key, words
from tests.factories import as_name, make_agent, make_project, pull, send, tick

URL = "/"
NOW = datetime(2026, 11, 21, 14, 40, tzinfo=UTC)


def ignored(agent: Agent, text: str, *, at: datetime) -> Escalation:
    """An instruction that was given up, and asks for a person."""
    id = send(agent, text, now=at, max_retries=0, on_failed="escalate")
    pull(agent, now=at)
    tick(at + timedelta(minutes=1))
    return Escalation.objects.get(instruction_id=id)


def acknowledged(agent: Agent, *, at: datetime, after: float = 2, reminders: int = 0) -> UUID:
    id = send(agent, now=at)
    pull(agent, now=at)
    for number in range(reminders):
        at += timedelta(minutes=number + 1)
        tick(at)
        pull(agent, now=at)
    instructions.acknowledge_instruction(id, now=at + timedelta(seconds=after))
    return id


def aged() -> None:
    """As if the instructions had been made when they were sent: their ids begin with that time."""
    with connection.cursor() as cursor:
        cursor.execute("update ledger_instruction set id = uuidv7(queued_at - clock_timestamp())")


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_updates, "BUCKET_SECONDS", 10**9)


# ---- what needs a person


def test_what_needs_you_stands_first_and_oldest_first(
    browser: Client, agent: Agent, now: datetime
) -> None:
    asked = [
        ignored(agent, f"Ignored {number}", at=now - timedelta(minutes=100 - 20 * number))
        for number in range(4)
    ]
    response = browser.get(URL)
    text, page = words(response), html(response)
    assert (
        "4 instructions need an answer The oldest has waited 1 h 39 m All 4 Answer the oldest"
        in text
    )
    shown = [text.index(f"Ignored {number} coder ignored it 1 time") for number in range(3)]
    assert shown == sorted(shown)
    assert "Ignored 3 coder ignored" not in text  # the list has it
    assert f'href="/escalations/{asked[0].pk}/" >Answer the oldest' in page
    assert "<title>4 need an answer · Overview · Tenfour</title>" in page
    assert page.count('class="due due--red"') == 2  # those that waited for more than an hour


def test_one_needs_you(browser: Client, agent: Agent, now: datetime) -> None:
    ignored(agent, "Ignored", at=now - timedelta(minutes=5))
    page = html(browser.get(URL))
    assert "1 instruction needs an answer" in page
    assert "<title>1 needs an answer · Overview · Tenfour</title>" in page


def test_nobody_needs_you(browser: Client, agent: Agent, now: datetime) -> None:
    acknowledged(agent, at=now - timedelta(minutes=5))
    response = browser.get(URL)
    assert "Nothing needs your attention" in words(response) and "Answer the oldest" not in html(
        response
    )
    assert "<title>Overview · Tenfour</title>" in html(response)


def test_silent_agents_are_named(browser: Client, project: object, now: datetime) -> None:
    for number in range(5):
        silent = make_agent(f"deaf-{number}")
        Agent.objects.filter(pk=silent.pk).update(last_seen_at=now - timedelta(hours=9 - number))
        send(silent, now=now - timedelta(hours=1))
    response = browser.get(URL)
    assert "deaf-0 has not checked in for 9 h; 1 waiting" in words(response)
    assert "2 more silent agents" in words(response) and '/agents/?show=silent"' in html(response)


# ---- figures


def test_five_figures(browser: Client, agent: Agent, now: datetime) -> None:
    for hours in (30, 31):
        acknowledged(agent, at=now - timedelta(hours=hours))
    aged()
    for minutes in range(40, 46):
        acknowledged(agent, at=now - timedelta(minutes=minutes), after=4)
    acknowledged(agent, at=now - timedelta(minutes=20), reminders=2)
    ignored(agent, "Ignored", at=now - timedelta(minutes=10))
    send(agent, "Wait", now=now)
    text = words(browser.get(URL))
    assert "Instructions sent 9 up 7 1 still waiting" in text
    assert "Acknowledged 77.8 % down 22.2 pt of 9 sent" in text
    assert re.search(r"Time to acknowledge, p95 \d m \d\d s up .* median 4.0 s", text)
    assert "Retries per instruction 0.22 up 0.22 11.1% needed a retry" in text
    assert "Given up 1 up 1 11.1% of all" in text
    assert "First sending 6 After a reminder 1 Gave up 1 Waiting 1" in text


def test_agents_at_a_glance(browser: Client, agent: Agent, now: datetime) -> None:
    for number in range(12):
        other = make_agent(f"agent-{number:02}")
        for _ in range(number):
            acknowledged(other, at=now - timedelta(minutes=30))
    send(agent, now=now - timedelta(hours=1))  # nobody asks for it
    page = html(browser.get(URL))
    rows = re.findall(r'<tr id="glance-.*?<bdi class="trunc">(.*?)</bdi>', page)
    assert rows == ["coder", *(f"agent-{number:02}" for number in range(11, 4, -1))]


def test_the_feed_has_the_last_sixteen(browser: Client, agent: Agent, now: datetime) -> None:
    for _ in range(12):
        acknowledged(agent, at=now - timedelta(minutes=5))
    page = html(browser.get(URL))
    assert page.count('<li id="feed-') == 16
    assert "<bdi>coder</bdi></b> <bdi>acknowledged</bdi>" in page


def test_before_anything_was_sent(browser: Client, project: object, now: datetime) -> None:
    text = words(browser.get(URL))
    assert "No instructions yet" in text and "Instructions sent" not in text
    assert "Nothing needs your attention" in text


def test_after_a_quiet_day(browser: Client, agent: Agent, now: datetime) -> None:
    acknowledged(agent, at=now - timedelta(days=3))
    text = words(browser.get(URL))
    assert "Instructions sent 0 none waiting" in text
    assert "Acknowledged – of 0 sent" in text
    assert "No instructions sent in the last 24 h" in text


def test_a_project_has_its_own_overview(browser: Client, agent: Agent, now: datetime) -> None:
    other = make_agent("elsewhere", project=make_project("other"))
    asked = ignored(other, "Ignored", at=now - timedelta(minutes=5))
    acknowledged(agent, at=now - timedelta(minutes=5))
    whole, own = words(browser.get(URL)), words(browser.get(URL, {"project": "default"}))
    assert (
        "1 instruction needs an answer" in whole
        and "ignored it 1 time · sent by tenfour · other" in whole
    )
    assert "Nothing needs your attention" in own and "Instructions sent 1 " in own
    page = html(browser.get(URL, {"project": "other"}))
    assert f'/escalations/{asked.pk}/?project=other"' in page
    assert '/instructions/?project=other&q=state%3Afailed"' in page
    assert browser.get(URL, {"project": "nowhere"}).status_code == 404


# ---- page, part, polls, people


def test_page_part_and_poll(browser: Client, part: Part, agent: Agent, now: datetime) -> None:
    page = browser.get(URL)
    assert html(page).startswith("<!doctype html>")
    live = html(part(URL))
    assert "<html" not in live and '<div id="overview"' in live and live.count("hx-swap-oob") == 2
    assert part(URL, since=key(page)).status_code == 204
    ignored(agent, "Ignored", at=now - timedelta(minutes=3))
    fresh = part(URL, since=key(page))
    assert "<title>1 needs an answer · Overview · Tenfour</title>" in html(fresh)


def test_the_number_of_rows_costs_no_statement(
    browser: Client, statements: Callable[..., int], agent: Agent, now: datetime
) -> None:
    def more(count: int) -> None:
        for _ in range(count):
            number = Event.objects.count()
            other = make_agent(f"agent {number}")
            ignored(other, f"Ignored {number}", at=now - timedelta(minutes=9))
            send(other, now=now - timedelta(hours=1))

    more(2)
    few = statements(browser, URL)
    more(12)
    assert statements(browser, URL) == few <= 15
    since = key(browser.get(URL))
    assert statements(browser, URL, {"since": since}, headers=PART) <= 5


def test_strangers_see_nothing_and_looking_changes_nothing(
    browser: Client, agent: Agent, now: datetime
) -> None:
    ignored(agent, "Ignored", at=now - timedelta(minutes=5))
    before = Event.objects.count()
    browser.get(URL)
    assert browser.post(URL).status_code == 405
    assert Event.objects.count() == before
    stranger = Client()
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/"
    assert stranger.get(URL, headers=PART).status_code == 401
    stranger.force_login(User.objects.create_user("visitor"))
    assert stranger.get(URL)["Location"] == "/sign-in/?next=/"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "w" * 8192, "\u202etxt.exe \u05d0\u200f"]
)
def test_hostile_text_stays_text(
    browser: Client, now: datetime, project: object, text: str
) -> None:
    ignored(make_agent(as_name(text)), text, at=now - timedelta(minutes=5))
    response = browser.get(URL)
    assert "<script>alert" not in response.content.decode()
    assert len(response.content) < 60_000


# ---- pictures


def a_day(**more: int) -> list[HalfHour]:
    return [
        HalfHour(first_half_hour(NOW) + n * overview_queries.HALF_HOUR, **more)
        for n in range(overview_queries.HALF_HOURS_SHOWN)
    ]


def test_the_half_hours_end_with_this_one() -> None:
    days = a_day()
    assert (days[0].at, days[-1].at) == (
        datetime(2026, 11, 20, 15, 0, tzinfo=UTC),
        datetime(2026, 11, 21, 14, 30, tzinfo=UTC),
    )


def test_bars_stand_on_each_other() -> None:
    chart = draw_outcomes(a_day(sent=10, first=5, reminded=3, failed=1, waiting=1))
    assert (chart.top, chart.half, chart.first, chart.failed) == (10, 5, 240, 48)
    assert len(chart.bars) == 48 and chart.bars[-1].hit == pytest.approx(97.92)
    drawn = re.findall(
        r'class="(f-[a-z]+)".*?y="([\d.]+)".*?height="([\d.]+)"', chart.bars[0].parts
    )
    assert [css for css, _, _ in drawn] == ["f-ok", "f-retry", "f-wait", "f-fail"]
    tops = [float(y) for _, y, _ in drawn]
    assert tops == sorted(tops, reverse=True) and tops[0] == 72.0
    assert chart.bars[0].tip.startswith("15:00 to 15:30|First sending 5|After a reminder 3")
    assert [f"{tick.at:%H:%M}" for tick in chart.ticks] == [
        "16:00",
        "20:00",
        "00:00",
        "04:00",
        "08:00",
        "12:00",
    ]


def test_an_empty_chart_has_its_axis() -> None:
    chart = draw_outcomes(a_day())
    assert chart.top == 2 and all(bar.parts == "" for bar in chart.bars)


def test_a_spark_holds_over_gaps() -> None:
    line = spark([None, 1, None, 3, 2])
    assert line and line.line == "M1 25L29 25L57 3L85 14"
    assert (line.x, line.y) == (85, 14)
    assert spark([None, None]) is None and spark([1]) is None
    flat = spark([2, 2], floor=0)
    assert flat and flat.y == pytest.approx(8.1)
    steps = spark([0, 1], floor=0, steps=True)
    assert steps and steps.line.startswith("M1 25H85V")


def test_small_bars_can_be_seen() -> None:
    drawn = bars([1000, 1, 0], [0, 1, 0], tall=20)
    assert (drawn.width, drawn.all.count("M"), drawn.bad.count("M")) == (30, 2, 1)
    assert "h8v1.5h-8z" in drawn.bad


def told(whole: Statistics, before: Day) -> dict[str, Tile]:
    return {tile.label: tile for tile in build_tiles(whole, before, a_day(sent=1, first=1))}


def test_what_is_worse_than_yesterday_has_a_colour() -> None:
    whole = Statistics(
        "", sent=100, acknowledged=90, failed=10, retry_rate=0.5, ack_p50_s=1.0, ack_p95_s=9.0
    )
    before = Day(sent=100, acknowledged_share=0.95, retry_rate=0.6, failed=5, ack_p95_s=9.1)
    tile = told(whole, before)
    shown = {
        label: (each.change and (each.change.text, each.change.up, each.change.tone))
        for label, each in tile.items()
    }
    assert shown == {
        "Instructions sent": None,
        "Acknowledged": ("5.0 pt", False, "bad"),
        "Time to acknowledge, p95": None,  # a hundredth is no change
        "Retries per instruction": ("0.10", False, "good"),
        "Given up": ("5", True, "bad"),
    }
    assert tile["Given up"].tone == "amber" and tile["Retries per instruction"].tone == ""


def test_without_a_yesterday_nothing_is_compared() -> None:
    whole = Statistics("", sent=10, acknowledged=10, ack_p50_s=228.0, ack_p95_s=228.0)
    found = told(whole, Day())
    assert all(tile.change is None for tile in found.values())
    assert found["Time to acknowledge, p95"].value == [("3", "m"), ("48", "s")]
