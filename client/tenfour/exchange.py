"""What goes over the wire and what comes back, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """To be sent."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None


@dataclass(frozen=True)
class Wait:
    """To be waited for before the next try."""

    seconds: float


@dataclass(frozen=True)
class Answer:
    """Came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises ValueError where it is none."""
        return json.loads(self.body)

    def text(self) -> str:
        """The body as text; raises ValueError where it is none."""
        return self.body.decode()

    def problem(self) -> Mapping[str, Any]:
        """The problem that the body describes, or nothing."""
        try:
            value = self.json()
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class NoAnswer:
    """Nothing came back; `connected` says whether the server may have got the request."""

    reason: str
    connected: bool
