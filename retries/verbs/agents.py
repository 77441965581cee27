"""The verbs of agents and their breakers."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import Q

from ledger import accounts, agents
from ledger.admin_pages.confirmation import list_effects
from ledger.journal import Stamp
from ledger.models import Agent, Breaker, Instruction, PoolMember, Task
from ledger.models.agent import SYSTEM_TEXT_LENGTH
from ledger.pools import membership
from ledger.states import BlockedReason, BreakerState, TaskState
from ledger.values.text import counted
from retries import breaker_actions
from retries.verbs.verb import Options, Rows, Verb, call, note_of

change = partial(call, load=Agent, note="")


def name_of(id: UUID) -> str:
    return Agent.objects.get(pk=id).name


def tell(text: str) -> dict[str, Any]:
    return {"said": lambda changed, ids, options: text.format(name_of(ids[0]))}


def explain(text: str) -> dict[str, Any]:
    return {"unchanged": lambda id: text.format(name_of(id))}


def explain_not_kept(id: UUID) -> str:
    if Breaker.objects.filter(pk=id, kept_open_at__isnull=False).exists():
        return f"The breaker for {name_of(id)} was already kept open."
    return f"The breaker for {name_of(id)} is closed. Trip it to open it."


def on_members(function: Callable[..., list[Agent]]) -> Callable[..., list[Agent]]:
    """Let a function of agents change the members of a pool; the pool changes with any of them."""

    def change_members(found: Iterable[Agent], **options: Any) -> list[Agent]:
        asked = list(found)
        changed = function(membership.expand(asked), **options)
        pools = [agent for agent in asked if agent.is_pool]
        seats = PoolMember.objects.filter(pool__in=pools, agent__in=changed) if pools else ()
        ids = {seat.pool_id for seat in seats}
        return [*changed, *(pool for pool in pools if pool.pk in ids)]

    return change_members


def read_limit(text: str) -> int | None:
    # None is no limit; words become 0, which is refused.
    asked = text.strip()
    return None if not asked else int(asked) if asked.isdecimal() and len(asked) < 9 else 0


def trip(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
    default = "by hand" if options.get("channel") == "admin" else ""
    chosen = Agent.objects.filter(pk__in=ids)
    tripped = on_members(breaker_actions.trip)(
        chosen, reason=note_of(options) or default, stamp=stamp
    )
    return [agent.pk for agent in tripped]


def reset(ids: list[UUID], options: Options, stamp: Stamp) -> list[UUID]:
    chosen = membership.expand(
        Agent.objects.filter(pk__in=ids).select_related("project").order_by("pk")
    )
    return [
        agent.pk
        for agent in chosen
        for _ in range(agents.reset(agent, note=note_of(options), stamp=stamp))
    ]


def describe_brief(rows: Rows, options: Options) -> list[str] | None:
    text = options["system_text"]
    number = rows.exclude(system_text="").exclude(system_text=text).count()
    if not number or len(text) > SYSTEM_TEXT_LENGTH:
        return None  # no text is lost, or the verb refuses
    return [f"The system text of {counted(number, 'agent')} will be replaced."]


def list_pending(rows: Rows) -> Rows:
    return Instruction.objects.filter(agent__in=rows.values("pk")).cancellable()


def describe_reset(rows: Rows, options: Options) -> list[str]:
    pending = list_pending(Agent.objects.filter(Q(pk__in=rows) | Q(pool_seats__pool__in=rows)))
    number, of = pending.count(), pending.values("agent").distinct().count()
    text = f"{counted(number, 'pending instruction')} of {counted(of, 'agent')} will be cancelled."
    return list_effects((number, text))


def describe_closing(rows: Rows, options: Options) -> list[str]:
    number, its = rows.count(), "its" if rows.count() == 1 else "their"
    held = Task.objects.filter(
        agent__in=rows.values("pk"),
        state=TaskState.BLOCKED,
        blocked_reason=BlockedReason.BREAKER_OPEN,
    ).count()
    return list_effects(
        (number, f"{counted(number, 'breaker')} will close and forget {its} failures."),
        (held, f"{counted(held, 'held task')} will return to the queue."),
    )


# the page completes each question with the agent's name and adds its consequence
agent_verb = partial(Verb, model=Agent)
PAUSE = agent_verb(
    name="agent.pause",
    where=Q(paused=False),
    run=change(agents.pause, note="note"),
    words=("Pause", "", "paused"),
    icon="pause",
    slug="pause",
    undo="resume",
    admin="Pause: stop handing out tasks",
    **tell("{} is paused."),
    **explain("{} was already paused."),
)
RESUME = agent_verb(
    name="agent.resume",
    where=Q(paused=True),
    run=change(agents.pause, paused=False),
    words=("Resume", "", "resumed"),
    icon="play",
    slug="resume",
    undo="pause",
    admin="Resume",
    **tell("{} is resumed."),
    **explain("{} was not paused."),
)
LIMIT = agent_verb(
    name="agent.limit",
    where=Q(),
    takes={"concurrency": read_limit},
    run=change(on_members(agents.limit), "concurrency"),
    words=("Limit", "", "limited"),
    slug="limit",
    **tell("The slots of {} are set."),
    **explain("{} has this limit already."),
    admin="Limit concurrent attempts (empty: no limit)",
    admin_done=lambda changed, options: (
        "no longer limited" if options["concurrency"] is None else "limited"
    ),
)
SET_ACCOUNT = agent_verb(
    name="agent.set_account",
    where=Q(),
    takes={"account": str},
    run=change(on_members(accounts.set_account), "account"),
    words=("Set account", "", "moved to the account"),
    slug="account",
    **tell("The account of {} is set."),
    **explain("{} has this account already."),
    admin="Set the account that calls are billed to (empty: its own)",
)
BRIEF = agent_verb(
    name="agent.brief",
    where=Q(),
    takes={"system_text": str},
    run=change(on_members(agents.brief), "system_text"),
    words=("Brief", "", "briefed"),
    admin="Brief: set the system text (empty: none)",
    effects=describe_brief,
)
RESET = agent_verb(
    name="agent.reset",
    where=lambda rows: rows.filter(Q(is_pool=True) | Q(pk__in=list_pending(rows).values("agent"))),
    run=reset,
    words=("Cancel pending", "", "reset"),
    icon="s-aborted",
    slug="reset",
    question="Cancel all pending instructions for",
    said=lambda changed, ids, options: (
        f"Cancelled {counted(len(changed), 'instruction')} for {name_of(ids[0])}."
    ),
    admin="Reset: cancel all unsettled instructions",
    admin_done="instructions cancelled",
    effects=describe_reset,
    **explain("Nothing was waiting for {}."),
)
PROBE = agent_verb(
    name="agent.probe",
    where=Q(breaker__state=BreakerState.OPEN),
    run=change(breaker_actions.probe),
    words=("Probe now", "", "probed"),
    icon="c-half",
    slug="probe",
    key="b",
    **tell("The next task of {} is the probe."),
    **explain("The breaker for {} is not open."),
)
TRIP = agent_verb(
    name="agent.trip_breaker",
    where=~Q(breaker__state=BreakerState.OPEN),
    run=trip,
    words=("Trip breaker", "", "tripped"),
    icon="c-open",
    slug="trip",
    question="Trip the breaker for",
    admin="Trip the breaker: hand out no tasks until it is half-open",
    **tell("The breaker for {} is open."),
    **explain("The breaker for {} was already open."),
)
KEEP_OPEN = agent_verb(
    name="agent.keep_breaker_open",
    where=Q(breaker__state=BreakerState.OPEN, breaker__kept_open_at=None),
    run=change(breaker_actions.keep_open, note="reason"),
    words=("Keep it open", "", "kept open"),
    icon="hold",
    slug="keep-open",
    key="h",
    question="Keep the breaker open for",
    unchanged=explain_not_kept,
    admin="Keep the breaker open: no probe until a person closes it",
    **tell("The breaker for {} stays open until you close or probe it."),
)
CLOSE = agent_verb(
    name="agent.reset_breaker",
    where=Q(is_pool=True)
    | Q(breaker__isnull=False) & ~Q(breaker__state=BreakerState.CLOSED, breaker__failures=0),
    run=change(on_members(breaker_actions.reset)),
    words=("Close breaker", "", "reset"),
    icon="c-closed",
    slug="close",
    question="Close the breaker for",
    admin="Reset the breaker: close it and clear its failures",
    effects=describe_closing,
    **tell("The breaker for {} is closed."),
    **explain("The breaker for {} was already closed."),
)
PAGE = (PAUSE, RESUME, PROBE, TRIP, KEEP_OPEN, CLOSE, RESET, LIMIT, SET_ACCOUNT)
ADMIN = (PAUSE, RESUME, LIMIT, SET_ACCOUNT, BRIEF, RESET, TRIP, KEEP_OPEN, CLOSE)
# a breaker has the id of its agent
OF_BREAKER = (
    replace(TRIP, model=Breaker, where=~Q(state=BreakerState.OPEN)),
    replace(KEEP_OPEN, model=Breaker, where=Q(state=BreakerState.OPEN, kept_open_at=None)),
    replace(CLOSE, model=Breaker, where=~Q(state=BreakerState.CLOSED, failures=0)),
)
