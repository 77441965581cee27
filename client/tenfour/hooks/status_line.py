"""`tenfour hook --status-line`: show Claude Code's account limits, and tell the server of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tenfour import settings
from tenfour.commands.terminal import OK, complain, note, say
from tenfour.hooks.hook_store import HookStore
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver
from tenfour.http.problems import TenfourError
from tenfour.sessions.limit_records import sendable
from tenfour.setup.connections import state_folder

if TYPE_CHECKING:
    import argparse

PATH = "/v1/hooks/agent"
WINDOWS = {"five_hour": "5 hours", "seven_day": "week"}
# The status line is drawn after each step.
TELL_EVERY_S = 60.0
TIMEOUT_S = 2.0


def show_status_line(args: argparse.Namespace, raw: bytes) -> int:
    """Print the used shares of the windows; send them at most once a minute, if they changed."""
    with suppress(ValueError, RecursionError):
        given = json.loads(raw.decode(errors="replace"))
        limits = given.get("rate_limits") if isinstance(given, dict) else None
        if isinstance(limits, dict):
            say(describe(limits))
            tell(args.url, sendable(limits))
    return OK


def describe(limits: Mapping[str, Any]) -> str:
    """Return the windows in one line.

    >>> describe({"five_hour": {"used_percentage": 41.6}, "seven_day": {"used_percentage": 80}})
    '5 hours 42% · week 80%'
    """
    shares = {name: value_of(limits.get(name)) for name in WINDOWS}
    return " · ".join(
        f"{WINDOWS[name]} {share:.0f}%" for name, share in shares.items() if share is not None
    )


def value_of(window: Any) -> float | None:
    used = window.get("used_percentage") if isinstance(window, dict) else None
    return used if isinstance(used, (int, float)) and not isinstance(used, bool) else None


def tell(url: str | None, limits: Mapping[str, Any]) -> None:
    try:
        found = settings.read(url)
        store = HookStore(state_folder(os.environ), url=found.url, token=found.token)
        if store.is_away() or store.has_told(limits, TELL_EVERY_S):
            return
        store.note_told(limits)
        record = {"timestamp": datetime.now(timezone.utc).isoformat(), "rate_limits": limits}
        body = {"hook_event_name": "StatusLine", "tenfour": {"limits": [record]}}
        driver = Driver(found, TIMEOUT_S)
        try:
            driver.run(Core(found, retries=0).perform(Call("POST", PATH, dict, body=body)))
        finally:
            driver.close()
    except TenfourError as error:
        complain(error)
    except OSError as error:
        note(f"The limits were not sent: {error}")
