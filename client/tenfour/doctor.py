"""What `tenfour doctor` looks at: address, token, clock, versions, health."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tenfour import calls
from tenfour.client import Client
from tenfour.models import Me
from tenfour.problems import TenfourError
from tenfour.settings import NotConfigured
from tenfour.version import __version__

SKEW = timedelta(seconds=5)
SOON = timedelta(days=7)


@dataclass(frozen=True)
class Finding:
    """One thing looked at: how it is, and what to do about it."""

    level: Literal["ok", "warn", "fail"]
    said: str
    advice: str = ""

    @property
    def line(self) -> str:
        return f"{self.level:<4}  {self.said} {self.advice}".rstrip()


def examine(url: str | None = None) -> tuple[Finding, ...]:
    """Looks at everything that can be looked at with what is configured."""
    try:
        client = Client(url, retries=0, timeout=10)
    except NotConfigured as error:
        return (Finding("fail", error.sentence, error.hint),)
    with client:
        return tuple(_findings(client))


def _findings(tenfour: Client) -> Iterator[Finding]:
    reached = _reach(tenfour)
    yield reached
    if reached.level == "fail":
        return
    yield _health(tenfour)
    before = datetime.now(UTC)
    try:
        me = tenfour.me()
    except TenfourError as error:
        yield Finding("fail", f"Token: {error.sentence}", error.hint)
        return
    yield from about(me, here=before + (datetime.now(UTC) - before) / 2)


def about(me: Me, *, here: datetime) -> Iterator[Finding]:
    """What the server's answer to `me` says about token, clock and versions (pure)."""
    yield _who(me)
    yield _expiry(me, here)
    yield _skew(me, here)
    yield _versions(me)


def _reach(tenfour: Client) -> Finding:
    try:
        tenfour.perform(calls.health())
    except TenfourError as error:
        return Finding("fail", error.sentence, error.hint)
    return Finding("ok", f"Tenfour answers at {tenfour.settings.url}")


def _health(tenfour: Client) -> Finding:
    try:
        ready = tenfour.perform(calls.ready())
    except TenfourError as error:
        return Finding("fail", f"Server: {error.sentence}", "Its database is away: look there.")
    return health(ready)


def health(ready: Mapping[str, Any]) -> Finding:
    """What /readyz says, as a finding (pure)."""
    status = str(ready.get("status", "ok"))
    if status in {"ok", "ready"}:
        return Finding("ok", "Server is ready")
    said = ", ".join(f"{name} {value}" for name, value in _troubles(ready))
    return Finding(
        "warn",
        f"Server is {status}{f': {said}' if said else ''}.",
        "Instructions still go out and are acknowledged; reminders may be late.",
    )


def _troubles(ready: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    checks = ready.get("checks")
    for name, value in checks.items() if isinstance(checks, dict) else ():
        status = value.get("status") if isinstance(value, dict) else value
        if status not in {"ok", True}:
            yield name, status


def _who(me: Me) -> Finding:
    agent = f" {me.agent['name']}" if me.agent else ""
    scopes = ", ".join(me.scopes) or "none"
    project = me.project.get("name", "?")
    return Finding("ok", f"Token is of {me.kind}{agent} in project {project}; it may {scopes}")


def _expiry(me: Me, here: datetime) -> Finding:
    expires_at = me.token.get("expires_at")
    if not expires_at:
        return Finding("ok", "Token does not expire")
    left = datetime.fromisoformat(expires_at) - here
    said = f"Token expires on {expires_at[:10]}"
    if left > SOON:
        return Finding("ok", said)
    return Finding("warn", f"{said}, in {left.days} days.", "Have a new one made in time.")


def _skew(me: Me, here: datetime) -> Finding:
    if me.server_time is None:
        return Finding("warn", "The server does not tell its time.")
    ahead = (here - me.server_time).total_seconds()
    if abs(ahead) <= SKEW.total_seconds():
        return Finding("ok", f"Clocks agree within {SKEW.seconds} s")
    way = "ahead of" if ahead > 0 else "behind"
    return Finding(
        "warn", f"This clock is {abs(ahead):.0f} s {way} the server's.", "Set it by a time server."
    )


def _versions(me: Me) -> Finding:
    if _line(me.version) == _line(__version__):
        return Finding("ok", f"Versions: server {me.version}, client {__version__}")
    return Finding(
        "warn",
        f"Versions differ: server {me.version or 'unknown'}, client {__version__}.",
        "Install the client that came with the server: pip install ./client",
    )


def _line(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
