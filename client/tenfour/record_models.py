"""Records as frozen values: events, dead letters, rules, patterns and tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tenfour.values import Json, Value, instant


@dataclass(frozen=True)
class Event(Value):
    """An entry of the journal."""

    id: str
    type: str = ""
    subject: str = ""
    subject_type: str = ""
    agent: str | None = None
    agent_id: str | None = None
    actor: Json = field(default_factory=dict)
    from_state: str | None = None
    to_state: str | None = None
    data: Json = field(default_factory=dict)
    request_id: str = ""
    at: datetime | None = field(default=None, metadata={"read": instant})


@dataclass(frozen=True)
class DeadLetter(Value):
    """A task that failed for good; `closed_as` says what a person decided."""

    id: str
    task: str = ""
    agent: str = ""
    agent_id: str = ""
    type: str = ""
    payload: Any = None
    error: str = ""
    reason: str = ""
    retry_count: int = 0
    note: str = ""
    closed_as: str | None = None
    closed_by: str | None = None
    replayed_as: str | None = None
    failed_at: datetime | None = None
    closed_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.closed_as is None


@dataclass(frozen=True)
class StandingInstruction(Value):
    """A rule that sends an instruction when something happens."""

    id: str
    state: str = ""
    on: Json = field(default_factory=dict)
    content: str = ""
    expect: Json | None = None
    max_retries: int = 0
    on_failed: str = ""
    agent: str | None = None
    agent_id: str | None = None
    once_per: str = ""
    hold_stop: bool = False
    created_by: Json = field(default_factory=dict)
    activated_at: datetime | None = None
    retired_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 0


@dataclass(frozen=True)
class Trial(Value):
    """The result of trying a rule on a sample: each condition, and what the agent would read."""

    fires: bool = False
    conditions: list[Json] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hold(Value):
    """The answer to an agent that wants to stop: `text` says what is left to do."""

    hold: bool = False
    text: str = ""
    instructions: list[Json] = field(default_factory=list)
    let_go: list[str] = field(default_factory=list)
    escalations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Pattern(Value):
    """Failures with the same cause, and what people decided about them."""

    id: str
    state: str = ""
    template: str = ""
    example: str = ""
    failures: int = 0
    agents: list[str] = field(default_factory=list)
    note: str = ""
    state_by: str | None = None
    ignored_until: datetime | None = None
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    state_at: datetime | None = None


@dataclass(frozen=True)
class PatternFailure(Value):
    """One failure of a pattern."""

    id: str
    type: str = ""
    agent: str = ""
    message: str = ""
    task: str = ""
    at: datetime | None = field(default=None, metadata={"read": instant})


@dataclass(frozen=True)
class Token(Value):
    """Who may call the API, and what; `secret` is there only in the answer that creates it."""

    id: str
    kind: str = ""
    name: str = ""
    agent: str | None = None
    agent_id: str | None = None
    prefix: str = ""
    scopes: list[str] = field(default_factory=list)
    created_by: str = ""
    created_at: datetime | None = None
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    secret: str = field(default="", repr=False)
