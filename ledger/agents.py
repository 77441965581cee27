"""Agents: made known, found by name, paused, reset."""

import difflib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from ledger import instructions, journal
from ledger.errors import Invalid, Refusal
from ledger.journal import Actor, Kind
from ledger.models import Agent, Project
from ledger.models.agent import CONCURRENCY, SYSTEM_TEXT_LENGTH
from ledger.redaction import redacted, titled
from ledger.tokens import TrustedCaller

NAME_LENGTH = 64


class UnknownAgent(Refusal):
    """No agent has this name"""

    code = "unknown_agent"
    hint = "Use one of the nearest names, or send 'register': true to make the agent known."


def check_name(name: str, *, pointer: str = "/agent") -> str:
    """The name itself; raises Invalid where it is blank, too long or not printable."""
    if not name.strip():
        raise Invalid(pointer, "An agent's name must not be blank.")
    if len(name) > NAME_LENGTH:
        raise Invalid(pointer, f"An agent's name has at most {NAME_LENGTH} characters.")
    if not name.isprintable() or name != name.strip():
        raise Invalid(
            pointer, "An agent's name has no invisible characters and no space around it."
        )
    return name


@transaction.atomic
def register(
    name: str, *, project: Project, actor: Actor, now: datetime | None = None, request_id: str = ""
) -> Agent:
    """The agent of that name, made known if it was not."""
    check_name(name)
    agent, made = Agent.objects.get_or_create(project=project, name=name)
    if made:
        journal.record(
            Kind.AGENT_REGISTERED,
            subject_type="agent",
            subject_id=agent.id,
            agent_id=agent.id,
            project_id=project.id,
            actor=actor,
            now=now or timezone.now(),
            data={"name": name},
            request_id=request_id,
        )
    return agent


def named(name: str, *, project: Project) -> Agent:
    """The agent of that name; raises UnknownAgent with the nearest names."""
    agent = Agent.objects.filter(project=project, name=check_name(name)).first()
    if agent is None:
        near = nearest(name, project=project)
        known = f" Nearest: {', '.join(near)}." if near else ""
        raise UnknownAgent(
            f"No agent is called '{name}' in project '{project.name}'.{known}", nearest=near
        )
    return agent


def nearest(name: str, *, project: Project, most: int = 5) -> list[str]:
    """The known names that look most like `name`; case does not count."""
    names = {known.casefold(): known for known in project.agent_set.values_list("name", flat=True)}
    close = difflib.get_close_matches(name.casefold(), names, n=most, cutoff=0.5)
    return [names[folded] for folded in close]


def pause(
    agents: Iterable[Agent],
    *,
    paused: bool = True,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Agent]:
    """Stop handing tasks to these agents, or go on; returns those that really changed.

    Pulls go on: an instruction may be just what a paused agent needs.
    """
    kind = Kind.AGENT_PAUSED if paused else Kind.AGENT_RESUMED
    return put(agents, "paused", paused, kind=kind, actor=actor, now=now, request_id=request_id)


def limit(
    agents: Iterable[Agent],
    *,
    concurrency: int | None,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Agent]:
    """Let these agents run so many attempts at once, None for any number; those that changed.

    What runs already goes on.
    """
    least, most = CONCURRENCY
    if concurrency is not None and not least <= concurrency <= most:
        raise Invalid("/concurrency", f"concurrency is a number from {least} to {most}, or null.")
    return put(
        agents,
        "concurrency",
        concurrency,
        kind=Kind.AGENT_LIMITED,
        data={"concurrency": concurrency},
        actor=actor,
        now=now,
        request_id=request_id,
    )


def brief(
    agents: Iterable[Agent],
    *,
    system_text: str,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Agent]:
    """Have this text stand before every prompt of these agents, none where it is empty.

    Returns those that changed; what they have claimed already stays as it is.
    """
    if len(system_text) > SYSTEM_TEXT_LENGTH:
        raise Invalid(
            "/system_text", f"A system text has at most {SYSTEM_TEXT_LENGTH:,} characters."
        )
    text = titled(redacted(system_text)).strip()
    return put(
        agents,
        "system_text",
        text,
        kind=Kind.AGENT_BRIEFED,
        data={"characters": len(text)},
        actor=actor,
        now=now,
        request_id=request_id,
    )


@transaction.atomic
def put(
    agents: Iterable[Agent],
    column: str,
    value: Any,
    *,
    kind: Kind,
    data: dict[str, Any] | None = None,
    actor: Actor,
    now: datetime | None,
    request_id: str,
) -> list[Agent]:
    """Those of these agents that did not have this value yet; they have it now, each journalled."""
    now = now or timezone.now()
    ids = [agent.pk for agent in agents]
    found = Agent.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
    changed = [agent for agent in found if getattr(agent, column) != value]
    Agent.objects.filter(pk__in=[agent.pk for agent in changed]).update(**{column: value})
    for agent in changed:
        setattr(agent, column, value)
        journal.record(
            kind,
            subject_type="agent",
            subject_id=agent.id,
            agent_id=agent.id,
            project_id=agent.project_id,
            actor=actor,
            now=now,
            data=data,
            request_id=request_id,
        )
    return changed


@transaction.atomic
def reset(agent: Agent, *, actor: Actor, now: datetime | None = None) -> int:
    """Cancel the agent's unsettled instructions and nothing else; returns how many."""
    now = now or timezone.now()
    cancelled = instructions.cancel_all(TrustedCaller(actor, agent=agent), now=now)
    journal.record(
        Kind.AGENT_RESET,
        subject_type="agent",
        subject_id=agent.id,
        agent_id=agent.id,
        project_id=agent.project_id,
        actor=actor,
        now=now,
        data={"cancelled": len(cancelled)},
    )
    return len(cancelled)
