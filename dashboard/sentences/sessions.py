"""Describe the journal of sessions in sentences (pure), for feeds and the log."""

from dashboard.formatting import counted
from dashboard.sentences.event_sentence import EventSentence, EventSubject
from ledger.journal import Kind
from ledger.models import Event
from ledger.text import truncate

REASON = 90
# the state of a task in a session -> what happened to it, tone
STATES = {
    "pending": ("reopened", ""),
    "running": ("started", "blue"),
    "success": ("finished", "green"),
    "failed": ("gave up", "red"),
}


def describe_session_event(event: Event, about: EventSubject) -> EventSentence:
    """Return the sentence for an event of a session."""
    who, agent, data = event.actor_name or event.actor_type, about.agent, event.data
    of = f" of {agent}" if agent else ""
    match event.kind:
        case Kind.SESSION_CREATED:
            return EventSentence(
                "plus", who, "began a session", "", about.quote, of, f" · session{of} began"
            )
        case Kind.SESSION_PROCESSED:
            count = counted(int(data.get("messages") or 0), "message")
            tail = f": {counted(int(data.get('calls') or 0), 'tool call')}"
            note = f" · {count} processed{tail}"
            return EventSentence(
                "check", "Tenfour", f"processed {count} of", "", about.quote, tail, note
            )
        case Kind.SESSION_FAILED:
            count = counted(int(data.get("messages") or 0), "message")
            tail = f": {truncate(' '.join(str(data.get('reason') or '').split()), REASON)}"
            note = f" · {count} not processed{tail}"
            return EventSentence(
                "s-failed",
                "Tenfour",
                f"could not process {count} of",
                "red",
                about.quote,
                tail,
                note,
            )
        case Kind.SESSION_RETRIED:
            count = counted(int(data.get("messages") or 0), "failed message")
            does = f"returned {count} to the buffer of"
            return EventSentence("s-retry", who, does, "blue", about.quote, of, f" · {does} it")
        case Kind.SESSION_TASK_CREATED:
            quote = truncate(" ".join(str(data.get("description") or "").split()), REASON)
            return EventSentence(
                "plus", agent or who, "noted", "", quote, " in a session", " · noted in a session"
            )
        case Kind.SESSION_TASK_UPDATED:
            quote = truncate(" ".join(str(data.get("description") or "").split()), REASON)
            does, tone = STATES.get(str(data.get("state")), ("changed", ""))
            if data.get("task"):
                does, tone = "linked a task to", "blue"
                return EventSentence("s-queued", who, does, tone, quote, "", " · linked to a task")
            return EventSentence(
                "pen", agent or who, does, tone, quote, " in a session", f" · {does} in a session"
            )
    return EventSentence("info", who, event.kind, note=event.kind)
