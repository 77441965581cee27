"""Create valid rows for tests, in any starting state, with plain functions."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from ledger import agents, instructions, tokens
from ledger.journal import SYSTEM, Actor, Stamp
from ledger.models import Agent, Instruction, Project
from ledger.secrets.redaction import stripped
from ledger.states import InstructionState
from ledger.tokens import TrustedCaller
from retries.reminders import retry_unacknowledged

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

_numbers = count(1)


def make_project(name: str = "default") -> Project:
    return Project.objects.get_or_create(name=name)[0]


def as_name(text: str) -> str:
    """Return the part of a hostile text that is a valid agent name."""
    return stripped(text)[:64].strip().replace("/", "|").replace("\\", "|")


def make_agent(name: str = "coder", *, project: Project | None = None) -> Agent:
    return agents.register(name, project=project or make_project(), stamp=Stamp(SYSTEM, NOW))


def make_token(kind: str = "operator", *, agent: Agent | None = None, **more: Any) -> str:
    """Issue a token and return its secret."""
    if kind == "agent" and agent is None:
        agent = make_agent()
    project = more.pop("project", None) or (agent.project if agent else make_project())
    return tokens.issue(kind, project=project, agent=agent, stamp=Stamp(SYSTEM), **more)[1]


def send(
    agent: Agent,
    content: str = "",
    *,
    now: datetime = NOW,
    actor: Actor = SYSTEM,
    stamp: Stamp | None = None,
    **more: Any,
) -> UUID:
    """Send an instruction and return its ID."""
    content = content or f"Look at thing {next(_numbers)}"
    stamp = stamp or Stamp(actor, now)
    id: UUID = instructions.send(agent, content, stamp=stamp, **more)["id"]
    return id


def pull(
    agent: Agent, *, now: datetime = NOW, limit: int = 100, session: str | None = None
) -> list[str]:
    """Pull the agent's instructions and return their texts."""
    from ledger.schemas.instructions import InstructionOut

    caller = TrustedCaller(SYSTEM, agent=agent)
    rows = instructions.pull(caller, limit=limit, session=session, now=now)
    return [InstructionOut.write(row)["text"] for row in rows]


def tick(now: datetime, **more: Any) -> tuple[int, int]:
    """Run the idle check without a minimum age; return the counts (requeued, given up)."""
    reminded = retry_unacknowledged(now=now, min_age=more.pop("min_age", timedelta()), **more)
    return reminded.requeued, reminded.given_up


def make_instruction(
    state: str = InstructionState.QUEUED, *, agent: Agent, **more: Any
) -> Instruction:
    """Create an instruction and move it to `state` through legal transitions."""
    retries = 0 if state == InstructionState.FAILED else 3
    id = send(agent, max_retries=more.pop("max_retries", retries), **more)
    if state in (InstructionState.DELIVERED, InstructionState.FAILED):
        pull(agent)
    if state == InstructionState.FAILED:
        tick(NOW)
    if state == InstructionState.ACKNOWLEDGED:
        instructions.acknowledge_instruction(id, now=NOW)
    if state == InstructionState.CANCELLED:
        instructions.cancel([id], project_id=agent.project_id, stamp=Stamp(SYSTEM, NOW))
    made = Instruction.objects.get(pk=id)
    assert made.state == state
    return made


def state_of(id: UUID | str) -> str:
    return Instruction.objects.get(pk=id).state
