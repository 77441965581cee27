"""Simulate nights on call: rotas, policies, escalations, and clocks that change.

Half of the nights are those on which the clocks of their zone change, forward and back alternately.
People take escalations, answer them, or sleep; Tenfour's clock runs every 2 seconds, and is away
now and then. An oracle of its own says who is on call at each minute.
"""

import random
import time as timing
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import Sandbox
from retries.on_call.rotas import DAY, Schedule, Shift, find_on_call, list_periods
from retries.on_call.steps import Case, Directory, Step, StepAction, take_turn

NIGHTS, QUICK_NIGHTS = 10_000, 400
# zones whose clocks change by an hour, by half an hour, at midnight, or south of the equator
ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"),
    *("Pacific/Auckland", "Africa/Cairo", "Asia/Beirut", "America/St_Johns", "Asia/Kolkata"),
)
YEARS = (2024, 2025, 2026)
PEOPLE = ("ada", "ben", "cleo", "dan", "eva", "finn")
MINUTE, TICK = timedelta(minutes=1), timedelta(seconds=2)
NIGHT = timedelta(hours=16)


@dataclass
class Found:
    """The counts of a simulation, and what went wrong in it."""

    nights: int = 0
    changes: int = 0  # nights on which the clocks changed
    escalations: int = 0
    told: int = 0
    reminded: int = 0
    minutes: int = 0  # compared with the oracle
    twice: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        return [*self.twice, *self.untold, *self.wrong, *self.gaps]


def list_changes(zone: ZoneInfo) -> Iterator[date]:
    """Yield the days on which a zone's clocks change."""
    for year in YEARS:
        for day in range(366):
            at = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day)
            if at.astimezone(zone).utcoffset() != (at + DAY).astimezone(zone).utcoffset():
                yield at.date()


CHANGES = {name: list(list_changes(ZoneInfo(name))) for name in ZONES}


class Oracle:
    """Who is on call at each minute, found another way: by the latest time that a wall showed."""

    def __init__(self, schedule: Schedule, since: datetime, until: datetime) -> None:
        zone = ZoneInfo(schedule.timezone)
        self.schedule, self.by_minute = schedule, dict[datetime, tuple[str, ...]]()
        at, latest = since - timedelta(hours=6), datetime.min
        while at < until:
            latest = max(latest, at.astimezone(zone).replace(tzinfo=None))
            if at >= since:
                self.by_minute[at] = self.find(latest)
            at += MINUTE

    def find(self, wall: datetime) -> tuple[str, ...]:
        for shift in self.schedule.shifts:
            for back in (0, 1):
                day = wall.date() - back * DAY
                last = day + DAY if shift.ends <= shift.starts else day
                starts, ends = (
                    datetime.combine(day, shift.starts),
                    datetime.combine(last, shift.ends),
                )
                if day.weekday() in shift.days and starts <= wall < ends:
                    return shift.people
        return self.schedule.fallback


def make_schedule(dice: random.Random, zone: str) -> Schedule:
    def pick() -> tuple[str, ...]:
        return tuple(dice.sample(PEOPLE, dice.randint(1, 2)))

    def at() -> time:
        # Most shifts begin or end in the hours in which clocks change.
        return time(dice.choice((0, 1, 2, 3, 8, 18, 22)), dice.choice((0, 0, 15, 30)))

    shifts = [
        Shift(frozenset(dice.sample(range(7), dice.randint(1, 7))), at(), at(), pick())
        for _ in range(dice.randint(0, 6))
    ]
    return Schedule(zone, tuple(shifts), pick())


def make_steps(dice: random.Random) -> list[Step]:
    after, steps = timedelta(), []
    for n in range(dice.randint(1, 5)):
        action = StepAction.TELL if n == 0 or dice.random() < 0.6 else StepAction.REMIND
        targets = dice.sample(("rota:a", "rota:b", "role:admin", *PEOPLE), dice.randint(1, 2))
        steps.append(Step(after, action, tuple(targets) if action == StepAction.TELL else ()))
        after += timedelta(minutes=dice.choice((5, 15, 30)))
    return steps


def simulate(nights: int, *, seed: int = 38) -> Found:
    found = Found()
    for night in range(nights):
        simulate_night(random.Random(seed * 1_000_003 + night), night, found)
    return found


def simulate_night(dice: random.Random, number: int, found: Found) -> None:
    zone = ZONES[number % len(ZONES)]
    days = CHANGES[zone]
    is_change = bool(days) and number % 2 == 0
    day = dice.choice(days) if is_change else date(2026, dice.randint(1, 12), dice.randint(1, 28))
    since = datetime.combine(day, time(), UTC) - timedelta(hours=dice.randint(2, 14))
    rotas = {name: make_schedule(dice, zone) for name in ("a", "b")}
    check_rota(rotas["a"], since, found, label=f"night {number}")
    may_answer = [name for name in PEOPLE if dice.random() < 0.8] or [PEOPLE[0]]
    directory = Directory(may_answer, rotas, {"role:admin": may_answer[:2]})
    for n in range(3):
        simulate_case(dice, directory, since, found, label=f"night {number}, escalation {n}")
    found.nights += 1
    found.changes += is_change


def check_rota(schedule: Schedule, since: datetime, found: Found, *, label: str) -> None:
    """Compare a rota with the oracle, and its periods with both."""
    until = since + NIGHT
    oracle = Oracle(schedule, since, until)
    for at, people in oracle.by_minute.items():
        if find_on_call(schedule, at) != people:
            found.wrong.append(f"{label}: {at} {schedule}")
            break
    found.minutes += len(oracle.by_minute)
    periods = list_periods(schedule, since=since, until=until)
    ends = [since, *(each.ends_at for each in periods)]
    if [each.starts_at for each in periods] != ends[:-1] or ends[-1] != until:
        found.gaps.append(f"{label}: {periods}")


def simulate_case(
    dice: random.Random, directory: Directory, since: datetime, found: Found, *, label: str
) -> None:
    steps = make_steps(dice)
    opened = since + timedelta(seconds=dice.randint(0, 12 * 3600))
    case, due, told_at = Case(opened_at=opened), opened, None
    told: list[str] = []
    now = opened + dice.random() * TICK
    while due is not None:
        now = max(now, due + dice.random() * TICK)
        if told and dice.random() < 0.05:  # the clock is away for a while
            now += timedelta(minutes=dice.randint(1, 90))
        act = dice.random()
        if told and act < 0.1:
            break  # a person answered
        if told and act < 0.25:  # a person takes it, or gives it back
            taker = dice.choice((None, *directory.people))
            case = Case(opened_at=opened, step=case.step, told=case.told, assignee=taker)
        turn = take_turn(case, steps, directory, now=now)
        if turn.tells and not turn.is_reminder:
            told += turn.tells
            told_at = told_at or now
            found.told += len(turn.tells)
            if not set(turn.tells) <= set(directory.people):
                found.wrong.append(f"{label}: {turn.tells} may not answer")
        found.reminded += turn.is_reminder and bool(turn.tells)
        case, due = turn.case, turn.next_at
    found.escalations += 1
    if len(told) != len(set(told)) or list(case.told) != told:
        found.twice.append(f"{label}: {told}")
    # The first step is due as it opens: its limit is one run of the clock.
    if told_at is None or told_at > opened + 2 * TICK:
        found.untold.append(f"{label}: {told_at}, opened {opened}")


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    nights = QUICK_NIGHTS if scale.quick else NIGHTS
    began = timing.perf_counter()
    found = simulate(nights)
    seconds = timing.perf_counter() - began
    for fault in found.faults[:5]:
        say(f"  {fault}")
    say(f"  {found.escalations:,} escalations, {found.told:,} told, {found.reminded:,} reminded")
    return [
        Figure("nights", [nights], ""),
        Figure(
            "of them with a change of the clocks", [100 * found.changes / nights], "%", at_least(40)
        ),
        Figure("minutes compared with the oracle", [found.minutes], ""),
        Figure("minutes with someone else on call", [len(found.wrong)], "", at_most(0)),
        Figure("rotas with a gap or an overlap", [len(found.gaps)], "", at_most(0)),
        Figure("people told twice", [len(found.twice)], "", at_most(0)),
        Figure(
            "escalations without someone told within the limit", [len(found.untold)], "", at_most(0)
        ),
        Figure("time of one step", [1e6 * seconds / max(1, found.told)], "µs"),
    ]
