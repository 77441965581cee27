"""Fixes by signature: their counts beside plain retries, advice, verdicts, and retirement."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from ledger.errors import NotFound
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Event, Failure
from ledger.tasks.lineage import fetch_task
from ledger.tasks.spec import Backoff
from retries import in_process
from retries.claims import ClaimResult
from retries.escalations import answering
from retries.escalations.choices import Choice
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import suggestions
from retries.failures.fixes import verdicts as fix_verdicts
from retries.failures.fixes.reading import FixState, LearnedFix, Tries
from retries.failures.signatures import sign
from retries.models import Escalation, FailurePattern, StoredContext
from retries.retry_context.block import render_retry_context
from retries.retry_context.history import load_histories, render_next_context
from retries.retry_context.storing import store_contexts
from retries.states import Answer, Verdict
from tests.factories import MINUTE, NOW
from tests.retries.failures.test_suggestions import MISSING, fixed
from tests.retries.moves import attempt_of, claim, fail, make_task

pytestmark = pytest.mark.django_db
MARA = Actor("user", "1", "mara")
HOUR = timedelta(hours=1)
FIX = "Add <uuid> to package.json"


def tell(found: ClaimResult) -> str:
    """The retry context of a claimed attempt, stored as each way to claim stores it."""
    row = found.rows[0]
    history = load_histories([row["id"]])[row["id"]]
    context = render_retry_context(history, attempt=row["attempt_number"], max_attempts=2)
    store_contexts([(row, history, context)])
    return context


def retried(agent: Agent, *, works: bool, now: datetime, message: str = MISSING) -> str:
    """A task that failed and was tried again with what Tenfour tells; what it was told."""
    make_task(agent, now=now, max_attempts=2, backoff=Backoff(0, jitter=False))
    fail(agent, attempt_of(claim(agent, now=now)), now=now, message=message)
    found = claim(agent, now=now + MINUTE)
    told, attempt = tell(found), attempt_of(found)
    if works:
        in_process.report_success(attempt, stamp=Stamp(SYSTEM, now + 2 * MINUTE))
    else:
        fail(agent, attempt, now=now + 2 * MINUTE, message=message)
    return told


def learned() -> LearnedFix:
    key = fixes.key_of(FIX)
    return next(each for each in fixes.list_learned_fixes(pattern_id()) if each.key == key)


def judge(verdict: Verdict | None, *, now: datetime) -> LearnedFix:
    fix = learned()
    return fix_verdicts.judge(
        FailurePattern.objects.get(pk=fix.pattern_id),
        signature=fix.signature,
        key=fix.key,
        verdict=verdict,
        note=" we know ",
        stamp=Stamp(MARA, now),
    )


def test_a_fix_that_worked_is_told_with_its_counts_until_it_stops_working(agent: Agent) -> None:
    """§5a: advice from three times on, beside plain retries, and only for the same signature."""
    other = MISSING.replace("uuid", "left-pad")
    assert "<known" in retried(agent, works=True, now=NOW)
    retried(agent, works=False, now=NOW + HOUR)
    for n in range(2):
        fixed(agent, FIX, works=True, now=NOW + (2 + n) * HOUR)
    assert (learned().state, str(learned()), str(learned().plain)) == (
        FixState.TRIED,
        "worked 2 of 2",
        "1 of 2",
    )
    told = retried(agent, works=False, now=NOW + 5 * HOUR)
    assert "worked=" not in told and "Add it to the project" in told
    fixed(agent, FIX.upper(), works=True, now=NOW + 6 * HOUR)
    fixed(agent, "Try harder", works=False, now=NOW + 7 * HOUR)
    told = retried(agent, works=True, now=NOW + 8 * HOUR)
    escaped = FIX.upper().replace("<", "&lt;").replace(">", "&gt;")
    line = f'<fix worked="3 of 3" plain_retries="1 of 3">{escaped}</fix>'
    assert line in told
    stored = StoredContext.objects.latest("pk")
    assert (stored.text, stored.fix_key) == (told, fixes.key_of(FIX))
    # the attempt that was told counts for the fix, and no more for plain retries
    assert (learned().counts, learned().plain) == (Tries(4, 4), Tries(1, 3))
    assert learned().evidence == "worked 4 of 4, plain retries 1 of 3"
    # another module of the same pattern is told nothing of it
    assert "worked=" not in retried(agent, works=True, now=NOW + 9 * HOUR, message=other)
    for n in range(3):
        assert "worked=" in retried(agent, works=False, now=NOW + (10 + n) * HOUR)
    gone = learned()
    assert (gone.state, gone.is_retired_by_person, gone.counts) == (
        FixState.RETIRED,
        False,
        Tries(4, 7),
    )
    assert "worked=" not in retried(agent, works=True, now=NOW + 14 * HOUR)


def pattern_id() -> UUID:
    return FailurePattern.objects.get(template__startswith="Cannot find").pk


def test_a_person_promotes_and_retires_fixes(agent: Agent) -> None:
    fixed(agent, FIX, works=False, now=NOW)
    assert learned().state == FixState.TRIED
    assert judge(Verdict.PROMOTED, now=NOW + HOUR).state == FixState.PROMOTED
    told = retried(agent, works=False, now=NOW + 2 * HOUR)
    assert '<fix worked="0 of 1">' in told
    failure = Failure.objects.select_related("grouped").filter(message=MISSING).latest("pk")
    assert suggestions.list_offers(failure)[0].fix == FIX
    assert judge(Verdict.RETIRED, now=NOW + 3 * HOUR).is_retired_by_person
    assert FIX not in [each.fix for each in suggestions.list_offers(failure)]
    assert "worked=" not in retried(agent, works=True, now=NOW + 4 * HOUR)
    assert judge(None, now=NOW + 5 * HOUR).state == FixState.TRIED
    judge(None, now=NOW + 5 * HOUR)  # nothing to take back, and no event
    # a promoted fix retires by itself too, and a second promotion starts again
    judge(Verdict.PROMOTED, now=NOW + 6 * HOUR)
    for n in range(3):
        retried(agent, works=False, now=NOW + (7 + n) * HOUR)
    assert learned().state == FixState.RETIRED
    assert Verdict.PROMOTED in fix_verdicts.list_moves(learned())
    assert judge(Verdict.PROMOTED, now=NOW + 12 * HOUR).state == FixState.PROMOTED
    events = Event.objects.filter(kind__startswith="pattern.fix_").order_by("id")
    assert [(each.kind, each.actor_name) for each in events] == [
        ("pattern.fix_promoted", "mara"),
        ("pattern.fix_retired", "mara"),
        ("pattern.fix_reset", "mara"),
        ("pattern.fix_promoted", "mara"),
        ("pattern.fix_promoted", "mara"),
    ]
    assert events[0].data == {
        "fix": FIX,
        "signature": learned().signature,
        "entities": ["uuid"],
        "counts": "0 of 1",
        "note": "we know",
    }
    pattern = FailurePattern.objects.get(pk=pattern_id())
    with pytest.raises(NotFound):
        fix_verdicts.find_fix(pattern, signature=learned().signature, key="0" * 16)


def test_a_persons_words_stand_alone(agent: Agent) -> None:
    """A fix by Tenfour beside an answer would say two things, and count twice."""
    for n in range(3):
        fixed(agent, FIX, works=True, now=NOW + n * HOUR)
    now = NOW + 4 * HOUR
    id = make_task(agent, now=now, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, now=now)), now=now, message=MISSING)
    assert "worked=" in load_context(id)
    answering.answer(
        Escalation.objects.get(task=id).pk,
        Choice(Answer.FIX, fix="Use crypto"),
        among=Escalation.objects.all(),
        stamp=Stamp(MARA, now + MINUTE),
        channel="api",
    )
    told = tell(claim(agent, now=now + 2 * MINUTE))
    assert "Use crypto" in told and "worked=" not in told
    assert StoredContext.objects.latest("pk").fix_key == ""


def load_context(id: UUID) -> str:
    return render_next_context(fetch_task(id))


@pytest.mark.parametrize(
    "line",
    [
        "Error: Cannot find module 'NAME'",
        'secrets is forbidden: cannot list "secrets" in API group "" in the namespace "NAME"',
        "relation `NAME` does not exist",
        "Could not resolve host: NAME.example.org",
    ],
)
def test_a_signature_tells_apart_what_errors_name(line: str) -> None:
    """One pattern, and no fix of the one is offered to the other."""
    one, other = (sign(line.replace("NAME", name)) for name in ("alpha", "beta"))
    assert one.identity.fingerprint == other.identity.fingerprint
    assert one.key != other.key
