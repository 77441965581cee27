"""Circuit breakers: an agent that fails again and again gets no work until probes succeed."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ParamSpec, TypeVar
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from ledger import journal, sql
from ledger.agents import register
from ledger.errors import Refusal
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import Agent, Attempt, Breaker, Project
from ledger.models.project import DEFAULT
from ledger.states import BreakerState, FailureType

P = ParamSpec("P")
T = TypeVar("T")

CircuitState = BreakerState

KINDS = {
    BreakerState.OPEN: Kind.AGENT_BREAKER_OPENED,
    BreakerState.HALF_OPEN: Kind.AGENT_BREAKER_HALF_OPEN,
    BreakerState.CLOSED: Kind.AGENT_BREAKER_CLOSED,
}
COLUMNS = "agent_id, state, failures, successes, opened_at, probe_attempt, updated_at"
PROBE_WAIT_S = 1
AT_ONCE = 100

# The breakers `b` that a claim asks, and those that a success means something to. Hardly any agent
# has one, so hot statements look for it themselves.
HOLDS_BACK = f"b.state <> '{BreakerState.CLOSED}'"
LISTENS = (
    f"(b.state = '{BreakerState.HALF_OPEN}' "
    f"or b.state = '{BreakerState.CLOSED}' and b.failures > 0)"
)


class CircuitBreakerOpen(Refusal):
    """The agent's circuit breaker is open"""

    code = "breaker_open"
    retryable = True
    hint = "Ask again in 'retry_after_s' seconds, or have an operator reset the breaker."

    def __init__(self, name: str, *, retry_after_s: int = 0) -> None:
        super().__init__(f"Circuit breaker '{name}' is OPEN", retry_after_s=retry_after_s)


@dataclass(frozen=True, slots=True)
class CircuitBreakerConfig:
    """Failures in a row that open it, successes that close it, and how long it stays open."""

    failure_threshold: int = 5
    success_threshold: int = 2
    open_seconds: float = 60

    @property
    def open_for(self) -> timedelta:
        return timedelta(seconds=self.open_seconds)


def configured() -> CircuitBreakerConfig:
    """What the settings say."""
    tenfour = settings.TENFOUR
    return CircuitBreakerConfig(
        tenfour["BREAKER_FAILURES"], tenfour["BREAKER_SUCCESSES"], tenfour["BREAKER_OPEN_SECONDS"]
    )


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether the circuit is open, so that there is no work, or what is let through the probe."""

    open: bool = False
    retry_after_s: int = 0
    probe: bool = False


# ---- who may work


def gate(
    agent_id: UUID,
    *,
    now: datetime,
    config: CircuitBreakerConfig | None = None,
    request_id: str = "",
) -> Gate:
    """What the breaker says to a claim, in whose transaction this runs.

    One that has been open long enough becomes half open. One that is not closed stays locked, so
    of ten claims that ask at once one gets the probe; a closed one makes nobody wait.
    """
    config = config or configured()
    breaker = locked(agent_id, HOLDS_BACK)
    if breaker is None:
        return Gate()
    if breaker.state == BreakerState.OPEN:
        assert breaker.opened_at is not None
        left = breaker.opened_at + config.open_for - now
        if left > timedelta():
            return Gate(open=True, retry_after_s=math.ceil(left.total_seconds()))
        become(breaker, BreakerState.HALF_OPEN, actor=SYSTEM, now=now, request_id=request_id)
    elif is_probed(breaker, now=now, config=config):
        return Gate(open=True, retry_after_s=PROBE_WAIT_S)
    return Gate(probe=True)


def is_probed(breaker: Breaker, *, now: datetime, config: CircuitBreakerConfig) -> bool:
    """Whether a probe is under way."""
    if breaker.probe_attempt is None:
        return False
    # Not part of the statement that locks: having waited for the lock, that one would still see
    # the attempts as they were before.
    attempts = Attempt.objects.filter(pk=breaker.probe_attempt)
    for outcome in attempts.values_list("outcome", flat=True):
        return outcome is None
    # No attempt but a call's ticket, which nobody gives back when its process dies.
    return now < breaker.updated_at + config.open_for


def take_probe(agent_id: UUID, attempt_id: UUID, *, now: datetime) -> None:
    """Note that this attempt is the probe which the gate has let through."""
    half_open = Breaker.objects.filter(pk=agent_id, state=BreakerState.HALF_OPEN)
    half_open.update(probe_attempt=attempt_id, updated_at=now)


def half_open_due(*, now: datetime, actor: Actor = SYSTEM) -> list[UUID]:
    """Half open what has been open long enough, in short transactions; the agents."""
    due: list[UUID] = []
    while batch := half_open_some(before=now - configured().open_for, actor=actor, now=now):
        due += batch
    return due


@transaction.atomic
def half_open_some(*, before: datetime, actor: Actor, now: datetime) -> list[UUID]:
    due = Breaker.objects.filter(state=BreakerState.OPEN, opened_at__lte=before).select_related(
        "agent"
    )
    due = due.select_for_update(of=("self",), skip_locked=True).order_by("pk")[:AT_ONCE]
    return [become(breaker, BreakerState.HALF_OPEN, actor=actor, now=now) for breaker in due]


# ---- what came of it

COUNT = """update ledger_breaker set failures = %(failures)s, successes = %(successes)s,
    probe_attempt = null, updated_at = %(now)s where agent_id = %(agent)s"""


def record_outcome(
    agent_id: UUID,
    *,
    ok: bool,
    failure_type: str | None = None,
    attempt_id: UUID,
    actor: Actor,
    now: datetime,
    config: CircuitBreakerConfig | None = None,
    request_id: str = "",
) -> None:
    """Count how an attempt ended, in the transaction that ends it.

    A half open breaker listens to its probe alone and an open one to nobody: what comes late says
    nothing new. Failures of a type that does not count are not heard at all.
    """
    breaker = locked(agent_id, LISTENS) if ok else blamed(agent_id, failure_type, now=now)
    if breaker is None or not is_news(breaker, attempt_id):
        return
    half_open = breaker.state == BreakerState.HALF_OPEN
    failures = 0 if ok else breaker.failures + 1
    successes = breaker.successes + 1 if ok and half_open else 0
    to = next_state(
        breaker.state, failures=failures, successes=successes, config=config or configured()
    )
    if to == breaker.state:
        sql.run(COUNT, agent=agent_id, failures=failures, successes=successes, now=now)
    elif to == BreakerState.CLOSED:
        become(breaker, to, actor=actor, now=now, request_id=request_id)
    else:
        what = "The probe failed" if half_open else f"{failures} in a row failed, the last"
        told = {"reason": f"{what} with {failure_type}", "failures": failures}
        become(breaker, to, told, actor=actor, now=now, request_id=request_id)


def blamed(agent_id: UUID, failure_type: str | None, *, now: datetime) -> Breaker | None:
    """The agent's breaker, made if there is none, unless this type of failure does not count."""
    if failure_type not in settings.TENFOUR["BREAKER_COUNTS"]:
        return None
    if found := locked(agent_id):
        return found
    make([agent_id], now=now)
    return locked(agent_id)


def is_news(breaker: Breaker, attempt_id: UUID) -> bool:
    if breaker.state == BreakerState.HALF_OPEN:
        return breaker.probe_attempt == attempt_id
    return breaker.state == BreakerState.CLOSED


def next_state(
    state: str, *, failures: int, successes: int, config: CircuitBreakerConfig
) -> BreakerState:
    """Where a breaker in `state` goes with these counts.

    >>> str(next_state("closed", failures=5, successes=0, config=CircuitBreakerConfig()))
    'open'
    """
    if state == BreakerState.CLOSED:
        return BreakerState.OPEN if failures >= config.failure_threshold else BreakerState.CLOSED
    if failures:
        return BreakerState.OPEN
    return BreakerState.CLOSED if successes >= config.success_threshold else BreakerState.HALF_OPEN


# ---- by hand


@transaction.atomic
def trip(
    agents: Iterable[Agent],
    *,
    reason: str,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Agent]:
    """Open the breakers of these agents; the agents whose breaker was not open."""
    now, asked = now or timezone.now(), {agent.pk: agent for agent in agents}
    make(asked, now=now)
    breakers = by_hand(asked).exclude(state=BreakerState.OPEN)
    for breaker in breakers:
        told = {"reason": reason, "failures": breaker.failures}
        become(breaker, BreakerState.OPEN, told, actor=actor, now=now, request_id=request_id)
    return [asked[breaker.pk] for breaker in breakers]


@transaction.atomic
def reset(
    agents: Iterable[Agent], *, actor: Actor, now: datetime | None = None, request_id: str = ""
) -> list[Agent]:
    """Close the breakers of these agents and forget their failures; the agents that had any."""
    now, asked = now or timezone.now(), {agent.pk: agent for agent in agents}
    breakers = by_hand(asked).exclude(state=BreakerState.CLOSED, failures=0)
    for breaker in breakers:
        become(breaker, BreakerState.CLOSED, actor=actor, now=now, request_id=request_id)
    return [asked[breaker.pk] for breaker in breakers]


def by_hand(asked: dict[UUID, Agent]) -> QuerySet[Breaker]:
    breakers = Breaker.objects.select_related("agent").select_for_update(of=("self",))
    return breakers.filter(pk__in=asked).order_by("pk")


# ---- the row


def locked(agent_id: UUID, which: str = "true") -> Breaker | None:
    """The agent's breaker, held to the end of the transaction, if it is as the SQL says."""
    rows = sql.run(
        f"select {COLUMNS} from ledger_breaker b where agent_id = %(agent)s and {which} for update",
        agent=agent_id,
    )
    return Breaker(**rows[0]) if rows else None


def make(agent_ids: Iterable[UUID], *, now: datetime) -> None:
    """Closed breakers for those of these agents that have none yet."""
    breakers = [Breaker(agent_id=agent_id, updated_at=now) for agent_id in agent_ids]
    Breaker.objects.bulk_create(breakers, ignore_conflicts=True)


def change(breaker: Breaker, *, now: datetime, **columns: Any) -> None:
    Breaker.objects.filter(pk=breaker.pk).update(updated_at=now, **columns)


def become(
    breaker: Breaker,
    to: BreakerState,
    told: dict[str, Any] | None = None,
    *,
    actor: Actor,
    now: datetime,
    request_id: str = "",
) -> UUID:
    """Move a locked breaker to another state and journal it; returns the agent's id.

    `told`, of one that opens, are the reason and the failures.
    """
    told = told or {}
    columns: dict[BreakerState, dict[str, Any]] = {
        BreakerState.OPEN: {**told, "opened_at": now, "trips": F("trips") + 1},
        BreakerState.HALF_OPEN: {},
        BreakerState.CLOSED: {"reason": "", "failures": 0, "opened_at": None},
    }
    change(breaker, state=to, successes=0, probe_attempt=None, now=now, **columns[to])
    journal.record(
        KINDS[to],
        subject_type="agent",
        subject_id=breaker.agent_id,
        agent_id=breaker.agent_id,
        project_id=breaker.agent.project_id,
        from_state=breaker.state,
        to_state=to,
        actor=actor,
        now=now,
        data=told,
        request_id=request_id,
    )
    return breaker.agent_id


# ---- around a function


class CircuitBreaker:
    """The breaker of the agent of that name in the default project, around any function.

    Its state is a row: all workers share it, and it outlives them.
    """

    def __init__(
        self,
        name: str,
        config: CircuitBreakerConfig | None = None,
        *,
        clock: Callable[[], datetime] = timezone.now,
    ) -> None:
        self.name = name
        self.config = config or configured()
        self.clock = clock

    @cached_property
    def agent(self) -> Agent:
        """Made known if it was not."""
        project = Project.objects.get(name=DEFAULT)
        return register(self.name, project=project, actor=SYSTEM, now=self.clock())

    @property
    def state(self) -> CircuitState:
        row = Breaker.objects.filter(pk=self.agent.pk).first()
        return BreakerState(row.state) if row else BreakerState.CLOSED

    def call(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises; raises CircuitBreakerOpen without calling it.

        Never inside a transaction: a count of failures would be rolled back with it.
        """
        ticket = uuid4()
        probe = self.admit(ticket)
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            late = isinstance(error, TimeoutError)
            self.tell(ticket, FailureType.TIMEOUT if late else FailureType.EXECUTION_ERROR)
            raise
        else:
            self.tell(ticket, None)
            return result
        finally:
            if probe:  # which nothing was told of when the process is being stopped
                Breaker.objects.filter(probe_attempt=ticket).update(probe_attempt=None)

    def admit(self, ticket: UUID) -> bool:
        """Whether the call is a probe; raises CircuitBreakerOpen."""
        agent_id, now = self.agent.pk, self.clock()
        with transaction.atomic(durable=True):
            found = gate(agent_id, now=now, config=self.config)
            if found.probe:
                take_probe(agent_id, ticket, now=now)
        if found.open:
            raise CircuitBreakerOpen(self.name, retry_after_s=found.retry_after_s)
        return found.probe

    def tell(self, ticket: UUID, failure_type: FailureType | None) -> None:
        with transaction.atomic(durable=True):
            record_outcome(
                self.agent.pk,
                ok=failure_type is None,
                failure_type=failure_type,
                attempt_id=ticket,
                actor=SYSTEM,
                now=self.clock(),
                config=self.config,
            )
