"""Register, find, configure, pause and reset agents."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import (
    Case,
    DateTimeField,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Greatest

from ledger import instructions, journal
from ledger.database import sql
from ledger.errors import Invalid, Refusal
from ledger.journal import Kind, Stamp
from ledger.models import Agent, Attempt, Instruction, Project, Task
from ledger.models.agent import CONCURRENCY, SYSTEM_TEXT_LENGTH
from ledger.secrets.notes import clean_title, noted
from ledger.secrets.redaction import redacted
from ledger.states import InstructionState, TaskState
from ledger.tokens import TrustedCaller
from ledger.values.text import find_similar
from ledger.values.timestamps import format_timestamp

NAME_LENGTH = 64
HEAD = 100  # of an agent's queue, where a task that has waited for long is looked for


class PoolRemoved(Refusal):
    """The pool was removed"""

    code = "pool_removed"
    hint = "Create the pool again, or send the work to another agent or pool."


class UnknownAgent(Refusal):
    """Unknown agent"""

    code = "unknown_agent"
    hint = "Use one of the nearest names, or send 'register': true to register the agent."


def check_name(name: str, *, pointer: str = "/agent") -> str:
    """Return the name; raises Invalid if it is blank, too long or not printable."""
    if not name.strip():
        raise Invalid(pointer, "An agent's name must not be blank.")
    if len(name) > NAME_LENGTH:
        raise Invalid(pointer, f"An agent's name must have at most {NAME_LENGTH} characters.")
    if not name.isprintable() or name != name.strip():
        raise Invalid(
            pointer,
            "An agent's name must have no invisible characters and no leading or trailing spaces.",
        )
    return name


def check_new_name(name: str, *, pointer: str = "/agent") -> str:
    """Return the name for a new agent; raises Invalid if no address can have it."""
    # Servers read an encoded slash as one that divides an address, and clients leave out dots. A
    # name in the form of an id would stand for the agent with that id.
    check_name(name, pointer=pointer)
    if "/" in name or "\\" in name or name in {".", ".."}:
        raise Invalid(
            pointer,
            "An agent's name must have no slash and no backslash, and must not be '.' or '..', "
            "because it is part of an address. Use a hyphen or a colon instead.",
        )
    if is_id(name):
        raise Invalid(pointer, "An agent's name must not have the form of an id.")
    return name


def is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def register(name: str, *, project: Project, stamp: Stamp, pointer: str = "/agent") -> Agent:
    return find_or_create(name, project=project, stamp=stamp, pointer=pointer)[0]


@transaction.atomic
def find_or_create(
    name: str, *, project: Project, stamp: Stamp, pointer: str = "/agent"
) -> tuple[Agent, bool]:
    check_name(name, pointer=pointer)
    agent, created = Agent.objects.get_or_create(project=project, name=name)
    if created:
        check_new_name(name, pointer=pointer)
        if redacted(name) != name:
            raise Invalid(pointer, "An agent's name must not contain a secret. Choose another.")
        journal.record(
            Kind.AGENT_REGISTERED,
            subject_type="agent",
            subject_id=agent.id,
            agent_id=agent.id,
            project_id=project.id,
            stamp=stamp,
            data={"name": name},
        )
    return check_open(agent), created


def check_open(agent: Agent) -> Agent:
    """Return the agent or pool; raises PoolRemoved if nothing can be sent to it."""
    if agent.removed_at:
        raise PoolRemoved(f"The pool {agent.name} was removed.")
    return agent


HOLD = """select id, name, removed_at from ledger_agent
where id = any(%(ids)s) order by id for key share"""


def hold_pools(found: Iterable[Agent]) -> None:
    """Keep these pools until the transaction ends; raises PoolRemoved."""
    ids = sorted({agent.pk for agent in found if agent.is_pool})
    for row in sql.run(HOLD, ids=ids) if ids else ():
        if row["removed_at"]:
            raise PoolRemoved(f"The pool {row['name']} was removed.")


def get_by_name(name: str, *, project: Project) -> Agent:
    """Return the agent with this name; raises UnknownAgent with the nearest names."""
    agent = Agent.objects.filter(project=project, name=check_name(name)).first()
    if agent is None:
        nearest = find_similar_names(name, project=project)
        suggestion = f" Nearest: {', '.join(nearest)}." if nearest else ""
        raise UnknownAgent(
            f"No agent is called '{name}' in project '{project.name}'.{suggestion}", nearest=nearest
        )
    return check_open(agent)


def find_similar_names(name: str, *, project: Project) -> list[str]:
    return find_similar(
        name, project.agent_set.filter(removed_at=None).values_list("name", flat=True)
    )


class EarliestOf(Subquery):
    """The earliest of the times that a query finds; slice the query to limit how far it looks."""

    template = "(select min(found.at) from (%(subquery)s) found(at))"
    output_field = DateTimeField()


def find_silent(now: datetime) -> QuerySet[Agent]:
    """Return agents that have not called for a while although something waits for them."""
    # An instruction may wait for the agent, or a task that it would get: not if it waits or is
    # paused, or the plan or the task's type is. An agent with a running attempt may ask for the
    # next task only when that attempt has ended.
    limit = now - timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])
    unseen = Agent.objects.workers().filter(Q(last_seen_at=None) | Q(last_seen_at__lt=limit))
    waiting = Instruction.objects.filter(
        agent=OuterRef("pk"), state=InstructionState.QUEUED, queued_at__lt=limit
    )
    queue = Task.objects.filter(agent=OuterRef("pk"), state=TaskState.QUEUED)
    # Written as a range of one agent, so that only the index of agents' retries has the order. With
    # an agent alone, PostgreSQL may read the retries of all agents for each, by the index of times.
    retries = Task.objects.filter(
        agent__gte=OuterRef("pk"), agent__lte=OuterRef("pk"), state=TaskState.RETRY
    )
    running = Attempt.objects.filter(agent=OuterRef("pk"), outcome=None, lease_expires_at__gt=now)
    found = unseen.alias(
        queued_since=earliest_of(queue.order_by("-priority", "id"), "updated_at", now=now),
        due_since=earliest_of(retries.order_by("agent_id", "due_at"), "due_at", now=now),
    )
    has_tasks = Q(queued_since__lt=limit) | Q(due_since__lt=limit)
    gets_tasks = Q(paused=False) & (Q(waits_until=None) | Q(waits_until__lte=now))
    return found.filter(Exists(waiting) | gets_tasks & ~Exists(running) & has_tasks)


def earliest_of(tasks: QuerySet[Task], column: str, *, now: datetime) -> EarliestOf:
    """Return the earliest time of the first tasks, without those that no claim hands out.

    Their plan does not run, or their type is paused.
    """
    has_begun = Q(plan__not_before=None) | Q(plan__not_before__lte=now)
    runs = has_begun & Q(plan__paused_at=None)
    is_held = When(project__paused_types__has_key=F("type"), then=None)
    return EarliestOf(tasks.values(at=Case(is_held, When(runs, then=F(column))))[:HEAD])


def pause(
    agents: Iterable[Agent], *, paused: bool = True, note: str = "", stamp: Stamp
) -> list[Agent]:
    """Stop handing tasks to these agents, or resume; return those that changed."""
    # A paused agent can still pull instructions: one may be just what it needs. An agent that waits
    # for a limit of its account to reset no longer does so when it is resumed.
    if paused:
        kind = Kind.AGENT_PAUSED
        return update_agents(agents, "paused", True, kind=kind, data=noted(note), stamp=stamp)
    waiting = end_waits(agents, now=stamp.at)
    resumed = update_agents(agents, "paused", False, kind=Kind.AGENT_RESUMED, stamp=stamp)
    waited = [agent for agent in waiting if agent not in resumed]
    record_early_ends(waited, stamp=stamp)
    return resumed + waited


def resume_early(agents: Iterable[Agent], *, only: Q, stamp: Stamp) -> None:
    """End these waits of the agents before their time: their account has room again."""
    record_early_ends(end_waits(agents, only=only, now=stamp.at), stamp=stamp)


def record_early_ends(waited: Iterable[Agent], *, stamp: Stamp) -> None:
    for agent in waited:
        data = {"waits_until": agent.waits_until and format_timestamp(agent.waits_until)}
        record_change(agent, Kind.AGENT_RESUMED, data=data, stamp=stamp)


def limit(agents: Iterable[Agent], *, concurrency: int | None, stamp: Stamp) -> list[Agent]:
    """Limit the concurrent attempts of these agents, or lift the limit; return those that changed.

    Running attempts continue.
    """
    least, most = CONCURRENCY
    if concurrency is not None and not least <= concurrency <= most:
        raise Invalid("/concurrency", f"concurrency must be null or from {least} to {most}.")
    return update_agents(
        agents,
        "concurrency",
        concurrency,
        kind=Kind.AGENT_LIMITED,
        data={"concurrency": concurrency},
        stamp=stamp,
    )


def brief(agents: Iterable[Agent], *, system_text: str, stamp: Stamp) -> list[Agent]:
    """Set the text that precedes every prompt of these agents; return those that changed.

    Tasks that they have already claimed keep their prompts.
    """
    if len(system_text) > SYSTEM_TEXT_LENGTH:
        raise Invalid(
            "/system_text", f"system_text must have at most {SYSTEM_TEXT_LENGTH:,} characters."
        )
    text = clean_title(system_text)
    return update_agents(
        agents,
        "system_text",
        text,
        kind=Kind.AGENT_BRIEFED,
        data={"characters": len(text)},
        stamp=stamp,
    )


@transaction.atomic
def end_waits(agents: Iterable[Agent], *, only: Q | None = None, now: datetime) -> list[Agent]:
    """End the waits of these agents and of their tasks; return those that waited."""
    ids = [agent.pk for agent in agents]
    # The statement that locks them checks their waits: one may have changed since they were read.
    waiting = Agent.objects.select_for_update(no_key=True).filter(
        only or Q(), pk__in=ids, waits_until__gt=now
    )
    found = list(waiting.order_by("pk"))
    for agent in found:
        late = Task.objects.filter(agent=agent, state=TaskState.RETRY, due_at__gt=now)
        # the latest of both times; PostgreSQL leaves out a null
        due_at = Greatest(Value(now), "not_before")
        late.update(due_at=due_at, version=F("version") + 1, updated_at=now)
        # A wait of the account moves the beginning of the agent's own waits on, to after its end.
        Agent.objects.filter(pk=agent.pk).update(
            waits_until=now,
            waits_since=Case(When(waits_since__gt=now, then=Value(now)), default=F("waits_since")),
        )
    return found


@transaction.atomic
def update_agents(
    agents: Iterable[Agent],
    column: str,
    value: Any,
    *,
    kind: Kind,
    data: dict[str, Any] | None = None,
    stamp: Stamp,
) -> list[Agent]:
    ids = [agent.pk for agent in agents]
    found = Agent.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    changed = [agent for agent in found if getattr(agent, column) != value]
    Agent.objects.filter(pk__in=[agent.pk for agent in changed]).update(**{column: value})
    for agent in changed:
        setattr(agent, column, value)
        record_change(agent, kind, data=data, stamp=stamp)
    return changed


def record_change(agent: Agent, kind: Kind, *, data: dict[str, Any] | None, stamp: Stamp) -> None:
    journal.record(
        kind,
        subject_type="agent",
        subject_id=agent.id,
        agent_id=agent.id,
        project_id=agent.project_id,
        stamp=stamp,
        data=data,
    )


@transaction.atomic
def reset(agent: Agent, *, note: str = "", stamp: Stamp) -> int:
    """Cancel the agent's unsettled instructions and return how many there were."""
    cancelled = instructions.cancel_all(TrustedCaller(stamp.actor, agent=agent), now=stamp.at)
    data = {"cancelled": len(cancelled), **noted(note)}
    record_change(agent, Kind.AGENT_RESET, data=data, stamp=stamp)
    return len(cancelled)
