"""Who is on call at an instant, also when clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.nights import simulate
from retries.on_call.rotas import (
    Schedule,
    Unreadable,
    find_on_call,
    format_shift,
    list_periods,
    parse_shift,
)

BERLIN = ZoneInfo("Europe/Berlin")


def on_call(schedule: Schedule, at: str) -> str:
    return ", ".join(find_on_call(schedule, datetime.fromisoformat(at)))


def rota(*lines: str, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule(zone, tuple(parse_shift(line) for line in lines), ("mara",))


def test_a_shift_may_end_on_the_next_day_and_the_first_one_takes_precedence() -> None:
    schedule = rota("fri 18:00-08:00 jon", "fri,sat 00:00-00:00 ada")
    assert on_call(schedule, "2026-11-20T17:30+01:00") == "ada"
    assert on_call(schedule, "2026-11-20T18:00+01:00") == "jon"
    assert on_call(schedule, "2026-11-21T07:59+01:00") == "jon"
    assert on_call(schedule, "2026-11-21T08:00+01:00") == "ada"
    assert on_call(schedule, "2026-11-22T00:00+01:00") == "mara"


@pytest.mark.parametrize(
    ("at", "who"),
    [
        # clocks go from 02:00 to 03:00 at 01:00 UTC: the shift ends there, and the next begins
        ("2026-03-29T00:59Z", "jon"),
        ("2026-03-29T01:00Z", "ada"),
        ("2026-03-29T01:29Z", "ada"),
        ("2026-03-29T02:00Z", "mara"),
        # clocks go from 03:00 back to 02:00 at 01:00 UTC: 02:30 is the first one
        ("2026-10-25T00:29Z", "jon"),
        ("2026-10-25T00:30Z", "ada"),
        ("2026-10-25T01:15Z", "ada"),
        ("2026-10-25T02:59Z", "ada"),
        ("2026-10-25T03:00Z", "mara"),
    ],
)
def test_a_change_of_clocks_hands_over_once(at: str, who: str) -> None:
    schedule = rota("sun 01:00-02:30 jon", "sun 02:30-04:00 ada")
    assert on_call(schedule, at) == who


def test_periods_follow_each_other_and_name_each_change_once() -> None:
    schedule = rota("daily 22:00-06:00 jon", "daily 06:00-14:00 jon")
    since = datetime(2026, 10, 24, 12, tzinfo=UTC)
    found = list_periods(schedule, since=since, until=since + timedelta(days=2))
    assert [(str(each.starts_at.astimezone(BERLIN))[5:16], *each.people) for each in found] == [
        ("10-24 14:00", "mara"),
        ("10-24 22:00", "jon"),
        ("10-25 14:00", "mara"),
        ("10-25 22:00", "jon"),
    ]
    assert found[1].ends_at - found[1].starts_at == timedelta(hours=17), "the night has 25 hours"


@pytest.mark.parametrize(
    "line",
    ["", "mon 9-17 mara", "moon 09:00-17:00 mara", "mon 09:00-25:00 mara", "mon 09:00-17:00"],
)
def test_an_unreadable_shift_is_refused_with_an_example(line: str) -> None:
    with pytest.raises(Unreadable, match="Write a shift as"):
        parse_shift(line)


DAYS = st.sampled_from(["mon", "mon-fri", "sat,sun", "fri-mon", "daily", "tue,thu"])
TIMES = st.times().map(lambda at: f"{at:%H:%M}")
LINES = st.builds("{} {}-{} ada, ben".format, DAYS, TIMES, TIMES)


@settings(max_examples=200, deadline=None)
@given(LINES)
def test_a_shift_is_written_as_it_is_read(line: str) -> None:
    shift = parse_shift(line)
    assert parse_shift(format_shift(shift)) == shift


def test_simulated_nights_have_no_fault() -> None:
    # Every second night has a change of clocks; `bench nights` runs 10,000.
    found = simulate(120, seed=7)
    assert found.nights == 120 and found.changes >= 50 and found.told > 300
    assert found.faults == []
