"""The checks of `tenfour doctor`: address, token, clock, versions, health."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from tenfour.api import calls
from tenfour.client import Client
from tenfour.commands.terminal import OK, REFUSED, say
from tenfour.http.problems import TenfourError
from tenfour.http.values import instant
from tenfour.models import Me
from tenfour.settings import NotConfigured
from tenfour.setup.agent_doctor import examine_agents
from tenfour.setup.findings import Finding
from tenfour.version import __version__

SKEW = timedelta(seconds=5)
SOON = timedelta(days=7)


def doctor(args: argparse.Namespace) -> int:
    """Print one line for each check; exit with 1 if one fails."""
    findings = examine(args.url)
    for finding in findings:
        say(finding.line)
    return REFUSED if any(finding.level == "fail" for finding in findings) else OK


def examine(url: str | None = None) -> tuple[Finding, ...]:
    """Run every check that the configuration allows."""
    try:
        client = Client(url, retries=0, timeout=10)
    except NotConfigured as error:
        return (Finding("fail", error.sentence, error.hint),)

    with client:
        return (*_findings(client), *examine_agents(client, os.environ))


def _findings(tenfour: Client) -> Iterator[Finding]:
    reached = _check_address(tenfour)
    yield reached
    if reached.level == "fail":
        return
    yield _check_server(tenfour)
    before = datetime.now(timezone.utc)
    try:
        me = tenfour.me()
    except TenfourError as error:
        yield Finding("fail", f"Token: {error.sentence}", error.hint)
        return
    yield from check_caller(me, here=before + (datetime.now(timezone.utc) - before) / 2)


def check_caller(me: Me, *, here: datetime) -> Iterator[Finding]:
    """Check token, clock and versions against the response of `me` (pure)."""
    yield _describe_token(me)
    yield _check_expiry(me, here)
    yield _check_clock(me, here)
    yield _check_versions(me)


def _check_address(tenfour: Client) -> Finding:
    try:
        tenfour.perform(calls.health())
    except TenfourError as error:
        return Finding("fail", error.sentence, error.hint)
    return Finding("ok", f"Tenfour responds at {tenfour.settings.url}")


def _check_server(tenfour: Client) -> Finding:
    try:
        ready = tenfour.perform(calls.ready())
    except TenfourError as error:
        return Finding(
            "fail", f"Server: {error.sentence}", "Its database is unreachable: check PostgreSQL."
        )
    return judge_health(ready)


def judge_health(ready: Mapping[str, Any]) -> Finding:
    """Return the finding for a response of /readyz (pure)."""
    status = str(ready.get("status", "ok"))
    if status in {"ok", "ready"}:
        return Finding("ok", "Server is ready")
    parts = ", ".join(f"{name} {value}" for name, value in _find_troubles(ready))
    return Finding(
        "warn",
        f"Server is {status}{f': {parts}' if parts else ''}.",
        "Instructions are still delivered and acknowledged; reminders may be late.",
    )


def _find_troubles(ready: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    checks = ready.get("checks")
    for name, value in checks.items() if isinstance(checks, dict) else ():
        status = value.get("status") if isinstance(value, dict) else value
        if status not in {"ok", True}:
            yield name, status


def _describe_token(me: Me) -> Finding:
    agent = f" {me.agent}" if me.agent else ""
    scopes = ", ".join(me.scopes) or "none"
    project = me.project.get("name", "?")
    return Finding(
        "ok", f"Token of {me.kind}{agent} in project {project}, with the scopes {scopes}"
    )


def _check_expiry(me: Me, here: datetime) -> Finding:
    expires_at = me.token.get("expires_at")
    if not expires_at:
        return Finding("ok", "Token does not expire")
    left = (instant(expires_at) or here) - here
    text = f"Token expires on {expires_at[:10]}"
    if left > SOON:
        return Finding("ok", text)
    return Finding("warn", f"{text}, in {left.days} days.", "Create a new one in time.")


def _check_clock(me: Me, here: datetime) -> Finding:
    if me.server_time is None:
        return Finding("warn", "The server does not report its time.")
    ahead = (here - me.server_time).total_seconds()
    if abs(ahead) <= SKEW.total_seconds():
        return Finding("ok", f"Clocks agree within {SKEW.seconds} s")
    way = "ahead of" if ahead > 0 else "behind"
    return Finding(
        "warn",
        f"This clock is {abs(ahead):.0f} s {way} the server's.",
        "Synchronize it with a time server.",
    )


def _check_versions(me: Me) -> Finding:
    if _release_of(me.version) == _release_of(__version__):
        return Finding("ok", f"Versions: server {me.version}, client {__version__}")
    return Finding(
        "warn",
        f"Versions differ: server {me.version or 'unknown'}, client {__version__}.",
        "Install the client that came with the server: pip install ./client",
    )


def _release_of(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
