"""An account that is at its limit stops all of its agents until the reset, and nothing counts."""

import re
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import Q

from ledger import accounts, agents
from ledger.accounts import note_windows
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import AccountWindow, Agent, Attempt, Breaker, Event, Failure, Task
from ledger.values.account_windows import LimitSource, LimitWindow, WindowFact
from retries.claiming.agent_waits import find_window
from retries.decisions import Evidence
from retries.models import Escalation
from tests.elsewhere import at_once
from tests.factories import NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.statement_plans import plan_of, prepared

pytestmark = pytest.mark.django_db(transaction=True)

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)
FIVE, WEEK = LimitWindow.FIVE_HOURS, LimitWindow.WEEK
RESET = NOW + 2 * HOUR


@pytest.fixture
def team(agent: Agent) -> list[Agent]:
    """Two agents of one account, the account's name being the first one's."""
    return [agent, move(make_agent("coder-2"), "coder")]


def move(agent: Agent, account: str, *, now: datetime = NOW) -> Agent:
    accounts.set_account([agent], account=account, stamp=Stamp(SYSTEM, now))
    return agent


def note(
    agent: Agent,
    used: float,
    *,
    window: LimitWindow = FIVE,
    resets_at: datetime | None = RESET,
    seen_at: datetime = NOW,
    now: datetime | None = None,
    source: LimitSource = LimitSource.CLAUDE,
    may_be_old: bool = False,
) -> None:
    fact = WindowFact(window, used, resets_at, seen_at, may_be_old)
    note_windows(agent.pk, [fact], source=source, now=now or seen_at)


def waits(found: list[Agent]) -> list[datetime | None]:
    return [Agent.objects.get(pk=agent.pk).waits_until for agent in found]


def windows() -> list[tuple[str, str, float]]:
    rows = AccountWindow.objects.order_by("account", "window")
    return [(row.account, row.window, row.used) for row in rows]


def test_all_agents_of_an_account_at_its_limit_wait_for_the_reset(team: list[Agent]) -> None:
    """F07: a claim is empty until the reset, to the second, and then gets the task."""
    other = make_agent("other")
    for agent in (*team, other):
        make_task(agent)
    note(team[1], 1.0)
    assert waits([*team, other]) == [RESET, RESET, None]
    assert claim(other).rows
    for agent in team:
        for early in (NOW, RESET - SECOND):
            empty = claim(agent, now=early)
            assert (empty.rows, empty.reason, empty.waits_until) == ([], "agent_waits", RESET)
        assert claim(agent, now=RESET + SECOND).rows
    assert not Failure.objects.exists() and not Escalation.objects.exists()
    assert not Breaker.objects.exclude(failures=0).exists()
    data = {"account": "coder", "waits_until": "2026-11-21T14:00:00.000Z"}
    told = Event.objects.filter(kind="agent.wait_set")
    assert list(told.values_list("data", flat=True)) == [data, data]


def test_facts_are_counted_until_the_window_resets(agent: Agent) -> None:
    def facts() -> int:
        return AccountWindow.objects.get().facts

    for number in range(3):
        note(agent, 0.5, seen_at=NOW + number * SECOND)
    note(agent, 0.9, seen_at=NOW, now=NOW + 3 * SECOND)  # an older one
    assert facts() == 3
    note(agent, 0.6, resets_at=RESET + SECOND, seen_at=NOW + 4 * SECOND)
    note(agent, 0.6, resets_at=None, seen_at=NOW + 5 * SECOND)
    assert facts() == 5
    note(agent, 0.1, resets_at=RESET + 5 * HOUR, seen_at=RESET + SECOND)
    assert facts() == 1


def test_an_account_of_the_same_name_in_another_project_is_another_one(agent: Agent) -> None:
    twin = make_agent("coder", project=make_project("second"))
    note(agent, 1.0)
    assert waits([agent, twin]) == [RESET, None]


LONG_AGO = datetime(1, 1, 1, tzinfo=timezone(14 * HOUR))
LATE = datetime(9999, 12, 31, 23, tzinfo=timezone(-14 * HOUR))


@pytest.mark.parametrize("resets_at", [None, NOW - SECOND, LONG_AGO, LATE])
def test_a_full_window_without_a_reset_to_come_stops_no_agent(
    agent: Agent, resets_at: datetime | None
) -> None:
    note(agent, 1.0, resets_at=resets_at)
    assert waits([agent]) == [None]
    note(agent, 0.5, resets_at=RESET, seen_at=LONG_AGO, now=NOW)
    assert windows() == [("coder", "five_hours", 1.0)]


@pytest.mark.parametrize("resets_at", [None, NOW - SECOND, NOW + 6 * HOUR, RESET + 60 * SECOND])
def test_a_full_window_keeps_its_reset_if_a_newer_fact_names_none(
    team: list[Agent], resets_at: datetime | None
) -> None:
    note(team[0], 1.0)
    note(team[1], 1.0, resets_at=resets_at, seen_at=NOW + SECOND)
    row = AccountWindow.objects.get()
    assert (row.resets_at, row.seen_at) == (RESET, NOW + SECOND)
    assert waits(team) == [RESET, RESET]
    assert told() == {"agent.wait_set": 2}


@pytest.mark.parametrize(
    ("used", "resets_at", "stored"),
    [
        # an idle session's status line
        (0.4, RESET, (1.0, RESET)),
        (0.4, RESET + 60 * SECOND, (1.0, RESET)),
        (0.4, None, (1.0, RESET)),
        (0.4, NOW - HOUR, (1.0, RESET)),
        (1.0, NOW - HOUR, (1.0, RESET)),
        # a later window
        (0.1, RESET + HOUR, (0.1, RESET + HOUR)),
    ],
)
def test_a_figure_that_may_be_old_ends_no_wait(
    team: list[Agent], used: float, resets_at: datetime | None, stored: tuple[float, datetime]
) -> None:
    now = NOW + SECOND
    note(team[0], 1.0)
    note(team[1], used, resets_at=resets_at, seen_at=now, may_be_old=True)
    row = AccountWindow.objects.get()
    assert (row.used, row.resets_at) == stored
    assert row.seen_at == (NOW if stored[0] == 1 else now)
    assert waits(team) == [RESET if stored[0] == 1 else now] * 2


def test_a_figure_that_may_be_old_raises_the_share(agent: Agent) -> None:
    note(agent, 0.4)
    note(agent, 0.6, seen_at=NOW + SECOND, may_be_old=True)
    note(agent, 0.1, resets_at=RESET + 5 * HOUR, seen_at=RESET + SECOND, may_be_old=True)
    assert windows() == [("coder", "five_hours", 0.1)]


def test_a_fact_without_a_reset_keeps_the_one_to_come(agent: Agent) -> None:
    """The count of facts goes on, and the window is known to reset when it is full."""
    for number, (used, resets_at) in enumerate([(0.5, RESET), (0.6, None), (0.7, RESET)]):
        note(agent, used, resets_at=resets_at, seen_at=NOW + number * SECOND)
        row = AccountWindow.objects.get()
        assert (row.used, row.resets_at, row.facts) == (used, RESET, number + 1)
    note(agent, 1.0, resets_at=None, seen_at=NOW + 3 * SECOND)
    assert waits([agent]) == [RESET]


def test_a_wait_of_the_account_that_ends_early_leaves_no_own_waits_to_come(
    team: list[Agent],
) -> None:
    agent, line = team[0], "429 rate_limit_error: too many requests per minute"
    make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW, message=line)
    note(team[1], 1.0, seen_at=NOW + HOUR)
    assert Agent.objects.get(pk=agent.pk).waits_since == NOW + HOUR
    now = NOW + HOUR - SECOND
    agents.pause(team, paused=False, stamp=Stamp(SYSTEM, now))
    assert Agent.objects.get(pk=agent.pk).waits_since == now
    assert Agent.objects.get(pk=team[1].pk).waits_since is None


def test_a_message_replaces_no_record_of_a_full_window(team: list[Agent]) -> None:
    note(team[0], 1.0)
    later, message = RESET + HOUR, LimitSource.MESSAGE
    note(team[1], 1.0, resets_at=later, seen_at=NOW + SECOND, source=message)
    assert (AccountWindow.objects.get().source, waits(team)) == ("claude", [RESET, RESET])
    note(team[1], 1.0, resets_at=later, seen_at=RESET + SECOND, source=message)
    assert (AccountWindow.objects.get().source, waits(team)) == ("message", [later, later])


def test_a_shorter_wait_of_the_account_is_one_of_its_retries(team: list[Agent]) -> None:
    """No agent is resumed, and other retries are due when they were."""
    waiting, other = make_task(team[0]), make_task(team[0])
    rows = {row["id"]: row["attempt_id"] for row in claim(team[0], limit=2).rows}
    fail(team[0], rows[other], now=NOW, retry_after_s=600, message="It broke.")
    fail(team[0], rows[waiting], now=NOW, message="5-hour limit, resets 2pm")
    due = Task.objects.get(pk=other).due_at
    assert waits(team) == [RESET, RESET] and due == NOW + 600 * SECOND
    note(team[1], 1.0, resets_at=NOW + HOUR, seen_at=NOW + SECOND)
    assert waits(team) == [NOW + HOUR] * 2
    assert Task.objects.get(pk=waiting).due_at == NOW + HOUR
    assert Task.objects.get(pk=other).due_at == due
    assert told() == {"agent.wait_set": 3}


def test_the_report_of_a_shorter_wait_shortens_the_reporting_agents_too(team: list[Agent]) -> None:
    make_task(team[0])
    attempt = attempt_of(claim(team[0]))
    note(team[1], 1.0, source=LimitSource.MESSAGE)
    fail(team[0], attempt, now=NOW + SECOND, message="5-hour limit, resets 1pm")
    assert waits(team) == [NOW + HOUR] * 2


def test_a_wait_of_the_account_is_none_of_the_agents_own_in_a_row(team: list[Agent]) -> None:
    agent, line = team[0], "429 rate_limit_error: too many requests per minute"
    make_task(agent)
    fail(agent, attempt_of(claim(agent)), now=NOW, message=line)
    fail(agent, attempt_of(claim(agent, now=NOW + HOUR)), now=NOW + HOUR, message=line)
    found = Agent.objects.get(pk=agent.pk)
    assert (found.wait_step_s, found.waits_in_row, found.waits_since) == (120, 2, NOW)
    note(team[1], 1.0, resets_at=NOW + 3 * HOUR, seen_at=NOW + HOUR + SECOND)
    assert Agent.objects.get(pk=agent.pk).waits_in_row == 2
    # Without a success they go on, and the account's wait takes no time of theirs.
    now = NOW + 4 * HOUR
    note(team[1], 1.0, resets_at=now + HOUR, seen_at=now)
    found = Agent.objects.get(pk=agent.pk)
    assert (found.wait_step_s, found.waits_in_row) == (120, 2)
    assert found.waits_since == NOW + HOUR
    now = NOW + 6 * HOUR
    done = attempt_of(claim(agent, now=now))
    Attempt.objects.filter(pk=done).update(outcome="success", ended_at=now)
    note(team[1], 1.0, resets_at=now + 2 * HOUR, seen_at=now + HOUR)
    found = Agent.objects.get(pk=agent.pk)
    assert (found.wait_step_s, found.waits_in_row, found.waits_since) == (0, 0, None)


def test_the_wait_that_a_report_asks_for_is_not_the_accounts(team: list[Agent]) -> None:
    make_task(team[0])
    line = "5-hour limit reached, resets 2pm"
    fail(team[0], attempt_of(claim(team[0])), now=NOW, message=line, retry_after_s=60)
    assert waits(team)[1] == AccountWindow.objects.get().resets_at == RESET


def test_five_hours_that_reset_tomorrow_stop_only_the_agent_that_says_so(team: list[Agent]) -> None:
    """A time without a date that has just passed is read as tomorrow's."""
    make_task(team[0])
    fail(team[0], attempt_of(claim(team[0])), now=NOW, message="5-hour limit, resets 11am")
    assert waits(team) == [NOW + 23 * HOUR, None]
    assert AccountWindow.objects.get().resets_at is None


def test_only_a_wait_that_is_still_the_accounts_ends_early(agent: Agent) -> None:
    note(agent, 1.0)
    stamp, other = Stamp(SYSTEM, NOW + SECOND), Q(waits_until=RESET - HOUR)
    agents.resume_early([agent], only=other, stamp=stamp)
    assert waits([agent]) == [RESET]


def test_times_with_any_offset_are_stored(agent: Agent) -> None:
    odd = timezone(timedelta(hours=23, minutes=59))
    note(agent, 1.0, resets_at=RESET.astimezone(odd), seen_at=NOW.astimezone(odd), now=NOW)
    row = AccountWindow.objects.get()
    assert (row.resets_at, row.seen_at) == (RESET, NOW)


def test_a_stored_time_to_come_does_not_shut_out_newer_facts(agent: Agent) -> None:
    """The database's clock was set back."""
    note(agent, 0.4, seen_at=NOW + HOUR)
    note(agent, 0.5, seen_at=NOW)
    assert windows() == [("coder", "five_hours", 0.5)]


def test_changes_of_one_account_follow_each_other(team: list[Agent]) -> None:
    other, third = make_agent("other"), make_agent("third")

    def is_let_through(n: int) -> bool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("set local lock_timeout = '100ms'")
            change = (
                lambda: note(team[1], 0.1),
                lambda: move(team[1], ""),
                lambda: move(other, "coder"),
                lambda: note(third, 0.1),
            )[n]
            try:
                change()
            except OperationalError:
                return False
        return True

    with transaction.atomic():
        accounts.lock_accounts({(team[0].project_id, "coder")})
        assert at_once(4, is_let_through) == [False, False, False, True]


def told() -> dict[str, int]:
    """Count the events of waits by kind."""
    return dict(
        Counter(Event.objects.filter(data__has_key="waits_until").values_list("kind", flat=True))
    )


def test_the_newest_fact_counts_and_repetitions_change_nothing(team: list[Agent]) -> None:
    """F07"""
    note(team[0], 0.4, seen_at=NOW)
    note(team[1], 0.9, seen_at=NOW)
    note(team[1], 1.0, seen_at=NOW - SECOND, now=NOW)
    assert windows() == [("coder", "five_hours", 0.4)]
    assert waits(team) == [None, None]
    # the clock of an agent's machine may be ahead, and must not shut out later facts
    note(team[1], 0.5, seen_at=NOW + HOUR, now=NOW + SECOND)
    note(team[0], 0.6, seen_at=NOW + 2 * SECOND)
    assert windows() == [("coder", "five_hours", 0.6)]


def test_of_several_facts_about_a_window_the_newest_is_stored(agent: Agent) -> None:
    facts = [WindowFact(FIVE, share, RESET, NOW - n * SECOND) for n, share in ((1, 0.1), (0, 0.2))]
    for given in (facts, facts[::-1]):
        AccountWindow.objects.all().delete()
        note_windows(agent.pk, given, source=LimitSource.CODEX, now=NOW)
        assert windows() == [("coder", "five_hours", 0.2)]


def test_room_that_comes_early_ends_the_wait_and_makes_retries_due(team: list[Agent]) -> None:
    """F07: credits were bought, or the limit was raised."""
    id = make_task(team[0])
    said = fail(team[0], attempt_of(claim(team[0])), now=NOW, message="5-hour limit, resets 2pm")
    assert (said["reason"], waits(team)) == ("agent_waits", [RESET, RESET])
    note(team[1], 0.3, seen_at=NOW + SECOND)
    assert waits(team) == [NOW + SECOND] * 2
    assert claim(team[0], now=NOW + 2 * SECOND).rows[0]["id"] == id
    assert Event.objects.filter(kind="agent.resumed").count() == 2


def test_the_week_goes_on_when_the_five_hours_have_room(team: list[Agent]) -> None:
    monday = NOW + 40 * HOUR
    note(team[0], 1.0)
    note(team[0], 1.0, window=WEEK, resets_at=monday)
    assert waits(team) == [monday, monday]
    note(team[1], 0.2, seen_at=NOW + SECOND)
    assert waits(team) == [monday, monday]
    note(team[1], 1.0, seen_at=NOW + 2 * SECOND)
    note(team[1], 0.9, window=WEEK, resets_at=monday, seen_at=NOW + 3 * SECOND)
    assert waits(team) == [RESET, RESET]


def test_a_wait_for_something_else_is_not_shortened(team: list[Agent]) -> None:
    make_task(team[0])
    line = "Rate limit reached. Please try again in 3 hours."
    fail(team[0], attempt_of(claim(team[0])), now=NOW, message=line)
    note(team[1], 1.0)
    assert waits(team) == [NOW + 3 * HOUR, RESET]
    note(team[1], 0.1, seen_at=NOW + SECOND)
    assert waits(team) == [NOW + 3 * HOUR, NOW + SECOND]
    assert windows() == [("coder", "five_hours", 0.1)]


def test_a_person_can_end_the_wait_of_one_agent(team: list[Agent]) -> None:
    note(team[0], 1.0)
    agents.pause(team[:1], paused=False, stamp=Stamp(SYSTEM, NOW + SECOND))
    note(team[0], 1.0, seen_at=NOW)  # the record is read once more
    assert waits(team) == [NOW + SECOND, RESET]
    note(team[1], 1.0, seen_at=NOW + 2 * SECOND)
    assert waits(team) == [RESET, RESET]


def test_an_agent_that_changes_its_account_waits_as_the_new_one_does(team: list[Agent]) -> None:
    note(team[0], 1.0)
    agent = team[1]
    move(agent, "")
    assert waits(team) == [RESET, NOW]
    note(agent, 1.0, window=WEEK, resets_at=NOW + 30 * HOUR)
    move(agent, " coder ", now=NOW + SECOND)
    assert waits(team) == [RESET, RESET]
    assert accounts.set_account([agent], account="coder", stamp=Stamp(SYSTEM, NOW)) == []
    for wrong in ("x" * 65, "a\nb", "ghp_" + "a1B2" * 9):
        with pytest.raises(Invalid):
            move(agent, wrong)


def test_a_token_sets_no_account_of_an_agent_that_has_just_got_one(agent: Agent) -> None:
    move(Agent.objects.get(pk=agent.pk), "team-a")
    accounts.bill_to_token(agent, "team-b", stamp=Stamp(SYSTEM, NOW))
    assert Agent.objects.get(pk=agent.pk).account == "team-a"


@pytest.mark.parametrize(
    ("line", "window"),
    [
        ("You've hit your session limit · resets 3:45pm", FIVE),
        ("5-hour limit reached ∙ resets 5pm", FIVE),
        ("You've hit your weekly limit · resets Nov 24 at 3pm", WEEK),
        ("You've hit your usage limit. Try again in 3 days 4 hours.", WEEK),
        ("You've hit your usage limit. Try again in 2 hours.", FIVE),
        ("429 usage_limit_reached resets in 2 hours", FIVE),
        # of another service, of one model, without a time, or of some seconds
        ("You've hit your API limit. Try again in 2 hours.", None),
        ("Opus weekly limit reached ∙ resets tomorrow at 6am", None),
        ("You've reached your weekly usage limit", None),
        ("Rate limit reached. Please try again in 20s.", None),
    ],
)
def test_an_error_that_names_the_accounts_window_stops_the_accounts_agents(
    team: list[Agent], line: str, window: LimitWindow | None
) -> None:
    """F07"""
    task = make_task(team[0])
    fail(team[0], attempt_of(claim(team[0])), now=NOW, message=line)
    first, second = waits(team)
    assert first and second == (first if window else None)
    assert windows() == ([("coder", window.value, 1.0)] if window else [])
    assert Agent.objects.get(pk=team[0].pk).waits_for == line
    row = Task.objects.get(pk=task)
    assert (row.retry_count, row.due_at, Failure.objects.count()) == (0, first, 0)


def test_agents_of_one_account_that_meet_its_limit_at_once_wait_once(agent: Agent) -> None:
    found = [agent, *(move(make_agent(f"coder-{n}"), "coder") for n in range(2, 7))]
    for each in found:
        make_task(each)
    attempts = [attempt_of(claim(each)) for each in found]

    def meet(n: int) -> Any:
        return fail(found[n], attempts[n], now=NOW, message="5-hour limit reached, resets 2pm")

    assert [said["delay_s"] for said in at_once(6, meet)] == [7200] * 6
    assert waits(found) == [RESET] * 6
    assert not Failure.objects.exists()


def test_find_window_needs_the_error_of_a_limit() -> None:
    line = "Weekly limit reached"
    assert find_window(Evidence(line=line, known_error="usage_limit", wait_s=60)) == WEEK
    assert find_window(Evidence(line=line, known_error="rate_limit", wait_s=60)) is None


def test_successes_since_a_wait_are_read_by_the_ids_of_attempts(agent: Agent) -> None:
    statement = f"select {accounts.follows_wait('a')} from ledger_agent a where a.id = %(agent)s"
    with prepared("ledger_attempt") as cursor, transaction.atomic():
        plan = "\n".join(plan_of(cursor, statement, {"agent": agent.pk}))
    assert re.search(r"ledger_attempt_pkey.*\n.*Index Cond: \(id >= ", plan), plan
