"""The evidence beside a permission request: the call, its marks, and what its agent asked."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q

from dashboard.escalations.calls.call import ShownCall, show_call
from dashboard.escalations.queries import list_comments
from dashboard.wording.badges import tool_icon
from ledger.models import Event, Session
from ledger.values.ids import first_id
from retries.models import Escalation, PermissionRequest
from retries.permissions.rules import call_of
from retries.states import PermissionState, WhenSilent

DAY = timedelta(days=1)
# what happens once the time is over, and what happened then
SILENCE = {
    WhenSilent.TERMINAL_WAITS: (
        "the terminal alone decides",
        "The terminal has asked all the time; Tenfour does not know its answer.",
    ),
    WhenSilent.TERMINAL_ASKS: ("the terminal asks instead", "The terminal asked instead."),
    WhenSilent.PROGRAM_DECIDES: (
        "its terminal decides, or without one its program refuses the call",
        "Its terminal decided, or its program refused the call.",
    ),
    WhenSilent.REFUSES: (
        "the agent’s program refuses the call",
        "The agent’s program refused the call.",
    ),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about the call that a careful person looks for."""

    text: str
    icon: str
    css: str


@dataclass(frozen=True, slots=True)
class AgentCounts:
    """The number of an agent's calls in the last day, by answer."""

    asked: int
    allowed: int
    by_rule: int
    denied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The time left, of which `percent` remains, or the request's end."""

    is_waiting: bool
    seconds: int
    percent: int
    then: str  # what happens without an answer
    head: str  # the heading of a request that has ended
    text: str
    icon: str
    css: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEvidence:
    request: PermissionRequest
    call: ShownCall
    icon: str
    marks: list[Mark]
    ending: Ending
    counts: AgentCounts
    session: Session | None
    comments: list[Event]

    @property
    def is_red(self) -> bool:
        return any(mark.css == "is-red" for mark in self.marks)


def collect_call(escalation: Escalation, *, now: datetime) -> CallEvidence:
    request = escalation.permission
    assert request is not None
    return CallEvidence(
        request=request,
        call=show_call(call_of(request), request.marks, request.title),
        icon=tool_icon(request.tool),
        marks=list_marks(request),
        ending=describe_ending(escalation, request, now=now),
        counts=count_asked(request, now=now),
        session=find_session(request),
        comments=list_comments(escalation.pk),
    )


def list_marks(request: PermissionRequest) -> list[Mark]:
    # Red marks come first, and each sentence appears once.
    marks = sorted(request.marks, key=lambda each: not each.get("is_red"))
    first = {str(each["text"]): each for each in reversed(marks)}
    return [describe_mark(each) for each in sorted(first.values(), key=marks.index)]


def describe_mark(mark: dict[str, Any]) -> Mark:
    if mark.get("is_red"):
        return Mark(str(mark["text"]), "u-3", "is-red")
    return Mark(str(mark["text"]), "u-2", "is-amber")


def find_session(request: PermissionRequest) -> Session | None:
    """Return the stored session with the agent's own session id, or None."""
    if not request.session:
        return None
    rows = Session.objects.filter(agent=request.agent_id, external_id=request.session)
    return rows.only("id", "title").first()


def count_asked(request: PermissionRequest, *, now: datetime) -> AgentCounts:
    rows = PermissionRequest.objects.filter(
        project=request.project_id, agent=request.agent_id, id__gte=first_id(now - DAY)
    )
    allowed = Q(state=PermissionState.ALLOWED)
    found = rows.aggregate(
        asked=Count("pk"),
        allowed=Count("pk", filter=allowed),
        by_rule=Count("pk", filter=allowed & ~Q(rule_ids=[])),
        denied=Count("pk", filter=Q(state=PermissionState.DENIED)),
    )
    return AgentCounts(**found)


# ---- how much time is left, or how it ended


def describe_ending(escalation: Escalation, request: PermissionRequest, *, now: datetime) -> Ending:
    then, over = SILENCE[WhenSilent(request.when_silent)]
    whole = (request.expires_at - request.asked_at).total_seconds()
    left = max(0.0, (request.expires_at - now).total_seconds())
    head, text, icon, css = describe_end(escalation, request, over)
    return Ending(
        is_waiting=request.state == PermissionState.WAITING and left > 0,
        seconds=round(left),
        percent=round(100 * left / whole) if whole else 0,
        then=then,
        head=head,
        text=text,
        icon=icon,
        css=css,
        at=request.closed_at,
    )


def describe_end(
    escalation: Escalation, request: PermissionRequest, over: str
) -> tuple[str, str, str, str]:
    agent, who = escalation.agent.name, escalation.answered_by_name
    match request.state:
        case PermissionState.ALLOWED | PermissionState.DENIED:
            is_allowed = request.state == PermissionState.ALLOWED
            head = f"{who} {'allowed this call once' if is_allowed else 'denied this call'}"
            text = (
                f"{agent} has the answer."
                if request.taken_at
                else f"{agent} has not taken the answer yet. Until then it can be undone."
            )
            css = "green" if is_allowed else "red"
            return head, text, "check" if is_allowed else "x", css
        case PermissionState.ANSWERED_THERE:
            text = "A person at the agent’s terminal was first. Nothing is left to do here."
            return "Answered at the terminal", text, "f-exec", ""
        case PermissionState.WITHDRAWN:
            text = (
                "It went on without this call, was ended, or no longer asks. Nothing was allowed."
            )
            return f"{agent} no longer asks", text, "s-aborted", ""
    return "The time ran out", f"No answer came, so nothing was allowed here. {over}", "clock", ""
