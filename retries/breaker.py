"""Circuit breakers: an agent that keeps failing gets no work until its probes succeed."""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F

from ledger import journal
from ledger.agents import register
from ledger.database import server_time, sql
from ledger.errors import Refusal
from ledger.journal import SYSTEM, Kind, Stamp
from ledger.models import Agent, Attempt, Breaker, Project
from ledger.models.project import DEFAULT
from ledger.states import BreakerState, FailureType
from retries.calls import must_await, resolve, run_in_thread

P = ParamSpec("P")
T = TypeVar("T")

CircuitState = BreakerState

KINDS = {
    BreakerState.OPEN: Kind.AGENT_BREAKER_OPENED,
    BreakerState.HALF_OPEN: Kind.AGENT_BREAKER_HALF_OPEN,
    BreakerState.CLOSED: Kind.AGENT_BREAKER_CLOSED,
}
COLUMNS = "agent_id, state, failures, successes, opened_at, kept_open_at, probe_attempt, updated_at"
PROBE_WAIT_S = 1
SUCCESSES = 2  # a half-open breaker closes after so many
BATCH = 100

# SQL for a breaker `b`: whether a claim has to ask it, and whether a success changes it. Few agents
# have such a breaker, so hot statements check these conditions themselves.
HOLDS_BACK = f"b.state <> '{BreakerState.CLOSED}'"
CHANGES_ON_SUCCESS = (
    f"(b.state = '{BreakerState.HALF_OPEN}' "
    f"or b.state = '{BreakerState.CLOSED}' and b.failures > 0)"
)


class CircuitBreakerOpen(Refusal):
    """The agent's circuit breaker is open"""

    code = "breaker_open"
    retryable = True
    hint = "Retry after 'retry_after_s' seconds, or have an operator reset the breaker."

    def __init__(self, name: str, *, retry_after_s: int = 0) -> None:
        super().__init__(f"Circuit breaker '{name}' is OPEN", retry_after_s=retry_after_s)


@dataclass(frozen=True, slots=True)
class CircuitBreakerConfig:
    """Consecutive failures that open it, successes that close it, and how long it stays open."""

    failure_threshold: int = 5
    success_threshold: int = 2
    timeout_seconds: float = 60

    @property
    def open_for(self) -> timedelta:
        return timedelta(seconds=self.timeout_seconds)


def read_config() -> CircuitBreakerConfig:
    tenfour = settings.TENFOUR
    return CircuitBreakerConfig(
        tenfour["BREAKER_FAILURES"], SUCCESSES, tenfour["BREAKER_OPEN_SECONDS"]
    )


@dataclass(frozen=True, slots=True)
class Gate:
    """The breaker's answer to a claim: no work while open, or one attempt as the probe."""

    open: bool = False
    retry_after_s: int = 0
    probe: bool = False


# ---- claims


def check_gate(
    agent_id: UUID,
    *,
    now: datetime,
    config: CircuitBreakerConfig | None = None,
    request_id: str = "",
) -> Gate:
    """Return whether an agent's claim may start work; call it in the claim's transaction."""
    # A breaker that has been open long enough becomes half open. A breaker that is not closed stays
    # locked, so that one of several simultaneous claims gets the probe; a closed one is not locked.
    # A breaker that a person keeps open has no time left, so its `retry_after_s` is the usual one.
    config = config or read_config()
    breaker = lock(agent_id, HOLDS_BACK)
    if breaker is None:
        return Gate()
    if breaker.state == BreakerState.OPEN:
        assert breaker.opened_at is not None
        left = breaker.opened_at + config.open_for - now
        if breaker.is_kept_open:
            left = config.open_for
        if left > timedelta():
            return Gate(open=True, retry_after_s=math.ceil(left.total_seconds()))
        move(breaker, BreakerState.HALF_OPEN, stamp=Stamp(SYSTEM, now, request_id))
    elif is_probed(breaker, now=now, config=config):
        return Gate(open=True, retry_after_s=PROBE_WAIT_S)
    return Gate(probe=True)


def is_probed(breaker: Breaker, *, now: datetime, config: CircuitBreakerConfig) -> bool:
    if breaker.probe_attempt is None:
        return False
    # A statement of its own: the locking one would see the attempts as they were before it waited.
    attempts = Attempt.objects.filter(pk=breaker.probe_attempt)
    for outcome in attempts.values_list("outcome", flat=True):
        return outcome is None
    # Not an attempt's id but a call's, which remains if its process dies.
    return now < breaker.updated_at + config.open_for


def take_probe(agent_id: UUID, attempt_id: UUID, *, now: datetime) -> None:
    half_open = Breaker.objects.filter(pk=agent_id, state=BreakerState.HALF_OPEN)
    half_open.update(probe_attempt=attempt_id, updated_at=now)


def half_open_due(*, stamp: Stamp) -> list[UUID]:
    # A breaker that a person keeps open stays open.
    due: list[UUID] = []
    # in batches, so that each transaction is short
    while batch := half_open_batch(before=stamp.at - read_config().open_for, stamp=stamp):
        due += batch
    return due


@transaction.atomic
def half_open_batch(*, before: datetime, stamp: Stamp) -> list[UUID]:
    due = Breaker.objects.filter(state=BreakerState.OPEN, opened_at__lte=before, kept_open_at=None)
    due = due.select_related("agent")
    due = due.select_for_update(of=("self",), skip_locked=True).order_by("pk")[:BATCH]
    return [move(breaker, BreakerState.HALF_OPEN, stamp=stamp) for breaker in due]


# ---- outcomes

COUNT = """update ledger_breaker set failures = %(failures)s, successes = %(successes)s,
    probe_attempt = null, updated_at = %(now)s where agent_id = %(agent)s"""


def record_outcome(
    agent_id: UUID,
    *,
    ok: bool,
    failure_type: str | None = None,
    attempt_id: UUID,
    stamp: Stamp,
    config: CircuitBreakerConfig | None = None,
) -> None:
    """Count an attempt's outcome, in the transaction that ends the attempt."""
    # A half-open breaker counts only its probe, and an open one counts nothing: late outcomes
    # belong to the time before. Failures whose type does not count are ignored.
    breaker = (
        lock(agent_id, CHANGES_ON_SUCCESS)
        if ok
        else lock_for_failure(agent_id, failure_type, stamp.at)
    )
    if breaker is None or not does_count(breaker, attempt_id):
        return
    half_open = breaker.state == BreakerState.HALF_OPEN
    failures = 0 if ok else breaker.failures + 1
    successes = breaker.successes + 1 if ok and half_open else 0
    to = next_state(
        breaker.state, failures=failures, successes=successes, config=config or read_config()
    )
    if to == breaker.state:
        sql.run(COUNT, agent=agent_id, failures=failures, successes=successes, now=stamp.at)
    elif to == BreakerState.CLOSED:
        move(breaker, to, stamp=stamp)
    else:
        what = "The probe failed" if half_open else f"{failures} consecutive failures, the last"
        columns = {"reason": f"{what} with {failure_type}", "failures": failures}
        move(breaker, to, columns, stamp=stamp)


def lock_for_failure(agent_id: UUID, failure_type: str | None, now: datetime) -> Breaker | None:
    """Lock the agent's breaker, inserting a missing one; None if the failure does not count."""
    if failure_type not in settings.TENFOUR["BREAKER_COUNTS"]:
        return None
    if found := lock(agent_id):
        return found
    insert_missing([agent_id], now=now)
    return lock(agent_id)


def does_count(breaker: Breaker, attempt_id: UUID) -> bool:
    if breaker.state == BreakerState.HALF_OPEN:
        return breaker.probe_attempt == attempt_id
    return breaker.state == BreakerState.CLOSED


def next_state(
    state: str, *, failures: int, successes: int, config: CircuitBreakerConfig
) -> BreakerState:
    """Return the state that follows `state` with these counts.

    >>> str(next_state("closed", failures=5, successes=0, config=CircuitBreakerConfig()))
    'open'
    """
    if state == BreakerState.CLOSED:
        return BreakerState.OPEN if failures >= config.failure_threshold else BreakerState.CLOSED
    if failures:
        return BreakerState.OPEN
    return BreakerState.CLOSED if successes >= config.success_threshold else BreakerState.HALF_OPEN


# ---- the row


def lock(agent_id: UUID, condition: str = "true") -> Breaker | None:
    rows = sql.run(
        f"""select {COLUMNS} from ledger_breaker b
        where agent_id = %(agent)s and {condition} for update""",
        agent=agent_id,
    )
    return Breaker(**rows[0]) if rows else None


def insert_missing(agent_ids: Iterable[UUID], *, now: datetime) -> None:
    breakers = [Breaker(agent_id=agent_id, updated_at=now) for agent_id in agent_ids]
    Breaker.objects.bulk_create(breakers, ignore_conflicts=True)


def move(
    breaker: Breaker, to: BreakerState, opening: dict[str, Any] | None = None, *, stamp: Stamp
) -> UUID:
    """Move a locked breaker and journal it; `opening` has the reason and failures if it opens."""
    opening = opening or {}
    columns: dict[BreakerState, dict[str, Any]] = {
        BreakerState.OPEN: {**opening, "opened_at": stamp.at, "trips": F("trips") + 1},
        BreakerState.HALF_OPEN: {},
        BreakerState.CLOSED: {"reason": "", "failures": 0, "opened_at": None},
    }
    columns[to] |= {"state": to, "successes": 0, "probe_attempt": None, "kept_open_at": None}
    Breaker.objects.filter(pk=breaker.pk).update(**columns[to], updated_at=stamp.at)
    record_move(breaker, KINDS[to], to, data=opening, stamp=stamp)
    return breaker.agent_id


def keep(breaker: Breaker, *, reason: str, stamp: Stamp) -> None:
    kept = {"kept_open_at": stamp.at, "updated_at": stamp.at}
    Breaker.objects.filter(pk=breaker.pk).update(**kept)
    kind = Kind.AGENT_BREAKER_KEPT_OPEN
    record_move(breaker, kind, BreakerState.OPEN, data={"reason": reason}, stamp=stamp)


def record_move(
    breaker: Breaker, kind: Kind, to: BreakerState, *, data: dict[str, Any], stamp: Stamp
) -> None:
    journal.record(
        kind,
        subject_type="agent",
        subject_id=breaker.agent_id,
        agent_id=breaker.agent_id,
        project_id=breaker.agent.project_id,
        from_state=breaker.state,
        to_state=to,
        stamp=stamp,
        data=data,
    )


# ---- around a function


class CircuitBreaker:
    """Guards calls with the breaker of an agent in the default project, which workers share."""

    def __init__(
        self,
        name: str,
        config: CircuitBreakerConfig | None = None,
        *,
        clock: Callable[[], datetime] = server_time.now,
    ) -> None:
        self.name = name
        self.config = config or read_config()
        self.clock = clock

    @cached_property
    def agent(self) -> Agent:
        project = Project.objects.get(name=DEFAULT)
        return register(self.name, project=project, stamp=Stamp(SYSTEM, self.clock()))

    @property
    def state(self) -> CircuitState:
        row = Breaker.objects.filter(pk=self.agent.pk).first()
        return BreakerState(row.state) if row else BreakerState.CLOSED

    def call(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function and return its result; raise CircuitBreakerOpen without a call.

        An async caller awaits this, and so does the caller of an async function. Do not call it
        inside a transaction: a rollback would undo the count of failures.
        """
        call = partial(fn, *args, **kwargs)
        if must_await(fn):
            return cast(T, self._call_async(call))
        ticket = uuid4()
        probe = self.admit(ticket)
        try:
            result = call()
        except BaseException as error:
            self.record_error(ticket, error, probe=probe)
            raise
        if inspect.isawaitable(result):  # of a lambda, or another function that is not async
            return cast(T, self._await_result(lambda: result, ticket, probe=probe))
        self.record(ticket, None)
        return result

    async def _call_async(self, call: Callable[[], Any]) -> Any:
        ticket = uuid4()
        try:
            probe = await run_in_thread(self.admit, ticket)
        except asyncio.CancelledError as error:
            # It may have been admitted as the probe all the same.
            await run_in_thread(self.record_error, ticket, error, probe=True)
            raise
        return await self._await_result(call, ticket, probe=probe)

    async def _await_result(self, call: Callable[[], Any], ticket: UUID, *, probe: bool) -> Any:
        try:
            result = await resolve(call())
        except BaseException as error:
            await run_in_thread(self.record_error, ticket, error, probe=probe)
            raise
        await run_in_thread(self.record, ticket, None)
        return result

    def admit(self, ticket: UUID) -> bool:
        """Return whether the call is a probe; raise CircuitBreakerOpen."""
        agent_id, now = self.agent.pk, self.clock()
        with transaction.atomic(durable=True):
            found = check_gate(agent_id, now=now, config=self.config)
            if found.probe:
                take_probe(agent_id, ticket, now=now)
        if found.open:
            raise CircuitBreakerOpen(self.name, retry_after_s=found.retry_after_s)
        return found.probe

    def record(self, ticket: UUID, failure_type: FailureType | None) -> None:
        with transaction.atomic(durable=True):
            record_outcome(
                self.agent.pk,
                ok=failure_type is None,
                failure_type=failure_type,
                attempt_id=ticket,
                stamp=Stamp(SYSTEM, self.clock()),
                config=self.config,
            )

    def record_error(self, ticket: UUID, error: BaseException, *, probe: bool) -> None:
        # An interrupt is no `Exception`: it has no outcome, but it frees the probe as well.
        if isinstance(error, Exception):
            late = isinstance(error, TimeoutError)
            self.record(ticket, FailureType.TIMEOUT if late else FailureType.EXECUTION_ERROR)
        if probe:
            Breaker.objects.filter(probe_attempt=ticket).update(probe_attempt=None)
