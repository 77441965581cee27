"""The charts of outcomes, and the marks of open breakers in them."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.agents.rates import Sums
from dashboard.overview.breaker_marks import find_spans, place_marks
from dashboard.overview.outcome_chart import TASKS, OutcomeChart, draw_outcomes, place_ticks
from dashboard.overview.trends import RANGES, Slot
from dashboard.overview.unusual_agents import find_reason
from tests.dashboard.overview.conftest import NOW, make_trend

DAY = timedelta(days=1)


def draw(**each: int) -> OutcomeChart:
    return draw_outcomes(make_trend(Slot(**each), **each), "Tasks", TASKS, base=104)


@pytest.mark.parametrize(
    ("key", "first", "ticks"),
    [
        ("24h", "2026-11-20 15:00", ["16:00", "20:00", "00:00", "04:00", "08:00", "12:00"]),
        ("7d", "2026-11-14 15:00", []),
        ("30d", "2026-10-23 00:00", ["28 Oct", "2 Nov", "7 Nov", "12 Nov", "17 Nov"]),
    ],
)
def test_the_last_bar_is_the_current_one(key: str, first: str, ticks: list[str]) -> None:
    trend = make_trend(Slot(), range=RANGES[key])
    assert f"{trend.start:%Y-%m-%d %H:%M}" == first
    assert trend.start + trend.range.length - trend.range.bar <= NOW
    assert trend.start + trend.range.length > NOW
    assert [tick.label for tick in place_ticks(trend)] == ticks


def test_the_parts_of_a_bar_are_stacked() -> None:
    chart = draw(tasks_done=8, tasks_done_first=5, tasks_failed=2)
    assert chart.top == 10 and [each.count for each in chart.totals] == [5, 3, 2]
    assert len(chart.bars) == 48 and chart.bars[-1].hit == pytest.approx(97.92)
    drawn = re.findall(
        r'class="(f-[a-z]+)".*?y="([\d.]+)".*?height="([\d.]+)"', chart.bars[0].parts
    )
    assert [css for css, _, _ in drawn] == ["f-ok", "f-retry", "f-fail"]
    tops = [float(y) for _, y, _ in drawn]
    assert tops == sorted(tops, reverse=True) and tops[0] == 62.0
    assert chart.bars[0].tip == "15:00 to 15:30|First attempt 5|After a retry 3|Failed 2"


def test_an_empty_chart_has_an_axis() -> None:
    chart = draw()
    assert chart.top == 2 and all(bar.parts == "" for bar in chart.bars)


def move(
    kind: str, hours: float, *, state: str = "closed", agent: int = 1, left: str = "closed"
) -> dict[str, object]:
    at = START + timedelta(hours=hours)
    return {
        "agent_id": agent,
        "name": f"agent-{agent}",
        "state": state,
        "opened_at": at,
        "kind": f"agent.breaker_{kind}" if kind else None,
        "at": at,
        "from_state": left,
    }


START = datetime(2026, 11, 20, 15, tzinfo=UTC)


def test_a_breaker_is_marked_from_its_opening_to_its_first_probe() -> None:
    rows = [
        move("opened", 2),
        move("half_open", 4),
        move("opened", 4.5),
        move("half_open", 5),
        move("closed", 5.5),
        move("half_open", 1, agent=2, left="open"),  # open since before the range
        move("opened", 22, agent=3, state="open"),
        move("", -5, agent=4, state="open"),  # for longer than the range
        move("closed", 6, agent=5, left="open"),  # by a person, and opened before the range
        move("closed", 7, agent=6, left="half_open"),
    ]
    spans = find_spans(rows, START)
    hours = [
        (name, (begin - START) / timedelta(hours=1), end and (end - START) / timedelta(hours=1))
        for name, begin, end in spans
    ]
    assert hours == [
        ("agent-1", 2, 4),
        ("agent-1", 4.5, 5),
        ("agent-2", 0, 1),
        ("agent-3", 22, None),
        ("agent-4", 0, None),
        ("agent-5", 0, 6),
    ]
    marks = place_marks(spans[:-1], START, DAY, now=START + timedelta(hours=23))
    assert [(mark.x, mark.width) for mark in marks] == [
        (0.0, 4.17),
        (0.0, 95.83),
        (8.33, 8.33),
        (18.75, 2.08),
        (91.67, 4.17),
    ]
    assert [mark.label for mark in marks] == [
        "agent-2 open, 1 h",
        "",
        "",
        "agent-1 open, 30 m",
        "agent-3 open",
    ]


@pytest.mark.parametrize(
    ("now", "before", "why"),
    [
        (Sums(20, 9), Sums(20, 2), "Errors up from 10% to 45%"),
        (Sums(20, 3), Sums(20, 2), ""),
        (Sums(9, 9), Sums(20, 2), ""),  # too few to say
        (Sums(20, 2, 2000.0), Sums(20, 2, 400.0), "5 × slower than the day before"),
        (
            Sums(tasks_done=20, tasks_done_first=10),
            Sums(tasks_done=20, tasks_done_first=16),
            "First-attempt success down 30 pt",
        ),
        (Sums(tasks_done=4), Sums(tasks_done=20), "4 tasks done, 20 the day before"),
        (Sums(), Sums(tasks_done=19), ""),
    ],
)
def test_an_agent_is_compared_with_its_own_day_before(now: Sums, before: Sums, why: str) -> None:
    assert (find_reason(now, before) or (0, ""))[1] == why
