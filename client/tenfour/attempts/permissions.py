"""Ask people whether an agent may make a tool call; each function turns arguments into a Call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tenfour.api.calls import given, part
from tenfour.http.core import Call, Core
from tenfour.http.exchange import Steps, Wait
from tenfour.http.problems import TenfourError
from tenfour.log import log
from tenfour.record_models import Permission

PATH = "/v1/permissions"
WAIT_S = 540
# Seconds between looks at the answer, if the server does not say.
POLL_S = 1.0
LONGEST_POLL_S = 30.0


def ask(
    tool: str,
    input: Mapping[str, Any],
    *,
    folder: str | None = None,
    call_id: str | None = None,
    task: str | None = None,
    said: str | None = None,
    wait_s: int = WAIT_S,
    **more: str,
) -> Call[Permission]:
    """Ask about a call; rules may decide at once, else the request waits for a person."""
    options = {"folder": folder, "call_id": call_id, "task": task, "said": said}
    body = {"tool": tool, "input": input, "wait_s": wait_s, **given(options), **more}
    return Call("POST", PATH, Permission.read, body)


def take(id: str) -> Call[Permission]:
    """Take the decision, if there is one; from then on, it can't be undone."""
    return Call("POST", f"{_path(id)}/take", Permission.read, {})


def withdraw(id: str) -> Call[Permission]:
    """End a request that no longer needs a decision."""
    return Call("POST", f"{_path(id)}/withdraw", Permission.read, {})


def read_pause(permission: Permission) -> float:
    """Return the seconds until the next look at the answer."""
    pause: Any = permission.raw.get("poll_after_s")
    is_number = isinstance(pause, (int, float)) and not isinstance(pause, bool)
    return float(pause) if is_number and 0 < pause <= LONGEST_POLL_S else POLL_S


def await_decision(core: Core, asked: Call[Permission], *, wait_s: int) -> Steps[Permission]:
    """Ask, and wait for a decision; `allowed` is None if none comes, or without a server.

    Raises TenfourError where the server refuses to ask.
    """
    until = time.monotonic() + wait_s
    found = Permission(id="", tool=str(asked.body["tool"]) if isinstance(asked.body, dict) else "")
    try:
        found = yield from core.perform(asked)
        while found.is_open and time.monotonic() < until:
            yield Wait(read_pause(found))
            found = yield from _look(core, found)
        return (yield from _give_up(core, found)) if found.is_open else found
    except TenfourError as error:
        if not found.id and not error.retryable:
            raise
        log.warning("Permission for %s: %s", found.tool, error)
        return found
    except GeneratorExit:
        raise
    except BaseException:
        # An interrupt: no one waits for the answer any more.
        if found.is_open:
            with suppress(TenfourError):
                yield from core.perform(withdraw(found.id))
        raise


def _look(core: Core, asked: Permission) -> Steps[Permission]:
    """Return the request with its decision, if there is one; an outage is waited out."""
    try:
        return (yield from core.perform(take(asked.id)))
    except TenfourError as error:
        if not error.retryable:
            raise
        log.warning("Permission %s: %s", asked.id, error)
        return asked


def _give_up(core: Core, asked: Permission) -> Steps[Permission]:
    """Withdraw a request that has no answer; one that has come just now counts."""
    ended = yield from core.perform(withdraw(asked.id))
    return ended if ended.allowed is None else (yield from core.perform(take(asked.id)))


def _path(id: str) -> str:
    return f"{PATH}/{part(id)}"
