"""Records of what happened, as frozen values: events and dead letters."""

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
