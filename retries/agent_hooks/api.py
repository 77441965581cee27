"""Hooks of coding agents over HTTP: Claude Code calls this itself, `tenfour hook` for both."""

from typing import Any, Literal, cast
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from ninja import Body, Router, Schema
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from ledger.access import first_calls
from ledger.api.auth import BearerAuth, PrincipalAuth, PrincipalRequest
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.schemas.shapes import ID
from ledger.schemas.shared import In
from ledger.sessions.limit_records import MOST_RECORDS, note_records
from ledger.tokens import Bearer, ScopeMissing
from retries.agent_hooks.events import read_event
from retries.agent_hooks.permissions import Waiting
from retries.agent_hooks.reactions import Happening, LocalSide, react
from retries.agent_hooks.sessions import HookCaller
from retries.schemas.attempts import TreeIn, UsageIn, VerificationIn
from retries.states import WhenSilent

router = Router(tags=["hooks"])

SCOPE = "signals:write"
# An agent's program sends whole files and outputs; fields that the rules do not read are dropped.
MOST_HOOK_BYTES = 4 * 1024 * 1024


class WaitingIn(In):
    """Fields that `tenfour hook` adds to a permission request."""

    wait_s: StrictInt = Field(0, ge=0, le=86_400, description="how many seconds the agent waits")
    when_silent: Literal["terminal_waits", "terminal_asks", "refuses"] = Field(
        "refuses", description="what happens to the call if no answer comes"
    )
    said: str = Field("", max_length=100_000, description="what the agent said last")
    id: UUID | None = Field(None, description="the request, to ask for its answer again")


class LocalSideIn(In):
    """Fields that the command `tenfour hook` adds to an event of the agent's program."""

    task: str = Field("", max_length=256, description="the session's task, by id or ref")
    managed: StrictBool = Field(
        False, description="true inside 'tenfour run', which claims, verifies and reports"
    )
    folder: str = Field("", max_length=1024, description="the folder that paths are relative to")
    verification: VerificationIn | None = Field(
        None, description="the result of the check that an earlier response asked for"
    )
    late: StrictBool = Field(False, description="true if the agent does not wait for the response")
    age_s: StrictInt = Field(0, ge=0, le=10**9, description="seconds since a late event happened")
    attempt: UUID | None = Field(None, description="the attempt that a late event is about")
    usage: UsageIn | None = Field(
        None,
        description="with Stop, and with PostToolUse once a minute, the attempt's tokens as the "
        "agent's transcript tells them",
    )
    permission: WaitingIn | None = Field(
        None, description="with PermissionRequest, how the agent waits for the answer"
    )
    tree: TreeIn | None = Field(
        None, description="the files at the time of the event, if they were read"
    )
    limits: list[dict[str, Any]] = Field(
        [],
        max_length=MOST_RECORDS,
        description="with Stop, StopFailure and SessionEnd, the last records of the agent's "
        "program that tell its account's limits, reduced to what tells them; also what Claude Code "
        "gives its status line",
    )
    exit_code: StrictInt | None = Field(
        None,
        ge=-(2**31),
        le=2**31 - 1,
        description="the exit code of the shell call, as the records of the agent's program tell "
        "it; Codex does not send it to its hooks",
    )


class HookIn(BaseModel):
    """An event as the agent's program sends it; unknown fields and events are ignored."""

    hook_event_name: str = Field("", description="such as UserPromptSubmit, PostToolUse or Stop")
    tenfour: LocalSideIn | None = Field(
        None, description="sent by 'tenfour hook'; leave it out otherwise"
    )

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "hook_event_name": "PostToolUse",
                "session_id": ID,
                "cwd": "/srv/app",
                "tool_name": "Bash",
                "tool_input": {"command": "make test"},
            }
        },
    )


class HookOut(Schema):
    decision: str | None = Field(None, description="block: the agent must not stop")
    reason: str | None = Field(None, description="what the agent reads if it is blocked")
    systemMessage: str | None = Field(None, description="what the person at the agent reads")
    continue_: bool | None = Field(
        None, alias="continue", description="false: the agent's turn ends at once"
    )
    stopReason: str | None = Field(None, description="why the turn ends, for the person")
    hookSpecificOutput: dict[str, Any] | None = Field(
        None, description="with additionalContext, a text for the agent"
    )
    tenfour: dict[str, Any] | None = Field(
        None, description="for 'tenfour hook': the attempt, and the check to run"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "hookSpecificOutput": {
                    "hookEventName": "UserPromptSubmit",
                    "additionalContext": "Run the tests before you commit.",
                }
            }
        }
    )


@router.post(
    "/hooks/agent",
    auth=PrincipalAuth(SCOPE, body_bytes=MOST_HOOK_BYTES),
    response=HookOut,
    exclude_none=True,
)
def hooks_agent(request: PrincipalRequest, body: Body[HookIn]) -> HttpResponse:
    """Receive an event of a coding agent's session and answer what its hook returns.

    Delivers instructions, reports what the agent did as signals, gives the session a task, and
    reports the attempt when the agent stops. An empty object means that there is nothing to do.
    """
    agent_id = request.auth.agent_id
    if agent_id is None:
        raise ScopeMissing("This call acts on an agent's own queue and needs an agent's token.")
    # ninja has authenticated the request; this reads the token again, as the statements need it.
    bearer = cast(Bearer, BearerAuth(SCOPE, body_bytes=MOST_HOOK_BYTES)(request))
    recorded = body.tenfour.exit_code if body.tenfour else None
    event = read_event(body.model_dump(), recorded=recorded)
    first_calls.note_first_hook(request.auth.token_id, event.name, request.META)
    caller = HookCaller(request.auth, agent_id, bearer, event.session, settings.LINK_URL)
    local, now = local_side(body.tenfour) if body.tenfour else None, server_time.now()
    # A report that the event makes finds the wait that they name.
    note_records(agent_id, body.tenfour.limits if body.tenfour else [], caller=bearer, now=now)
    answer = react(Happening(event, local, caller, now))
    if local is None:
        # The agent's program refuses fields that it does not know.
        answer.pop("tenfour", None)
    return json_response(answer)


def local_side(given: LocalSideIn) -> LocalSide:
    return LocalSide(
        task=given.task,
        is_managed=given.managed,
        folder=given.folder,
        verification=given.verification.model_dump() if given.verification else None,
        is_late=given.late,
        age_s=given.age_s,
        attempt=given.attempt,
        usage=given.usage.model_dump() if given.usage else None,
        waiting=read_waiting(given.permission) if given.permission else None,
        tree=given.tree.model_dump() if given.tree else None,
    )


def read_waiting(given: WaitingIn) -> Waiting:
    return Waiting(given.wait_s, WhenSilent(given.when_silent), given.said, given.id)
