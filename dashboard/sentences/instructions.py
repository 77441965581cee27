"""Describe the history of an instruction in sentences (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.wording.badges import urgency_badge
from dashboard.wording.formatting import counted, duration
from ledger.journal import Kind
from ledger.models import Event, Instruction
from ledger.states import PREFIXES, Urgency, Way, prefixed, urgency_of


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the history, with the urgency at its end."""

    text: str
    icon: str
    tone: str = ""
    loud: str = ""
    at: datetime | None = None
    note: str = ""
    countdown: int | None = None

    @property
    def css(self) -> str:
        return f"is-{self.tone}" if self.tone else ""


@dataclass(frozen=True, slots=True)
class Received:
    """The text of the last delivery, byte for byte, or of the next one."""

    prefix: str
    content: str
    before: bool  # set before the first delivery
    way: str = ""


def describe_steps(events: Iterable[Event], *, agent: str) -> list[Step]:
    return [step for event in events if (step := describe_step(event, agent))]


def describe_step(event: Event, agent: str) -> Step | None:
    data: dict[str, Any] = event.data
    retries = int(data.get("retry_count") or 0)
    who = event.actor_name or event.actor_type
    at = event.at
    match event.kind:
        case Kind.INSTRUCTION_QUEUED if data.get("rule"):
            return Step(f"Sent by a rule{describe_trigger(data)}", "s-queued", at=at)
        case Kind.INSTRUCTION_QUEUED:
            return Step(f"Sent by {who}", "s-queued", at=at)
        case Kind.INSTRUCTION_HELD:
            return Step(f"Held the stop of {agent}", "hold", "amber", str(data.get("holds")), at)
        case Kind.INSTRUCTION_DELIVERED:
            again = " again" if retries else ""
            text = f"Delivered to {agent}{again}{describe_way(data.get('via'), data.get('call'))}"
            text += ", as" if retries else ""
            return Step(text, "s-delivered", "blue", urgency_word(retries), at)
        case Kind.INSTRUCTION_READ:
            return Step(f"Read by {agent}{describe_call(data)}", "eye", "blue", at=at)
        case Kind.INSTRUCTION_REQUEUED:
            text = "Not acknowledged, queue idle. Queued again as"
            if event.actor_type == "user":
                text = f"Queued again by {who}, as"
            return Step(text, urgency_badge(retries).icon, "amber", urgency_word(retries), at)
        case Kind.INSTRUCTION_ACKNOWLEDGED:
            text = f"Acknowledged by {describe_acknowledger(data, who)}{describe_call(data)}"
            return Step(text, "s-acked", "green", at=at)
        case Kind.INSTRUCTION_DECLINED:
            return Step(f"Declined by {who}", "s-acked", "amber", at=at)
        case Kind.INSTRUCTION_ACKNOWLEDGED_LATE:
            return Step(f"Acknowledged too late by {who}, which changes nothing", "s-acked", at=at)
        case Kind.INSTRUCTION_FAILED if data.get("holds"):
            holds = counted(int(data["holds"]), "hold")
            return Step(f"Ignored. Let go after {holds}", "s-failed", "red", at=at)
        case Kind.INSTRUCTION_FAILED:
            tries = counted(retries, "retry", "retries")
            text = f"Not acknowledged after {tries}. Tenfour gave up"
            return Step(text, "s-failed", "red", at=at)
        case Kind.INSTRUCTION_CANCELLED:
            return Step(f"Cancelled by {who}", "s-aborted", at=at)
    return Step(event.kind, "info", at=at)


def describe_way(via: str | None, call: int | None) -> str:
    """Return by which way an instruction came; empty for a pull, the plain way.

    >>> describe_way("tool_call", 14), describe_way("stop", 14), describe_way("pull", None)
    (' with tool call 14', ' when it wanted to stop', '')
    """
    if via == Way.TOOL_CALL and call:
        return f" with tool call {call}"
    return f" {Way(via).label}" if via and via in Way and via != Way.PULL else ""


def describe_call(data: dict[str, Any]) -> str:
    return f", tool call {data['call']}" if data.get("call") else ""


def describe_trigger(data: dict[str, Any]) -> str:
    trigger = data.get("trigger")
    return f": {describe_cause(trigger)}" if isinstance(trigger, dict) else ""


def describe_cause(trigger: dict[str, Any]) -> str:
    """Return what triggered a rule.

    >>> describe_cause({"event": "signal", "type": "fs_write", "path": "src/a.py", "tool": "Edit"})
    'wrote src/a.py, with Edit'
    """
    tool = f", with {trigger['tool']}" if trigger.get("tool") else ""
    type = str(trigger.get("type") or "")
    match trigger.get("event"):
        case "task_claimed":
            name = trigger.get("ref") or trigger.get("title") or "a task"
            return f"started {name}, attempt {trigger.get('attempt')}"
        case "every":
            return f"every {duration(float(trigger.get('interval_s') or 0))}"
        case _ if type == "fs_write" and trigger.get("path"):
            return f"wrote {trigger['path']}{tool}"
        case _ if type == "fs_command" and (line := trigger.get("line") or trigger.get("command")):
            return f"ran {line}"
        case _ if type == "session_start":
            return "started a session"
    return f"reported {type}"


def describe_acknowledger(data: dict[str, Any], who: str) -> str:
    """Return who acknowledged, with the type of a signal or the outcome of an ack."""
    if data.get("signal"):
        return f"{who}’s signal {data.get('type', '')}".rstrip()
    outcome = data.get("outcome")
    return f"{who}: {outcome}" if outcome and outcome != "done" else who


def urgency_word(retry_count: int) -> str:
    # The first delivery has no urgency.
    level = urgency_of(retry_count)
    if level == Urgency.FIRST:
        return ""
    return "a plain reminder" if level == Urgency.AGAIN else urgency_badge(retry_count).label


def describe_received(row: Instruction) -> Received:
    # The prefix is derived, because it is never stored.
    level = urgency_of(max(row.deliveries - 1, 0))
    prefix = PREFIXES.get(level, "")
    whole = prefixed(row.content, max(row.deliveries - 1, 0))
    way = describe_way(row.delivered_via, row.delivered_call)
    return Received(prefix.strip(), whole[len(prefix) :], before=row.deliveries == 0, way=way)
