"""The steps of a policy: who is told, in which order, and when."""

from datetime import timedelta

import pytest

from retries.on_call.rotas import Unreadable
from retries.on_call.steps import Case, Directory, Turn, matches, parse_step, take_turn
from tests.factories import MINUTE, NOW

PEOPLE = Directory(("ada", "ben", "mara"), groups={"role:admin": ["ada", "mara"]})


def take(case: Case, *lines: str, directory: Directory = PEOPLE, after: int = 0) -> Turn:
    steps = [parse_step(line) for line in lines]
    return take_turn(case, steps, directory, now=NOW + after * MINUTE)


LINES = ("0 tell mara", "15 tell role:admin, ben", "30 remind")


def test_each_step_tells_those_who_do_not_know_yet() -> None:
    first = take(Case(opened_at=NOW), *LINES)
    assert (first.tells, first.case.assignee, first.case.is_routed) == (("mara",), "mara", True)
    assert first.next_at == NOW + 15 * MINUTE
    second = take(first.case, *LINES, after=15)
    assert (second.tells, second.case.assignee) == (("ada", "ben"), "ada")
    third = take(second.case, *LINES, after=30)
    assert third.tells == ("ada",) and third.is_reminder and third.next_at is None
    assert take(third.case, *LINES, after=99).tells == ()


def test_a_step_that_names_no_one_new_reminds_the_one_who_has_it() -> None:
    case = Case(opened_at=NOW, step=1, told=("ada", "ben", "mara"), assignee="mara", is_routed=True)
    turn = take(case, *LINES, after=15)
    assert (turn.tells, turn.is_reminder, turn.case.assignee) == (("mara",), True, "mara")


def test_a_person_who_took_it_is_reminded_and_no_one_else_is_told() -> None:
    case = Case(opened_at=NOW, step=1, told=("mara",), assignee="ben")
    turn = take(case, *LINES, after=15)
    assert turn.tells == ("ben",) and turn.is_reminder and turn.case.told == ("mara",)
    gone = Directory(("ada", "mara"), groups=PEOPLE.groups)
    turn = take(case, *LINES, directory=gone, after=15)
    assert turn.tells == ("ada",) and not turn.is_reminder, "ben may no longer answer"


def test_an_outage_leaves_everyone_their_time() -> None:
    first = take(Case(opened_at=NOW), *LINES, after=90)
    assert first.next_at == NOW + 105 * MINUTE
    early = take(first.case, *LINES, after=10)
    assert early.tells == () and early.next_at == NOW + 15 * MINUTE


def test_all_who_may_answer_are_told_if_a_first_step_finds_no_one() -> None:
    none = take(Case(opened_at=NOW), "0 tell zoe, group:sre")
    assert none.tells == ("ada", "ben", "mara")
    alone = take(Case(opened_at=NOW), "0 tell zoe", directory=Directory(()))
    assert alone.case.step == 0 and alone.next_at == NOW + MINUTE, "it is tried again"


@pytest.mark.parametrize(
    "line", ["", "tell mara", "5 tell", "5 remind mara", "5 answer", "-5 remind", "5 call mara"]
)
def test_an_unreadable_step_is_refused_with_an_example(line: str) -> None:
    with pytest.raises(Unreadable, match="Write a step as"):
        parse_step(line)


def test_conditions_take_stars_and_several_values() -> None:
    facts = {"agent": ["deploy-2"], "plan": ["03-01"], "pattern": ["0192-ab", "ab"]}
    assert matches("agent:deploy-* plan:02-*,03-* pattern:ab", facts)
    assert not matches("agent:deploy-* severity:high", facts)
    for text in ("agent", "agent:", "owner:mara", "high"):
        with pytest.raises(Unreadable):
            matches(text, facts)


def test_a_day_has_many_minutes() -> None:
    assert parse_step("1440 remind").after == timedelta(days=1)
