"""Requests for leave at the agent's next call, answered in the form that its program reads.

Without a decision the answer is empty, and the agent's own program decides.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import BoundedSemaphore
from uuid import UUID

from ledger.api.auth import actor
from ledger.database import server_time
from ledger.errors import NotFound
from ledger.journal import Stamp
from ledger.models import Attempt
from retries.agent_hooks.answers import Answer, allow_asked, answer_form, deny_asked
from retries.agent_hooks.events import HookEvent
from retries.agent_hooks.sessions import HookCaller
from retries.models import PermissionRequest
from retries.permissions import requests
from retries.permissions.calls import ToolCall
from retries.permissions.forms import ELICITATION, can_be_shown
from retries.schemas.permissions import answer_out
from retries.states import PermissionState, WhenSilent

# Claude Code's own HTTP hook holds a thread of the server while it waits, so few may.
HTTP_WAIT = timedelta(seconds=25)
PLACES = BoundedSemaphore(2)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Fields that `tenfour hook` adds to a request: its wait, and its id after the first call."""

    wait_s: int = 0
    when_silent: WhenSilent = WhenSilent.REFUSES
    said: str = ""
    id: UUID | None = None


def ask(
    caller: HookCaller,
    event: HookEvent,
    waiting: Waiting | None,
    *,
    folder: str,
    attempt_id: UUID | None,
    now: datetime,
) -> Answer:
    """Return the decision about a call, or what the agent's side needs to ask again."""
    # Without `tenfour hook`, this waits for a person for a short time, if there is room for it.
    among = PermissionRequest.objects.filter(agent=caller.agent_id)
    if waiting and waiting.id:
        try:
            found = requests.poll(waiting.id, among=among, now=now)
        except NotFound:
            return {}
        return decision_of(found) or hold(found)
    call = ToolCall(event.tool, event.input, folder)
    if not can_be_shown(call):
        return {}
    wait = timedelta(seconds=waiting.wait_s) if waiting else HTTP_WAIT
    task = Attempt.objects.filter(pk=attempt_id, agent=caller.agent_id) if attempt_id else None
    asked = requests.Asked(
        agent_id=caller.agent_id,
        project_id=caller.principal.project_id,
        call=call,
        wait=wait,
        when_silent=waiting.when_silent if waiting else WhenSilent.PROGRAM_DECIDES,
        session=event.session,
        call_id=event.call,
        said=waiting.said if waiting else "",
        asked_by=event.program,
        is_elsewhere=bool(event.cwd) and event.cwd != folder,
        task_id=task.values_list("task_id", flat=True).first() if task else None,
    )
    stamp = Stamp(actor(caller.principal), now, caller.bearer.request_id)
    found = requests.ask(asked, stamp=stamp)
    if waiting:
        return decision_of(found) or hold(found)
    return decision_of(found) or wait_here(found, stamp=stamp)


def hold(request: PermissionRequest) -> Answer:
    """Return what `tenfour hook` needs to ask again; empty once the request has ended."""
    if request.state != PermissionState.WAITING:
        return {}
    return {
        "tenfour": {
            "permission": str(request.pk),
            "poll_after_s": requests.POLL_EVERY_S,
            "expires_at": request.expires_at.isoformat(),
        }
    }


def wait_here(request: PermissionRequest, *, stamp: Stamp) -> Answer:
    """Wait for a person's decision in this thread; ask no one if too many wait already."""
    among = PermissionRequest.objects.filter(pk=request.pk)
    if not PLACES.acquire(blocking=False):
        requests.end(request.pk, PermissionState.WITHDRAWN, among=among, stamp=stamp)
        return {}
    try:
        while request.state == PermissionState.WAITING and server_time.now() < request.expires_at:
            time.sleep(requests.POLL_EVERY_S)
            request = requests.poll(request.pk, among=among, now=server_time.now())
        return decision_of(request)
    finally:
        PLACES.release()


def decision_of(request: PermissionRequest) -> Answer:
    answer = answer_out(request, revealed=True)
    if answer is None:
        return {}
    if request.tool == ELICITATION:
        content = (answer["input"] or {}).get("answers", {})
        return answer_form(content if answer["allow"] else None)
    if answer["allow"]:
        return allow_asked(answer["input"])
    return deny_asked(answer["message"] or f"{answer['by']} denied this call.")


def note_ran(caller: HookCaller, event: HookEvent, now: datetime) -> None:
    # The call has run, so a person at the terminal allowed it.
    stamp = Stamp(actor(caller.principal), now, caller.bearer.request_id)
    call = ToolCall(event.tool, event.input, event.cwd)
    requests.note_ran(caller.agent_id, event.session, call, stamp=stamp)


def end_session(caller: HookCaller, event: HookEvent, now: datetime) -> None:
    # The session has a new prompt or has ended, so it needs no answer any more.
    stamp = Stamp(actor(caller.principal), now, caller.bearer.request_id)
    requests.end_session(caller.agent_id, event.session, stamp=stamp)
