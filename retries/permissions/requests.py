"""Ask for leave to make a tool call, take the answer, and end a request that needs none.

No answer means neither yes nor no: a request without one ends, and the agent's own program decides.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Case, F, QuerySet, Value, When
from django.db.models.functions import Coalesce

from ledger.database import rows, sql
from ledger.errors import Invalid, NotFound
from ledger.journal import Stamp
from ledger.secrets.notes import clean_message, clean_title
from ledger.secrets.redaction import redacted, stripped
from retries.claiming.session_names import LAST_ATTEMPT, name_session, name_worker
from retries.escalations import lifecycle, permission_effects
from retries.escalations.lifecycle import Question
from retries.models import Escalation, PermissionRequest, PermissionRequestQuerySet
from retries.permissions import matchers, rules
from retries.permissions.calls import ToolCall
from retries.permissions.forms import ASKING_TOOLS, build_schema, can_be_shown, describe_questions
from retries.permissions.marks import find_marks
from retries.states import EscalationState, OnExpiry, PermissionState, WhenSilent

LONGEST_WAIT = timedelta(hours=24)
INPUT_BYTES = 65_536  # stored; the rules read the whole input
TEXT_LENGTH = 20_000  # of one text of the input, as it is stored
SAID_LENGTH = 4_000
PATCH_MARK = "*** "
# the agent asks for the answer at least this often
POLL_EVERY_S = 1
# an agent that has not polled for this long has ended
SILENT_AFTER = timedelta(seconds=60)
# This runs after every tool call, so it is one prepared statement.
ASKS = f"""select id from retries_permissionrequest
where agent_id = %(agent)s and state = '{PermissionState.WAITING}' limit 1"""
# the request that asks about a call already, and the task that the session works on
KNOWN = f"""select
    (select id from retries_permissionrequest
        where agent_id = %(agent)s and call_digest = %(digest)s
            and state = '{PermissionState.WAITING}' and expires_at > %(now)s) as waiting,
    (select task_id from ({LAST_ATTEMPT}) last where outcome is null) as task"""
DECIDED = (PermissionState.ALLOWED, PermissionState.DENIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question about a tool call by an agent of a project; it waits `wait` for an answer.

    `call_id` tells calls of a session apart, if the agent's program names them. `is_elsewhere` says
    that the agent has left the call's folder, to which the words of rules are relative.
    """

    agent_id: UUID
    project_id: UUID
    call: ToolCall
    wait: timedelta
    when_silent: WhenSilent
    session: str = ""
    call_id: str = ""
    said: str = ""
    asked_by: str = ""
    is_elsewhere: bool = False
    task_id: UUID | None = None

    @property
    def digest(self) -> str:
        # The same call of the same session has the same digest: asked twice is one request.
        parts = [self.session, self.call_id, self.call.tool, self.call.folder, self.call.input]
        return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def ask(asked: Asked, *, stamp: Stamp) -> PermissionRequest:
    """Return the request, decided by the project's rules or waiting for a person.

    Raises Invalid.
    """
    # A call that has a request already does not get another one.
    if not timedelta() < asked.wait <= LONGEST_WAIT:
        raise Invalid("/wait_s", "Set wait_s to at least 1 second and at most 24 hours.")
    if not asked.call.tool.strip():
        raise Invalid("/tool", "Name the tool that the agent wants to call.")
    if not can_be_shown(asked.call):
        raise Invalid("/input/requested_schema", "No page can show this form.")
    known = read_known(asked, now=stamp.at)
    if known["waiting"] is None:
        try:
            with transaction.atomic():
                return create(asked, task_id=asked.task_id or known["task"], stamp=stamp)
        except IntegrityError:
            known = read_known(asked, now=stamp.at)
            if known["waiting"] is None:
                raise
            # another call of the same hook was first
    return PermissionRequest.objects.get(pk=known["waiting"])


def read_known(asked: Asked, *, now: datetime) -> sql.Row:
    (known,) = sql.run(
        KNOWN, agent=asked.agent_id, digest=asked.digest, worker=name_worker(asked.session), now=now
    )
    return known


def create(asked: Asked, *, task_id: UUID | None, stamp: Stamp) -> PermissionRequest:
    ruling = rules.decide(
        asked.call,
        project_id=asked.project_id,
        agent_id=asked.agent_id,
        is_elsewhere=asked.is_elsewhere,
        now=stamp.at,
    )
    state = ruling.state if ruling else PermissionState.WAITING
    request = rows.create(
        PermissionRequest,
        project_id=asked.project_id,
        agent_id=asked.agent_id,
        task_id=task_id,
        session=name_session(asked.session),
        call_digest=asked.digest,
        asked_by=clean_title(asked.asked_by)[:32],
        tool=clean_title(asked.call.tool)[:128],
        input=shorten_input(asked.call.input),
        title=clean_title(asked.call.title),
        folder=clean_title(asked.call.folder),
        said=clean_message(asked.said[-SAID_LENGTH:], limit_bytes=4 * SAID_LENGTH),
        marks=list_marks(asked.call),
        proposed=propose(asked.call),
        when_silent=asked.when_silent,
        state=state,
        rule_ids=[rule.pk for rule in ruling.rules] if ruling else [],
        message=ruling.message if ruling else "",
        asked_at=stamp.at,
        expires_at=stamp.at + asked.wait,
        polled_at=stamp.at,
        taken_at=stamp.at if ruling else None,
        closed_at=stamp.at if ruling else None,
    )
    if ruling:
        rules.record_use(ruling.rules, request, stamp=stamp)
    else:
        lifecycle.open_for_permission(request, question_of(request, asked.call), stamp=stamp)
    return request


def propose(call: ToolCall) -> str | None:
    """Return the matcher that would allow this call; None if none may, or it holds a secret."""
    matcher = None if call.tool in ASKING_TOOLS else matchers.propose(call)
    return matcher if redacted(matcher) == matcher else None


def question_of(request: PermissionRequest, call: ToolCall) -> Question:
    return Question(
        text=describe_questions(call) or request.title,
        choices=[],
        response_schema=build_schema(call),
        severity="high" if any(mark["is_red"] for mark in request.marks) else "normal",
        expires_at=request.expires_at,
        on_expiry=OnExpiry.TERMINAL,
    )


def list_marks(call: ToolCall) -> list[dict[str, Any]]:
    # The places of the marks are positions in the input as it is stored.
    stored = ToolCall(call.tool, shorten_input(call.input), call.folder)
    found = find_marks(call)
    if stored.command != call.command:
        shown = find_marks(stored)
        known = {(each.kind, each.text) for each in shown}
        hidden = [each for each in found if (each.kind, each.text) not in known]
        found = [*shown, *(replace(each, span=None) for each in hidden)]
    return [describe_mark(each) for each in found]


def describe_mark(mark: Any) -> dict[str, Any]:
    return {
        "kind": mark.kind,
        "text": mark.text,
        "span": list(mark.span) if mark.span else None,
        "is_red": mark.is_red,
    }


def shorten_input(value: Any) -> Any:
    masked = shorten(redacted(value), TEXT_LENGTH)
    size = len(json.dumps(masked, default=str))
    return masked if size <= INPUT_BYTES else shorten(masked, 500)


def shorten(value: Any, length: int) -> Any:
    match value:
        case dict():
            return {str(name)[:200]: shorten(each, length) for name, each in [*value.items()][:100]}
        case list() | tuple():
            return [shorten(each, length) for each in value[:100]]
        case str() if len(value) > length:
            return f"{value[:length]}… {len(value) - length} more characters"
        case str():
            return stripped(value)
    return value


# ---- the answer


def poll(request_id: UUID, *, among: PermissionRequestQuerySet, now: datetime) -> PermissionRequest:
    """Return the request as its agent sees it; raises NotFound."""
    # An answer counts as taken from now on.
    found = among.filter(pk=request_id)
    taken = When(state__in=DECIDED, then=Coalesce(F("taken_at"), Value(now)))
    if not found.update(polled_at=now, taken_at=Case(taken, default=F("taken_at"))):
        raise NotFound(f"There is no permission request {request_id} here.")
    return found.select_related("agent").get()


def find_answer(request: PermissionRequest) -> Escalation | None:
    """Return the escalation with a person's answer; None if a rule decided, or nothing."""
    asked = request.escalation_set.all() if request.state in DECIDED else ()
    return next((each for each in asked if each.state == EscalationState.RESOLVED), None)


# ---- an end without an answer


@transaction.atomic
def end(
    request_id: UUID, to: PermissionState, *, among: PermissionRequestQuerySet, stamp: Stamp
) -> PermissionRequest:
    """End a waiting request, and leave an ended one as it is; raises NotFound."""
    # A person at the terminal answered, or the agent no longer asks.
    if not among.filter(pk=request_id).exists():
        raise NotFound(f"There is no permission request {request_id} here.")
    open_ones = Escalation.objects.open().filter(permission=request_id)
    if escalation := open_ones.select_for_update().first():
        permission_effects.end(escalation, to, stamp=stamp)
        lifecycle.close(
            escalation, EscalationState.WITHDRAWN, stamp=stamp, data={"permission_state": str(to)}
        )
    return among.select_related("agent").get(pk=request_id)


def end_session(agent_id: UUID, session: str, *, stamp: Stamp) -> None:
    # The session continues or has ended.
    for id in waiting_in(agent_id, session).values_list("pk", flat=True):
        end(id, PermissionState.WITHDRAWN, among=PermissionRequest.objects.all(), stamp=stamp)


def waiting_in(agent_id: UUID, session: str) -> "QuerySet[PermissionRequest]":
    return PermissionRequest.objects.waiting().filter(agent=agent_id, session=name_session(session))


def withdraw_silent(*, now: datetime, of: UUID | None) -> int:
    """Withdraw the requests that no agent asks for any more; return how many."""
    silent = PermissionRequest.objects.waiting().filter(polled_at__lt=now - SILENT_AFTER)
    ids = list((silent.filter(project=of) if of else silent).values_list("pk", flat=True)[:500])
    for id in ids:
        end(
            id,
            PermissionState.WITHDRAWN,
            among=PermissionRequest.objects.all(),
            stamp=Stamp(rules.CLOCK, now),
        )
    return len(ids)


def note_ran(agent_id: UUID, session: str, call: ToolCall, *, stamp: Stamp) -> None:
    # The call has run, so a person at the terminal allowed it. Other requests wait on: a program
    # may make several calls at a time.
    if not sql.run(ASKS, agent=agent_id):
        return
    for request in waiting_in(agent_id, session).filter(tool=call.tool):
        if is_same(request.input, shorten_input(call.input)):
            end(
                request.pk,
                PermissionState.ANSWERED_THERE,
                among=PermissionRequest.objects.all(),
                stamp=stamp,
            )


def is_same(asked: Any, ran: Any) -> bool:
    # Of a call that has run, `tenfour hook` sends only its command and its paths, and of a patch
    # only the lines that name files.
    if not isinstance(asked, dict) or not isinstance(ran, dict):
        return False
    return all(is_same_text(asked.get(name), value) for name, value in ran.items())


def is_same_text(asked: Any, ran: Any) -> bool:
    if isinstance(asked, str) and isinstance(ran, str) and ran.startswith(PATCH_MARK):
        lines = (line for line in asked.splitlines() if line.startswith(PATCH_MARK))
        return asked == ran or "\n".join(lines) == ran
    return bool(asked == ran)
