"""Describe the journal of sessions in sentences (pure), for feeds and the log."""

from dashboard.sentences.event_sentence import EventSentence, EventSubject
from dashboard.wording.formatting import counted
from ledger.journal import Kind
from ledger.models import Event
from ledger.values.text import truncate

REASON = 90
# the state of a task in a session -> what happened to it, tone
STATES = {
    "pending": ("reopened", ""),
    "running": ("started", "blue"),
    "success": ("finished", "green"),
    "failed": ("gave up", "red"),
}


def describe_session_event(event: Event, about: EventSubject) -> EventSentence:
    who, agent, data = event.actor_name or event.actor_type, about.agent, event.data
    of = f" of {agent}" if agent else ""
    count = counted(int(data.get("messages") or 0), "message")
    match event.kind:
        case Kind.SESSION_CREATED:
            note = f" · session{of} began"
            return EventSentence("plus", who, "began a session", "", about.quote, of, note)
        case Kind.SESSION_PROCESSED:
            does = f"processed {count} of"
            tail = f": {counted(int(data.get('calls') or 0), 'tool call')}"
            note = f" · {count} processed{tail}"
            return EventSentence("check", "Tenfour", does, "", about.quote, tail, note)
        case Kind.SESSION_FAILED:
            does, tail = f"could not process {count} of", f": {shortened(data.get('reason'))}"
            note = f" · {count} not processed{tail}"
            return EventSentence("s-failed", "Tenfour", does, "red", about.quote, tail, note)
        case Kind.SESSION_RETRIED:
            failed = counted(int(data.get("messages") or 0), "failed message")
            does = f"returned {failed} to the buffer of"
            return EventSentence("s-retry", who, does, "blue", about.quote, of, f" · {does} it")
        case Kind.SESSION_TASK_CREATED:
            quote, note = shortened(data.get("description")), " · noted in a session"
            return EventSentence("plus", agent or who, "noted", "", quote, " in a session", note)
        case Kind.SESSION_TASK_UPDATED:
            return describe_todo_change(event, agent or who)
    return EventSentence("info", who, event.kind, note=event.kind)


def describe_todo_change(event: Event, agent: str) -> EventSentence:
    data, quote = event.data, shortened(event.data.get("description"))
    if data.get("task"):
        who, note = event.actor_name or event.actor_type, " · linked to a task"
        return EventSentence("s-queued", who, "linked a task to", "blue", quote, "", note)
    does, tone = STATES.get(str(data.get("state")), ("changed", ""))
    note = f" · {does} in a session"
    return EventSentence("pen", agent, does, tone, quote, " in a session", note)


def shortened(text: object) -> str:
    return truncate(" ".join(str(text or "").split()), REASON)
