"""Signatures identify a cause, and a fix for one cause goes to no other (RTY-1, RTY-3, §5a)."""

from datetime import datetime, timedelta

import pytest

from bench.failures import measure_look_alikes
from ledger.models import Agent, Failure
from retries import sweeps
from retries.failures.fixes import reading as fixes
from retries.failures.fixes import suggestions
from retries.failures.fixes.reading import FixState, Tries
from retries.failures.signatures import VERSION, sign
from retries.models import Escalation, FailurePattern, FixVerdict, Grouped
from tests.conftest import Api
from tests.factories import NOW
from tests.retries.failures.test_fixes import retried
from tests.retries.failures.test_suggestions import fixed
from tests.retries.moves import attempt_of, claim, fail, make_task

HOUR = timedelta(hours=1)
FIX = "Do what helped before"
TRACE = 'Traceback (most recent call last):\n  File "/srv/{}", line {}, in {}\n    x\n{}'
INDEX = "IndexError: list index out of range"
API = 'API Error: 400 {{"type":"error","error":{{"type":"invalid_request_error","message":"{}"}}}}'
# two causes with the same words: a fix for the first one is wrong for the second one
LOOK_ALIKES = {
    "port": ("connect ECONNREFUSED 127.0.0.1:6379", "connect ECONNREFUSED 127.0.0.1:5432"),
    "test file": (
        "FAILED tests/test_orders.py::test_create - assert 400 == 201",
        "FAILED tests/test_invoices.py::test_create - assert 400 == 201",
    ),
    "frame's file": (
        TRACE.format("app/parser.py", 12, "parse", INDEX),
        TRACE.format("billing/tax.py", 12, "parse", INDEX),
    ),
    "message": (
        API.format("Your credit balance is too low"),
        API.format("max_tokens: 9000 > 8192, which is the maximum"),
    ),
    "own port": ("Error: listen EADDRINUSE :::3000", "Error: listen EADDRINUSE :::8080"),
    "path": (
        "Error: no such file or directory, open '/srv/app/config/settings.yml'",
        "Error: no such file or directory, open '/srv/tests/fixtures/settings.yml'",
    ),
    "frame's function": (
        TRACE.format("app/parser.py", 12, "parse", INDEX),
        TRACE.format("app/parser.py", 12, "load", INDEX),
    ),
    "host": (
        "dial tcp db.acme.test:5432: connection refused",
        "dial tcp logs.acme.test:5432: connection refused",
    ),
    "address": ("dial tcp 10.0.0.7:5432: i/o timeout", "dial tcp 10.0.0.8:5432: i/o timeout"),
    "package": ("error: package 'flask' not found", "error: package 'django' not found"),
    "module": ("Cannot find module 'uuid'", "Cannot find module 'left-pad'"),
    "program": (
        "run.sh: line 3: 411 Segmentation fault (core dumped) ./bin/worker",
        "run.sh: line 3: 411 Segmentation fault (core dumped) ./bin/indexer",
    ),
    "setting": ("KeyError: 'DATABASE_URL'", "KeyError: 'SMTP_HOST'"),
    "code": (
        'API Error: 400 {"error":{"code":"model_not_found"}}',
        'API Error: 400 {"error":{"code":"tool_not_found"}}',
    ),
    "place": (
        "error[E0505]: cannot move out of `v` because it is borrowed\n --> src/main.rs:4:5",
        "error[E0505]: cannot move out of `v` because it is borrowed\n --> src/tax.rs:4:5",
    ),
    "nothing": ("AssertionError", "AssertionError"),
    "nothing but a code": (
        "Process completed with exit code 1",
        "Process completed with exit code 1",
    ),
}
# one cause, told at another line, time or place
EQUAL = {
    "title's place": tuple(
        f"  ✘  1 tests/login.spec.ts:{n}:7 › logs in ({n}.3s)\n\n    Error: expect(x).toBe(y)"
        for n in (14, 20)
    ),
    "importing file": tuple(
        f"Error: Cannot find package 'uuid' imported from /srv/app/src/{name}.js"
        for name in ("cart", "orders")
    ),
    "importing module": tuple(
        f"src/{name}.ts(3,{n}): error TS2307: Cannot find module 'zod' or its types."
        for name, n in (("a", 5), ("b", 19))
    ),
    "line of a frame": tuple(TRACE.format("app/x.py", n, "parse", INDEX) for n in (3, 99)),
    "checkout": tuple(
        f"Error: no such file or directory, open '{root}/app/config/settings.yml'"
        for root in ("/srv", "/home/dev/build-2f91c3")
    ),
    "duration": tuple(f"connect to db.acme.test:5432 timed out after {n} s" for n in (3, 41)),
    "loopback": ("ECONNREFUSED 127.0.0.1:5432", "ECONNREFUSED localhost:5432"),
    "version": tuple(f"No matching distribution found for flask=={n}" for n in ("9.9", "8.1.2")),
    "process": tuple(
        f"run.sh: line {n}: {n} Segmentation fault (core dumped) ./bin/worker" for n in (3, 41)
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_fix_is_neither_filled_in_nor_told_for_a_look_alike(
    name: str, agent: Agent, operator: Api
) -> None:
    """Over three successes; the same failure that is identified gets it."""
    one, other = LOOK_ALIKES[name]
    assert sign(one).identity.fingerprint == sign(other).identity.fingerprint or name == "message"
    for n in range(3):
        fixed(agent, FIX, works=True, now=NOW + n * HOUR, message=one)
    assert FIX not in find_fill(agent, operator, other, now=NOW + 4 * HOUR)
    assert FIX not in retried(agent, works=False, now=NOW + 5 * HOUR, message=other)
    if not name.startswith("nothing"):
        assert find_fill(agent, operator, one, now=NOW + 6 * HOUR) == [FIX, FIX]
        told = retried(agent, works=True, now=NOW + 7 * HOUR, message=one)
        assert '<known by="tenfour">' in told and FIX in told


def find_fill(agent: Agent, operator: Api, message: str, *, now: datetime) -> list[str]:
    """Return the fix that the form begins with and the API's suggestion, without empty ones."""
    id = make_task(agent, now=now, max_attempts=1, on_exhausted="escalate")
    fail(agent, attempt_of(claim(agent, task=id, now=now)), now=now, message=message)
    asked = Escalation.objects.get(task=id)
    body = operator("GET", f"/escalations/{asked.pk}").body
    fills = [each["prompt_fill"] for each in body["options"] if each["name"] == "fix"]
    return [*fills, (body["suggestion"] or {}).get("fix", "")]


@pytest.mark.parametrize("name", EQUAL)
def test_what_moves_tears_no_cause_apart(name: str) -> None:
    one, other = map(sign, EQUAL[name])
    assert one.entities and one.key == other.key


def test_generated_look_alikes_are_told_apart() -> None:
    apart, found = measure_look_alikes(alike=False), measure_look_alikes(alike=True)
    assert apart.value >= 0.99 and found.value >= 0.9, apart.misses + found.misses


def test_the_version_of_the_rules_is_part_of_a_signature() -> None:
    """A failure that older rules signed shares no signature with a new one."""
    assert sign("Cannot find module 'uuid'").key.startswith(VERSION)
    assert not set(VERSION) <= set("0123456789abcdef")


@pytest.mark.django_db
def test_a_fix_has_worked_where_another_error_follows(agent: Agent) -> None:
    """RTY-3: its signature is gone; the same one again is a miss."""
    missing, after = "Cannot find module 'uuid'", "FAILED tests/test_a.py::test_x - assert 1 == 2"
    for n in range(3):
        id = fixed(agent, FIX, works=False, now=NOW + n * HOUR, message=missing, then=after)
        assert Failure.objects.filter(task=id).count() == 2
    pattern = FailurePattern.objects.get(template__startswith="Cannot find")
    (fix,) = fixes.list_learned_fixes(pattern.pk)
    assert (fix.state, fix.counts, fix.done) == (FixState.ADVICE, Tries(3, 3), Tries(0, 3))
    assert fix.evidence.startswith("worked 3 of 3, task done 0 of 3")
    for n in range(3):
        fixed(agent, FIX, works=False, now=NOW + (4 + n) * HOUR, message=missing)
    (fix,) = fixes.list_learned_fixes(pattern.pk)
    assert (fix.state, fix.counts) == (FixState.RETIRED, Tries(3, 6))


@pytest.mark.django_db
def test_a_fix_for_what_nothing_identifies_is_shown_with_its_words(agent: Agent) -> None:
    fixed(agent, FIX, works=True, now=NOW, message="AssertionError")
    pattern = FailurePattern.objects.get()
    (worked,) = suggestions.list_worked_fixes(pattern.pk)
    assert worked.named == "worked elsewhere for the same words"


@pytest.mark.django_db
def test_failures_that_older_rules_signed_are_signed_again(agent: Agent) -> None:
    """The fixes for them count from then on; until then they go to no failure."""
    message = "connect ECONNREFUSED 127.0.0.1:6379"
    for n in range(3):
        fixed(agent, FIX, works=True, now=NOW + n * HOUR, message=message)
    new = sign(message).key
    pattern = FailurePattern.objects.get()
    old = {"signature": "0" * 16, "entities": []}
    Grouped.objects.update(**old)
    FixVerdict.objects.create(
        pattern=pattern,
        signature="0" * 16,
        fix_key=fixes.key_of(FIX),
        verdict="promoted",
        fix=FIX,
        at=NOW,
        by_name="mara",
    )
    assert FIX not in retried(agent, works=True, now=NOW + 5 * HOUR, message=message)
    assert sweeps.run("insight", now=NOW + 6 * HOUR)["signed"] == 3
    (fix,) = [each for each in fixes.list_learned_fixes(pattern.pk) if each.signature == new]
    assert (fix.state, fix.counts, fix.entities) == (FixState.PROMOTED, Tries(3, 3), (":6379",))
    assert "signed" not in sweeps.run("insight", now=NOW + 7 * HOUR)
