"""Ask for permission in tests, as an agent's hook does."""

from datetime import datetime, timedelta
from typing import Any

from ledger.journal import Actor, Stamp
from ledger.models import Agent
from retries.models import Escalation, PermissionRequest, PermissionRule
from retries.permissions import requests, rules
from retries.permissions.calls import ToolCall
from retries.states import WhenSilent
from tests.factories import NOW

CODER = Actor("token", "1", "coder")
FOLDER = "/srv/web-shop"


def bash(line: str) -> ToolCall:
    return ToolCall("Bash", {"command": line}, FOLDER)


def ask(
    agent: Agent,
    call: ToolCall | str = "npm test",
    *,
    now: datetime = NOW,
    wait: timedelta = timedelta(minutes=9),
    when_silent: WhenSilent = WhenSilent.TERMINAL_ASKS,
    session: str = "s-1",
    **more: Any,
) -> PermissionRequest:
    asked = requests.Asked(
        agent_id=agent.pk,
        project_id=agent.project_id,
        call=bash(call) if isinstance(call, str) else call,
        wait=wait,
        when_silent=when_silent,
        session=session,
        **more,
    )
    return requests.ask(asked, stamp=Stamp(CODER, now))


def escalation_of(request: PermissionRequest) -> Escalation:
    return Escalation.objects.select_related("agent", "permission").get(permission=request)


def make_rule(
    agent: Agent,
    matcher: str,
    *,
    tool: str = "Bash",
    allows: bool = True,
    for_all: bool = True,
    now: datetime = NOW,
    message: str = "",
) -> PermissionRule:
    return rules.create_rule(
        project_id=agent.project_id,
        agent=None if for_all else agent,
        tool=tool,
        matcher=matcher,
        allows=allows,
        message=message,
        stamp=Stamp(Actor("user", "1", "mara"), now),
    )
