"""Pure modules: forecasts, answers, words, charts, badges."""

import doctest
from datetime import UTC, datetime, timedelta

import pytest

from dashboard import badges, formatting
from dashboard.instructions import latency_chart
from dashboard.instructions.forecast import Clock, Forecast, forecast
from dashboard.instructions.status import describe_status
from dashboard.status_text import StatusText
from ledger.models import Instruction
from ledger.states import LEVELS, InstructionState

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def clock(last_run: float | None = 20, *, min_age: float = 30) -> Clock:
    at = None if last_run is None else ago(last_run)
    return Clock(timedelta(seconds=60), timedelta(seconds=min_age), at)


@pytest.mark.parametrize(
    ("delivered", "last_run", "min_age", "seconds"),
    [
        (100, 20, 30, 40),  # ripe: the next tick
        (5, 20, 30, 40),  # ripe before the next tick
        (5, 20, 60, 100),  # ripe only for the tick after it
        (30, 60, 30, 0),  # a tick is due at this moment
        (100, 100, 0, 20),  # one tick was missed
    ],
)
def test_the_next_check_is_the_first_tick_that_finds_it_old_enough(
    delivered: float, last_run: float, min_age: float, seconds: int
) -> None:
    at = clock(last_run, min_age=min_age).next_check(ago(delivered), now=NOW)
    assert at == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize("last_run", [None, 121, 9999])
def test_nobody_knows_when_while_the_clock_stands_still(last_run: float | None) -> None:
    assert clock(last_run).is_late(NOW)
    assert clock(last_run).next_check(ago(50), now=NOW) is None


def test_a_busy_queue_comes_first() -> None:
    told = forecast(
        delivered_at=ago(50), retry_count=3, max_retries=3, queue_busy=True, clock=clock(), now=NOW
    )
    assert told == Forecast(gives_up=True, at=None, queue_busy=True)


def row(state: str, **more: object) -> Instruction:
    return Instruction(
        state=state, **{"queued_at": ago(60), "deliveries": 1, "tracked": True, **more}
    )


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (row(InstructionState.ACKNOWLEDGED, acknowledged_at=ago(58.2)), "1.8 s"),
        (
            row(InstructionState.ACKNOWLEDGED, acknowledged_at=ago(40), outcome="declined"),
            "declined, 20 s",
        ),
        (row(InstructionState.FAILED, retry_count=3), "after 3 retries"),
        (
            row(InstructionState.FAILED, retry_count=1, late_ack_at=NOW),
            "after 1 retry, answered too late",
        ),
        (row(InstructionState.CANCELLED), "withdrawn"),
        (row(InstructionState.QUEUED), "2 ahead of it"),
        (row(InstructionState.DELIVERED, tracked=False), "no answer expected"),
    ],
)
def test_what_the_last_column_says(instruction: Instruction, says: str) -> None:
    assert describe_status(instruction, ahead=2, forecast=None, now=NOW).text == says


def test_what_the_last_column_says_while_somebody_waits() -> None:
    def told(**more: object) -> StatusText:
        given = Forecast(**{"gives_up": False, "at": NOW + timedelta(seconds=26), **more})
        return describe_status(row(InstructionState.DELIVERED), ahead=0, forecast=given, now=NOW)

    assert (told().text, told().countdown, told().tone) == ("again in", 26, "amber")
    assert (told(gives_up=True).text, told(gives_up=True).tone) == ("gives up in", "red")
    assert told(at=None, queue_busy=True).text == "again once its queue is empty"
    assert told(at=None).text == "again when the clock runs"


def test_the_bar_of_a_time_fits_its_place() -> None:
    def bar(seconds: float) -> float | None:
        done = row(
            InstructionState.ACKNOWLEDGED, acknowledged_at=ago(60) + timedelta(seconds=seconds)
        )
        return describe_status(done, ahead=0, forecast=None, now=NOW).bar

    assert [bar(-1), bar(0), bar(1), bar(72), bar(1e6)] == [1, 1, 8.5, 52.8, 64]


def test_the_examples_of_words_hold() -> None:
    assert doctest.testmod(formatting).failed == 0


def test_times_are_short_today_and_dated_otherwise() -> None:
    assert formatting.clock_time(ago(3725), now=NOW) == "10:57:55"
    assert formatting.clock_time(ago(86_400), now=NOW) == "20 Nov 12:00"
    assert formatting.clock_time(ago(400 * 86_400), now=NOW) == "17 Oct 2025 12:00"
    assert [formatting.monogram(name) for name in ("coder", "x", "–", "סוכן")] == [
        "co",
        "x",
        "·",
        "סו",
    ]


def test_bars_stand_on_the_base_and_none_is_lost() -> None:
    bars = latency_chart.latency_bars(
        {(0, False): 1, (2, False): 1000, (2, True): 500, (7, True): 3}
    )
    assert [bar.total for bar in bars] == [1, 0, 1500, 0, 0, 0, 0, 3]
    assert bars[0].first_height == 1.5  # what is there at all can be seen
    assert bars[2].first_height + bars[2].reminded_height == pytest.approx(
        latency_chart.TALLEST, abs=0.2
    )
    assert all(bar.y_reminded >= latency_chart.BASE - latency_chart.TALLEST - 0.1 for bar in bars)
    assert latency_chart.latency_bars({})[0].total == 0


@pytest.mark.parametrize(
    ("seconds", "x"), [(0, 0), (1, 12.5), (3, 31.25), (8, 50), (59, 87.08), (9e9, 99)]
)
def test_a_time_stands_in_its_class(seconds: float, x: float) -> None:
    assert latency_chart.latency_x(seconds) == x


def test_marks_that_are_close_stand_in_two_lines() -> None:
    assert [mark.y for mark in latency_chart.percentile_lines(1, 2, labels=("a", "b"))] == [11, 25]
    assert [mark.y for mark in latency_chart.percentile_lines(4, 8, labels=("a", "b"))] == [11, 11]
    assert latency_chart.percentile_lines(None, None, labels=("a", "b")) == []


def test_every_state_and_urgency_has_a_badge_of_its_own() -> None:
    states = [badges.state_badge(state) for state in InstructionState]
    urgencies = [badges.urgency_badge(level) for level in range(len(LEVELS) + 2)]
    assert len({badge.icon for badge in states}) == len(states)
    assert len({badge.icon for badge in urgencies}) == len(LEVELS)
    assert badges.urgency_badge(3, gave_up=True).icon == "u-3"
