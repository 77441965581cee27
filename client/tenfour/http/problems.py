"""Errors of the client, with the server's code, detail and hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TenfourError(Exception):
    """The server refused a call, or the response does not come from Tenfour."""

    def __init__(
        self,
        detail: str,
        *,
        status: int = 0,
        code: str = "",
        title: str = "",
        hint: str = "",
        retryable: bool = False,
        request_id: str = "",
        errors: tuple[Mapping[str, Any], ...] = (),
        retry_after_s: float | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.hint = hint
        self.retryable = retryable
        self.request_id = request_id
        self.errors = errors
        self.retry_after_s = retry_after_s
        self.problem: Mapping[str, Any] = problem or {}

    def __str__(self) -> str:
        facts = [self.code, f"request {self.request_id}" if self.request_id else ""]
        known = ", ".join(fact for fact in facts if fact)
        return f"{self.sentence} [{known}]" if known else self.sentence

    @property
    def sentence(self) -> str:
        """Return the error and its fields in one line."""
        text = self.detail or self.title or "Tenfour refused the call."
        fields = "; ".join(
            _field(error) for error in self.errors if str(error.get("detail")) not in text
        )
        return f"{text.rstrip('.')}: {fields}" if fields else text


class ServerAway(TenfourError):
    """No response: nothing listens there, or the connection broke or timed out."""


def _field(error: Mapping[str, Any]) -> str:
    return f"{error.get('pointer', '')} {error.get('detail', '')}".strip()


def server_away(url: str, *, reason: str, connected: bool) -> ServerAway:
    """Return the error for a call that got no response from `url`."""
    reason = reason.rstrip(".")
    if connected:
        detail = f"Tenfour at {url} did not respond: {reason}."
        hint = "The call may have taken effect: check before you repeat it, or allow more time."
    else:
        detail = f"Tenfour cannot be reached at {url}: {reason}."
        hint = "Start it with `make up`, or set TENFOUR_URL to its address."
    return ServerAway(
        detail, code="server_away", title="Server unreachable", hint=hint, retryable=True
    )


class Blocked(Exception):
    """Raise it inside `with attempt` when the task can't continue without a person.

    `code` says why, such as permission_denied, service_unavailable or conflicting_requirements.
    """

    def __init__(self, message: str, *, code: str | None = None, **failure: Any) -> None:
        super().__init__(message)
        self.code = code
        self.failure: Mapping[str, Any] = {"message": message, "code": code, **failure}


class TaskFailed(Exception):
    """A task function's attempts have ended without success; `decision` says how."""

    def __init__(self, message: str, *, task: str, decision: Any = None) -> None:
        super().__init__(message)
        self.task = task
        self.decision = decision
