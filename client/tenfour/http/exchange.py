"""The requests of an operation to its driver, and the replies, independent of the HTTP library."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request to send; the reply is an Answer or NoAnswer."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None


@dataclass(frozen=True)
class Wait:
    """A delay; the reply is None."""

    seconds: float


@dataclass(frozen=True)
class Work:
    """A function that takes long; the reply is its result.

    It is given a function that says whether its result is no longer wanted.
    """

    run: Callable[[Callable[[], bool]], Any]


@dataclass(frozen=True)
class Answer:
    """A response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON; raises ValueError if it is not JSON."""
        return json.loads(self.body)

    def text(self) -> str:
        """Return the body as text; raises ValueError if it is not UTF-8."""
        return self.body.decode()

    def problem(self) -> Mapping[str, Any]:
        """Return the problem in the body, or an empty mapping."""
        try:
            value = self.json()
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class NoAnswer:
    """No response; `connected` if the server may have received the request."""

    reason: str
    connected: bool


# An operation: yields requests, is sent the replies, returns its result.
Steps = Generator[Request | Wait | Work, Any, T]
