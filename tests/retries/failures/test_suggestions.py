"""The fixes offered for a failure: worked ones, the agent's, known errors (S1.14)."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Failure
from ledger.tokens import TrustedCaller
from retries import claims, in_process
from retries.attempts import releases
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.failures.fixes import suggestions
from retries.failures.fixes.suggestions import FixOffer, Suggestion
from retries.models import Escalation, FailurePattern
from retries.states import Answer
from tests.factories import MINUTE, NOW
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
MARA = Actor("user", "1", "mara")
MISSING = "Cannot find module 'uuid'"


def failure(**more: object) -> Failure:
    blank = {"details": "", "root_cause_guess": "", "suggested_fix": "", "verification": None}
    return Failure(**(blank | {"message": MISSING} | more))


def test_a_known_error_fills_in_for_the_agent() -> None:
    found = suggestions.suggest(failure())
    assert (found.title, found.cause_by, found.fix_by) == ("Missing module", "tenfour", "tenfour")
    assert found.cause == "uuid is not installed where the command runs."
    assert found.fix.startswith("Add it to the project's dependencies")


def test_the_agents_cause_and_fix_win_separately() -> None:
    found = suggestions.suggest(failure(suggested_fix="Run npm install uuid"))
    assert (found.fix, found.fix_by, found.cause_by) == ("Run npm install uuid", "agent", "tenfour")
    found = suggestions.suggest(failure(message="odd", root_cause_guess="the moon"))
    assert found == Suggestion(cause="the moon", cause_by="agent")
    assert not suggestions.suggest(failure(message="odd"))


def test_the_output_and_exit_code_count() -> None:
    printed = {"exit_code": 1, "output": "x\nbash: cargo: command not found\n"}
    found = suggestions.suggest(failure(message="check failed", verification=printed))
    assert found.cause == "cargo is not installed, or not on the PATH of the process."
    found = suggestions.suggest(failure(message="check failed", verification={"exit_code": 137}))
    assert found.title == "Out of memory"


def fixed(
    agent: Agent, words: str, *, works: bool, now: datetime, message: str = MISSING, then: str = ""
) -> UUID:
    """A task that failed, was answered with a fix, and was then done or failed once more.

    It fails in the same way, or with `then`.
    """
    id = make_task(agent, now=now, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, now=now)), now=now, message=message)
    answering.answer(
        Escalation.objects.get(task=id, state="open").pk,
        Choice(Answer.FIX, fix=words),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, now + MINUTE),
        channel="api",
    )
    attempt = attempt_of(claim(agent, now=now + 2 * MINUTE))
    if works:
        in_process.report_success(attempt, stamp=Stamp(SYSTEM, now + 3 * MINUTE))
    else:
        fail(agent, attempt, now=now + 3 * MINUTE, message=then or message)
    return id


def pattern() -> UUID:
    return FailurePattern.objects.get(template__startswith="Cannot find").pk


def test_worked_fixes_are_ordered_by_reliability(agent: Agent) -> None:
    hour = timedelta(hours=1)
    for n in range(6):
        fixed(agent, "Run npm ci" if n else "run  NPM ci", works=n != 2, now=NOW + n * hour)
    fixed(agent, "Use crypto instead", works=True, now=NOW + 7 * hour)
    fixed(agent, "Try harder", works=False, now=NOW + 8 * hour)
    fixed(agent, "Clean the disk", works=True, now=NOW + 9 * hour, message="disk full")
    found = suggestions.list_worked_fixes(pattern())
    assert [(each.fix, str(each)) for each in found] == [
        ("Run npm ci", "worked 5 of 6"),
        ("Use crypto instead", "worked 1 of 1"),
    ]
    assert (found[0].last_at, found[0].last_by) == (NOW + 5 * hour + MINUTE, "mara")
    assert len(suggestions.list_worked_fixes(pattern(), most=1)) == 1


def test_a_live_or_released_attempt_does_not_count(agent: Agent) -> None:
    id = make_task(agent, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent)), now=NOW, message=MISSING)
    question = Escalation.objects.get(task=id)
    choice = Choice(Answer.FIX, fix="Run npm ci")
    every = Escalation.objects.all()
    answering.answer(
        question.pk, choice, among=every, stamp=Stamp(MARA, NOW + MINUTE), channel="api"
    )
    first = attempt_of(claim(agent, now=NOW + 2 * MINUTE))
    assert suggestions.list_worked_fixes(pattern()) == []
    releases.release(
        first,
        reason="shutdown",
        note="",
        caller=TrustedCaller(SYSTEM, agent=agent),
        now=NOW + 3 * MINUTE,
    )
    assert suggestions.list_worked_fixes(pattern()) == []
    second = attempt_of(claims.claim(TrustedCaller(SYSTEM, agent=agent), now=NOW + 4 * MINUTE))
    in_process.report_success(second, stamp=Stamp(SYSTEM, NOW + 5 * MINUTE))
    assert [str(each) for each in suggestions.list_worked_fixes(pattern())] == ["worked 1 of 1"]


def test_worked_fixes_come_before_known_errors(agent: Agent) -> None:
    fixed(agent, "Run npm ci", works=True, now=NOW)
    later = NOW + timedelta(hours=1)
    make_task(agent, now=later)
    fail(agent, attempt_of(claim(agent, now=later)), now=later, message=f"{MISSING} ")
    last = Failure.objects.latest("at")
    offers = suggestions.list_offers(last)
    assert offers[0] == FixOffer("Run npm ci", "worked 1 of 1")
    assert [each.why for each in offers] == ["worked 1 of 1", "Missing module"]


def test_a_fix_is_offered_only_for_what_its_error_named(agent: Agent) -> None:
    """The pattern's page says for what it worked."""
    hour, polars = timedelta(hours=1), MISSING.replace("uuid", "polars")
    fixed(agent, "Add polars to the project", works=True, now=NOW, message=polars)
    fixed(agent, "Run npm ci", works=True, now=NOW + hour, message=polars)
    fixed(agent, "Run npm ci", works=False, now=NOW + 2 * hour)
    last: dict[str, list[FixOffer]] = {}
    for n, message in enumerate((polars, MISSING)):
        id = make_task(agent, now=NOW + (3 + n) * hour, max_attempts=1)
        fail(agent, attempt_of(claim(agent, task=id)), now=NOW + (3 + n) * hour, message=message)
        found = Failure.objects.select_related("grouped").get(task=id)
        last[message] = suggestions.list_offers(found)
    assert [each.fix for each in last[polars]][:2] == ["Run npm ci", "Add polars to the project"]
    assert [each.why for each in last[MISSING]] == ["Missing module"]
    assert {each.fix: each.named for each in suggestions.list_worked_fixes(pattern())} == {
        "Add polars to the project": "worked for polars",
        "Run npm ci": "worked for polars, not for uuid",
    }
