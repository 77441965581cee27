"""Breakers: what opens and closes them, the one probe, by hand, and around a function."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from ledger import tasks
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Attempt, Breaker, Event
from ledger.states import FailureType, Outcome
from retries import breaker, breaker_actions
from retries.breaker import CircuitBreaker, CircuitBreakerConfig, CircuitBreakerOpen, CircuitState
from tests.elsewhere import blocked
from tests.factories import NOW, make_agent, make_project
from tests.loops import Caller, cancel_when_begun, run_coroutine
from tests.waiting import PATIENCE_S

SECOND = timedelta(seconds=1)
MINUTE = timedelta(seconds=60)
ANN = Actor("user", "1", "ann")


class Broken(Exception):
    """What the functions here fail with."""


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(project: Any) -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("coder", clock=clock)


def fail() -> None:
    raise Broken("out of order")


def failing(circuit: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Broken):
            circuit.call(fail)


def refused(circuit: CircuitBreaker) -> None:
    """The circuit is open: the function is not called."""
    with pytest.raises(CircuitBreakerOpen):
        circuit.call(lambda: pytest.fail("it was called"))


def fails(agent: Agent, times: int = 1, *, type: str = "execution_error", **more: Any) -> None:
    """Tell the agent's breaker of failures."""
    for _ in range(times):
        tell(agent, failure_type=type, **more)


def tell(agent: Agent, *, attempt: UUID | None = None, now: datetime = NOW, **more: Any) -> None:
    ok = "failure_type" not in more
    attempt_id = attempt or uuid4()
    breaker.record_outcome(agent.pk, ok=ok, attempt_id=attempt_id, stamp=Stamp(SYSTEM, now), **more)


def probe(agent: Agent, *, now: datetime) -> UUID:
    """Take the probe's slot, as a call does."""
    id = uuid4()
    with transaction.atomic():
        assert breaker.check_gate(agent.pk, now=now).probe
        breaker.take_probe(agent.pk, id, now=now)
    return id


def make_attempt(agent: Agent) -> Attempt:
    """A live attempt, made without a claim."""
    return Attempt.objects.create(
        task_id=tasks.enqueue(agent, "build", now=NOW),
        agent=agent,
        number=1,
        started_at=NOW,
        lease_s=300,
        lease_expires_at=NOW + MINUTE,
        deadline_at=NOW + MINUTE,
    )


def state_of(agent: Agent) -> str:
    return Breaker.objects.get(pk=agent.pk).state


def journaled(agent: Agent) -> list[tuple[str, str | None, str | None]]:
    """What the journal says of the agent's breaker."""
    events = Event.objects.filter(subject_id=agent.pk, kind__startswith="agent.breaker_")
    return list(events.order_by("id").values_list("kind", "from_state", "to_state"))


# ---- closed, open, half open


@pytest.mark.django_db
def test_closed_to_open_transition(circuit: CircuitBreaker) -> None:
    """S3.31, S3.36: five consecutive failures, each passed on as it is."""
    failing(circuit, 4)
    assert circuit.state == CircuitState.CLOSED
    failing(circuit, 1)
    assert circuit.state == CircuitState.OPEN
    refused(circuit)


@pytest.mark.django_db
def test_a_success_in_between_starts_the_count_anew(circuit: CircuitBreaker) -> None:
    """S3.31"""
    failing(circuit, 4)
    assert circuit.call(lambda: "fine") == "fine"
    failing(circuit, 4)
    assert circuit.state == CircuitState.CLOSED


@pytest.mark.django_db
def test_open_to_half_open_timeout(circuit: CircuitBreaker, clock: Clock) -> None:
    """S3.33"""
    failing(circuit, 5)
    clock.now += MINUTE - SECOND / 10
    refused(circuit)
    assert circuit.state == CircuitState.OPEN
    clock.now += SECOND / 10
    assert circuit.call(lambda: circuit.state) == CircuitState.HALF_OPEN


@pytest.mark.django_db
def test_half_open_to_closed_recovery(circuit: CircuitBreaker, clock: Clock) -> None:
    """S3.34"""
    failing(circuit, 5)
    clock.now += MINUTE
    circuit.call(bool)
    assert circuit.state == CircuitState.HALF_OPEN
    circuit.call(bool)
    row = Breaker.objects.get()
    assert (row.state, row.failures, row.successes) == (CircuitState.CLOSED, 0, 0)
    failing(circuit, 4)
    assert circuit.state == CircuitState.CLOSED


@pytest.mark.django_db
@pytest.mark.parametrize("successes", [0, 1])
def test_half_open_to_open_on_failure(
    circuit: CircuitBreaker, clock: Clock, successes: int
) -> None:
    """S3.35: the minute starts again."""
    failing(circuit, 5)
    clock.now += MINUTE
    for _ in range(successes):
        circuit.call(bool)
    failing(circuit, 1)
    assert circuit.state == CircuitState.OPEN
    clock.now += MINUTE - SECOND
    refused(circuit)
    clock.now += SECOND
    circuit.call(bool)
    assert circuit.state == CircuitState.HALF_OPEN
    circuit.call(bool)
    assert circuit.state == CircuitState.CLOSED


@pytest.mark.django_db
def test_circuit_breaker_open_exception(circuit: CircuitBreaker, clock: Clock) -> None:
    """S3.32"""
    failing(circuit, 5)
    clock.now += SECOND * 17.5
    with pytest.raises(CircuitBreakerOpen) as caught:
        circuit.call(lambda: pytest.fail("it was called"))
    assert str(caught.value) == "Circuit breaker 'coder' is OPEN"
    assert caught.value.more == {"retry_after_s": 43}


@pytest.mark.django_db
def test_thresholds_are_the_settings_or_those_of_a_config(settings: Any, clock: Clock) -> None:
    """S3.30, S3.50"""
    assert breaker.read_config() == CircuitBreakerConfig(5, 2, 60) == CircuitBreakerConfig()
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_FAILURES": 1}
    tuned = CircuitBreaker("tuned", clock=clock)
    failing(tuned, 1)
    assert tuned.state == CircuitState.OPEN
    own = CircuitBreaker("own", CircuitBreakerConfig(2, 1, 5), clock=clock)
    failing(own, 2)
    clock.now += 5 * SECOND
    own.call(bool)
    assert own.state == CircuitState.CLOSED


# ---- around a function


@pytest.mark.django_db
def test_a_call_passes_arguments_in_and_the_result_out(circuit: CircuitBreaker) -> None:
    assert circuit.call(int, "ff", base=16) == 255
    assert not Breaker.objects.exists()


@pytest.mark.django_db
def test_each_agent_has_its_own(clock: Clock) -> None:
    """S3.37, S3.52: tripping one leaves the others closed, and untouched."""
    names = ("claude", "codex", "gemini")
    claude, codex, gemini = (CircuitBreaker(name, clock=clock) for name in names)
    failing(claude, 5)
    assert codex.call(lambda: "fine") == gemini.call(lambda: "fine") == "fine"
    assert [row.agent.name for row in Breaker.objects.all()] == ["claude"]


@pytest.mark.django_db
def test_every_worker_sees_the_same_circuit(circuit: CircuitBreaker, clock: Clock) -> None:
    """S3.38: what one object has learned, another that was made before and one made later know."""
    before = CircuitBreaker("coder", clock=clock)
    assert before.state == CircuitState.CLOSED
    failing(circuit, 3)
    failing(before, 2)
    for each in (circuit, before, CircuitBreaker("coder", clock=clock)):
        refused(each)


@pytest.mark.django_db
def test_a_probe_that_is_stopped_gives_its_slot_back(circuit: CircuitBreaker, clock: Clock) -> None:
    failing(circuit, 5)
    clock.now += MINUTE

    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        circuit.call(stopped)
    assert circuit.state == CircuitState.HALF_OPEN
    circuit.call(bool)


@pytest.mark.django_db
def test_a_probe_that_fails_in_a_way_that_does_not_count_gives_its_slot_back(
    circuit: CircuitBreaker, clock: Clock, settings: Any
) -> None:
    def time_out() -> None:
        raise TimeoutError

    failing(circuit, 5)
    clock.now += MINUTE
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_COUNTS": ["timeout"]}
    failing(circuit, 1)
    assert circuit.state == CircuitState.HALF_OPEN
    with pytest.raises(TimeoutError):
        circuit.call(time_out)
    assert circuit.state == CircuitState.OPEN


@pytest.mark.django_db
def test_a_probe_whose_process_died_holds_the_slot_for_a_minute(agent: Agent) -> None:
    breaker_actions.trip([agent], reason="", stamp=Stamp(ANN, NOW))
    probe(agent, now=NOW + MINUTE)
    with transaction.atomic():
        assert breaker.check_gate(agent.pk, now=NOW + 2 * MINUTE - SECOND).open
    probe(agent, now=NOW + 2 * MINUTE)


@pytest.mark.django_db(transaction=True)
def test_a_call_within_a_transaction_is_refused() -> None:
    make_project()
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        CircuitBreaker("coder").call(bool)


# ---- what counts


@pytest.mark.django_db
@pytest.mark.parametrize("type", FailureType.values)
def test_only_the_types_that_count_are_counted(agent: Agent, type: str) -> None:
    """Code that fails its tests is no broken agent."""
    counts = type in ("execution_error", "timeout")
    fails(agent, 5, type=type)
    assert Breaker.objects.filter(state=CircuitState.OPEN).exists() == counts


@pytest.mark.django_db
def test_a_failure_that_does_not_count_leaves_the_row_of_failures_as_it_is(agent: Agent) -> None:
    fails(agent, 4)
    fails(agent, type="verification_failed")
    assert state_of(agent) == CircuitState.CLOSED
    fails(agent, type="timeout")
    assert state_of(agent) == CircuitState.OPEN


@pytest.mark.django_db
def test_which_types_count_is_a_setting(agent: Agent, settings: Any) -> None:
    settings.TENFOUR = settings.TENFOUR | {"BREAKER_COUNTS": ["architect_rejected"]}
    fails(agent, 5, type="timeout")
    assert not Breaker.objects.exists()
    fails(agent, 5, type="architect_rejected")
    assert state_of(agent) == CircuitState.OPEN


@pytest.mark.django_db
def test_a_closed_breaker_without_failures_is_not_written_to(agent: Agent) -> None:
    tell(agent)
    assert not Breaker.objects.exists()
    fails(agent)
    tell(agent, now=NOW + SECOND)
    tell(agent, now=NOW + MINUTE)
    row = Breaker.objects.get()
    assert (row.failures, row.updated_at) == (0, NOW + SECOND)


@pytest.mark.django_db
def test_what_comes_late_neither_extends_nor_closes_an_open_one(agent: Agent) -> None:
    fails(agent, 5)
    fails(agent, 3, now=NOW + 50 * SECOND)
    for _ in range(3):
        tell(agent, now=NOW + 55 * SECOND)
    row = Breaker.objects.get()
    assert (row.state, row.failures, row.updated_at) == (CircuitState.OPEN, 5, NOW)
    probe(agent, now=NOW + MINUTE)


@pytest.mark.django_db
def test_a_half_open_one_listens_to_its_probe_alone(agent: Agent) -> None:
    """An attempt from before the trip that ends now says nothing of whether the agent works."""
    fails(agent, 5)
    first = probe(agent, now=NOW + MINUTE)
    fails(agent, now=NOW + MINUTE)
    for _ in range(3):
        tell(agent, now=NOW + MINUTE)
    row = Breaker.objects.get()
    assert (row.state, row.successes, row.probe_attempt) == (CircuitState.HALF_OPEN, 0, first)
    tell(agent, attempt=first, now=NOW + MINUTE)
    tell(agent, attempt=first, now=NOW + MINUTE)
    assert Breaker.objects.get().successes == 1
    fails(agent, attempt=probe(agent, now=NOW + MINUTE), now=NOW + MINUTE)
    assert state_of(agent) == CircuitState.OPEN


# ---- the gate


@pytest.mark.django_db
def test_the_gate_says_how_long_it_stays_shut(agent: Agent) -> None:
    with transaction.atomic():
        assert breaker.check_gate(agent.pk, now=NOW) == breaker.Gate()
        fails(agent, 5)
        assert breaker.check_gate(agent.pk, now=NOW) == breaker.Gate(open=True, retry_after_s=60)
        late = NOW + MINUTE - SECOND / 10
        assert breaker.check_gate(agent.pk, now=late) == breaker.Gate(open=True, retry_after_s=1)
        assert breaker.check_gate(agent.pk, now=NOW + MINUTE) == breaker.Gate(probe=True)
        # nothing was taken, so the slot is still free
        assert breaker.check_gate(agent.pk, now=NOW + MINUTE) == breaker.Gate(probe=True)


@pytest.mark.django_db
@pytest.mark.parametrize("outcome", Outcome.values)
def test_the_slot_is_free_again_whatever_ended_the_probe(agent: Agent, outcome: str) -> None:
    attempt = make_attempt(agent)
    breaker_actions.trip([agent], reason="", stamp=Stamp(ANN, NOW))
    with transaction.atomic():
        assert breaker.check_gate(agent.pk, now=NOW + MINUTE).probe
        breaker.take_probe(agent.pk, attempt.pk, now=NOW + MINUTE)
        much_later = NOW + 100 * MINUTE  # the lease decides how long an attempt lives
        assert breaker.check_gate(agent.pk, now=much_later) == breaker.Gate(
            open=True, retry_after_s=1
        )
        Attempt.objects.update(outcome=outcome, ended_at=NOW)
        assert breaker.check_gate(agent.pk, now=much_later).probe


@pytest.mark.django_db
def test_the_sweep_half_opens_what_has_been_open_long_enough(monkeypatch: Any) -> None:
    """S3.33, S3.42: in batches, and twice does no harm."""
    monkeypatch.setattr(breaker, "BATCH", 2)
    early = [make_agent(f"early {n}") for n in range(5)]
    late = make_agent("late")
    breaker_actions.trip(early, reason="", stamp=Stamp(ANN, NOW))
    breaker_actions.trip([late], reason="", stamp=Stamp(ANN, NOW + SECOND))
    assert breaker.half_open_due(stamp=Stamp(SYSTEM, NOW + MINUTE - SECOND)) == []
    assert breaker.half_open_due(stamp=Stamp(SYSTEM, NOW + MINUTE)) == sorted(
        agent.pk for agent in early
    )
    assert breaker.half_open_due(stamp=Stamp(SYSTEM, NOW + MINUTE)) == []
    assert state_of(late) == CircuitState.OPEN
    assert journaled(early[0])[-1] == ("agent.breaker_half_open", "open", "half_open")


# ---- by hand, and in the journal


@pytest.mark.django_db
def test_people_trip_breakers_and_hear_what_really_changed() -> None:
    """S3.48"""
    closed, failed, open, half_open = (make_agent(name) for name in "abcd")
    fails(failed, 2)
    breaker_actions.trip([open], reason="before", stamp=Stamp(ANN, NOW))
    breaker_actions.trip([half_open], reason="before", stamp=Stamp(ANN, NOW - MINUTE))
    breaker.half_open_due(stamp=Stamp(SYSTEM, NOW))
    everybody = [closed, failed, open, half_open]
    tripped = breaker_actions.trip(
        everybody, reason="It writes nonsense", stamp=Stamp(ANN, NOW + SECOND)
    )
    assert tripped == [closed, failed, half_open]
    row = Breaker.objects.get(pk=half_open.pk)
    assert (row.opened_at, row.reason, row.trips) == (NOW + SECOND, "It writes nonsense", 2)
    assert Breaker.objects.get(pk=open.pk).opened_at == NOW
    event = Event.objects.get(subject_id=failed.pk, kind="agent.breaker_opened")
    assert event.data == {"reason": "It writes nonsense", "failures": 2}
    assert (event.actor_name, event.at) == ("ann", NOW + SECOND)
    assert (event.subject_type, event.agent_id) == ("agent", failed.pk)


@pytest.mark.django_db
def test_people_reset_breakers_and_hear_what_really_changed() -> None:
    untouched, open = make_agent("untouched"), make_agent("open")
    fails(open, 5)
    assert breaker_actions.reset([untouched, open], stamp=Stamp(ANN, NOW)) == [open]
    assert breaker_actions.reset([untouched, open], stamp=Stamp(ANN, NOW)) == []
    row = Breaker.objects.get()
    assert (row.state, row.failures, row.opened_at, row.reason) == (
        CircuitState.CLOSED,
        0,
        None,
        "",
    )
    fails(open, 4)
    assert state_of(open) == CircuitState.CLOSED


@pytest.mark.django_db
def test_a_breaker_kept_open_waits_for_a_person(agent: Agent) -> None:
    """Neither the clock nor a claim lets a probe through; closing and probing end it."""
    stamp = Stamp(ANN, NOW)
    assert breaker_actions.keep_open([agent], stamp=stamp) == []
    fails(agent, 5)
    assert breaker_actions.keep_open([agent], reason="No key", stamp=stamp) == [agent]
    assert breaker_actions.keep_open([agent], reason="Again", stamp=stamp) == []
    much_later = NOW + 1000 * MINUTE
    assert breaker.half_open_due(stamp=Stamp(SYSTEM, much_later)) == []
    with transaction.atomic():
        shut = breaker.check_gate(agent.pk, now=much_later)
    assert shut == breaker.Gate(open=True, retry_after_s=60)
    assert (row := Breaker.objects.get()).kept_open_at == NOW and row.retry_at is None
    kept = Event.objects.get(kind="agent.breaker_kept_open")
    assert (kept.data, kept.actor_name) == ({"reason": "No key"}, "ann")
    assert journaled(agent)[1:] == [("agent.breaker_kept_open", "open", "open")]

    assert breaker_actions.probe([agent], stamp=Stamp(ANN, much_later)) == [agent]
    assert Breaker.objects.get().kept_open_at is None
    fails(agent, attempt=probe(agent, now=much_later), now=much_later)
    probe(agent, now=much_later + MINUTE)  # opened by its probe, so the clock decides again
    assert breaker_actions.keep_open([agent], stamp=Stamp(ANN, much_later)) == [agent]
    assert state_of(agent) == CircuitState.OPEN
    assert breaker_actions.reset([agent], stamp=Stamp(ANN, much_later)) == [agent]
    assert (row := Breaker.objects.get()).state == "closed" and row.kept_open_at is None


@pytest.mark.django_db
def test_every_move_is_journaled(agent: Agent) -> None:
    """S3.48"""
    fails(agent, 5, type="timeout")
    fails(agent, attempt=probe(agent, now=NOW + MINUTE), now=NOW + MINUTE)
    for _ in range(2):
        tell(agent, attempt=probe(agent, now=NOW + 2 * MINUTE), now=NOW + 2 * MINUTE)
    assert journaled(agent) == [
        ("agent.breaker_opened", "closed", "open"),
        ("agent.breaker_half_open", "open", "half_open"),
        ("agent.breaker_opened", "half_open", "open"),
        ("agent.breaker_half_open", "open", "half_open"),
        ("agent.breaker_closed", "half_open", "closed"),
    ]
    opened = Event.objects.filter(kind="agent.breaker_opened").order_by("id")
    assert [event.data for event in opened] == [
        {"reason": "5 consecutive failures, the last with timeout", "failures": 5},
        {"reason": "The probe failed with execution_error", "failures": 6},
    ]
    assert Breaker.objects.get().trips == 2


# ---- two at once


@pytest.mark.django_db(transaction=True)
def test_of_ten_who_ask_at_once_one_is_the_probe(elsewhere: Callable[..., Any]) -> None:
    """The others wait for its transaction, then see the attempt that it made."""
    agent = make_agent()
    breaker_actions.trip([agent], reason="", stamp=Stamp(ANN, NOW - MINUTE))

    def ask() -> breaker.Gate:
        with transaction.atomic():
            return breaker.check_gate(agent.pk, now=NOW)

    with transaction.atomic():
        assert breaker.check_gate(agent.pk, now=NOW).probe
        others = [elsewhere(ask) for _ in range(9)]
        with blocked(others[0]):
            breaker.take_probe(agent.pk, make_attempt(agent).pk, now=NOW)
    shut = breaker.Gate(open=True, retry_after_s=1)
    assert [other.result(PATIENCE_S) for other in others] == [shut] * 9


@pytest.mark.django_db(transaction=True)
def test_of_many_calls_at_once_one_is_the_probe(elsewhere: Callable[..., Any]) -> None:
    breaker_actions.trip([make_agent()], reason="", stamp=Stamp(ANN, NOW))  # long ago
    circuit = CircuitBreaker("coder")

    def probed() -> int:
        others = [elsewhere(lambda: refused(CircuitBreaker("coder"))) for _ in range(9)]
        return len([other.result(PATIENCE_S) for other in others])

    assert circuit.call(probed) == 9
    assert Breaker.objects.get().successes == 1


@pytest.mark.django_db(transaction=True)
def test_failures_at_once_are_all_counted(elsewhere: Callable[..., Any]) -> None:
    """The first ones too, which make the breaker."""
    agent = make_agent()
    with transaction.atomic():
        fails(agent, 2)
        others = [elsewhere(lambda: atomically(lambda: fails(agent))) for _ in range(2)]
        with blocked(others[0]):
            pass
    for other in others:
        other.result(PATIENCE_S)
    assert Breaker.objects.get().failures == 4


@pytest.mark.django_db(transaction=True)
def test_a_closed_breaker_makes_nobody_wait(elsewhere: Callable[..., Any]) -> None:
    """S3.44: claims don't queue up behind a report."""
    agent = make_agent()
    fails(agent, 2)
    with transaction.atomic():
        fails(agent)
        ask = elsewhere(lambda: atomically(lambda: breaker.check_gate(agent.pk, now=NOW)))
        assert ask.result(PATIENCE_S) == breaker.Gate()


@pytest.mark.django_db(transaction=True)
def test_the_sweep_passes_over_a_breaker_that_somebody_holds(elsewhere: Callable[..., Any]) -> None:
    held, free = make_agent("held"), make_agent("free")
    breaker_actions.trip([held, free], reason="", stamp=Stamp(ANN, NOW))
    with transaction.atomic():
        assert breaker.check_gate(held.pk, now=NOW + MINUTE).probe
        sweep = elsewhere(lambda: breaker.half_open_due(stamp=Stamp(SYSTEM, NOW + MINUTE)))
        assert sweep.result(PATIENCE_S) == [free.pk]
    assert len(journaled(held)) == 2


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_waits_for_a_person_finds_the_breaker_kept_open(
    elsewhere: Callable[..., Any],
) -> None:
    agent = make_agent()
    breaker_actions.trip([agent], reason="", stamp=Stamp(ANN, NOW))
    late = NOW + MINUTE
    with transaction.atomic():
        breaker_actions.keep_open([agent], stamp=Stamp(ANN, late))
        ask = elsewhere(lambda: atomically(lambda: breaker.check_gate(agent.pk, now=late)))
        with blocked(ask):
            pass
        # the clock passes it over
        sweep = elsewhere(lambda: breaker.half_open_due(stamp=Stamp(SYSTEM, late)))
        assert sweep.result(PATIENCE_S) == []
    assert ask.result(PATIENCE_S) == breaker.Gate(open=True, retry_after_s=60)
    assert state_of(agent) == CircuitState.OPEN


@pytest.mark.django_db(transaction=True)
def test_a_person_who_waits_for_a_claim_opens_the_breaker_again(
    elsewhere: Callable[..., Any],
) -> None:
    """The person saw it open. The claim came first and keeps its task, but no longer as a probe."""
    agent = make_agent()
    breaker_actions.trip([agent], reason="", stamp=Stamp(ANN, NOW))
    late = NOW + MINUTE
    with transaction.atomic():
        assert breaker.check_gate(agent.pk, now=late).probe
        ticket = uuid4()
        breaker.take_probe(agent.pk, ticket, now=late)
        person = elsewhere(lambda: breaker_actions.keep_open([agent], stamp=Stamp(ANN, late)))
        with blocked(person):
            pass
    assert person.result(PATIENCE_S) == [agent]
    atomically(lambda: tell(agent, attempt=ticket, now=late))
    row = Breaker.objects.get()
    assert (row.state, row.kept_open_at, row.probe_attempt) == (CircuitState.OPEN, late, None)
    assert [kind for kind, *_ in journaled(agent)] == [
        "agent.breaker_opened",
        "agent.breaker_half_open",
        "agent.breaker_opened",
        "agent.breaker_kept_open",
    ]


def atomically(work: Callable[[], Any]) -> Any:
    with transaction.atomic():
        return work()


# ---- sync and async callers


def eventually(circuit: CircuitBreaker, fn: Callable[[], Any], *, is_in_coroutine: bool) -> Any:
    async def call() -> Any:
        return await circuit.call(fn)

    return run_coroutine(call() if is_in_coroutine else circuit.call(fn))


async def fail_later() -> None:
    await asyncio.sleep(0)
    fail()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_in_coroutine", [False, True])
@pytest.mark.parametrize("fn", [fail_later, lambda: fail_later()])
def test_an_async_function_counts_when_it_ends(
    circuit: CircuitBreaker, fn: Callable[[], Any], is_in_coroutine: bool
) -> None:
    for _ in range(5):
        with pytest.raises(Broken):
            eventually(circuit, fn, is_in_coroutine=is_in_coroutine)
    assert circuit.state == CircuitState.OPEN
    with pytest.raises(CircuitBreakerOpen):
        eventually(circuit, fn, is_in_coroutine=is_in_coroutine)


@pytest.mark.django_db(transaction=True)
def test_an_async_caller_awaits_a_sync_function(circuit: CircuitBreaker) -> None:
    assert eventually(circuit, lambda: 3, is_in_coroutine=True) == 3
    for _ in range(5):
        with pytest.raises(Broken):
            eventually(circuit, fail, is_in_coroutine=True)
    assert circuit.state == CircuitState.OPEN


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_probe_frees_its_slot(circuit: CircuitBreaker, clock: Clock) -> None:
    failing(circuit, 5)
    clock.now += MINUTE
    with pytest.raises(asyncio.CancelledError):
        run_coroutine(cancel_when_begun(circuit.call))
    assert circuit.call(lambda: 1) == 1


@pytest.mark.django_db(transaction=True)
def test_a_probe_that_is_cancelled_while_it_asks_frees_its_slot(
    circuit: CircuitBreaker, clock: Clock, elsewhere: Callable[..., Any]
) -> None:
    failing(circuit, 5)
    clock.now += MINUTE
    caller = Caller(lambda: circuit.call(asyncio.sleep, 600))
    with transaction.atomic():
        Breaker.objects.select_for_update().get()
        ended = elsewhere(caller.run)
        with blocked(ended):
            caller.cancel()
    assert isinstance(ended.exception(PATIENCE_S), asyncio.CancelledError)
    assert circuit.call(lambda: 1) == 1
