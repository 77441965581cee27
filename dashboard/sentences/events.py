"""Describe the events of the journal in sentences (pure), for feeds and for the log."""

from typing import Any

from dashboard.badges import urgency_badge
from dashboard.formatting import counted, duration
from dashboard.sentences.agent_events import describe_agent_event
from dashboard.sentences.event_sentence import (
    QUOTE,
    EventSentence,
    EventSubject,
    plain,
    unknown,
    who_of,
)
from dashboard.sentences.instructions import urgency_word
from dashboard.sentences.members import describe_member_event
from dashboard.sentences.tasks import describe_cause_briefly, describe_reason
from ledger.journal import Kind
from ledger.models import Event
from ledger.text import truncate


def describe_event(event: Event, about: EventSubject) -> EventSentence:
    """Return the sentence for an event, or the name of a kind that has no sentence."""
    match event.kind.partition(".")[0]:
        case "instruction":
            return describe_instruction_event(event, about)
        case "task":
            return describe_task_event(event, about)
        case "agent" | "token" | "project" | "webhook":
            return describe_agent_event(event, about)
        case "member" | "invitation":
            return describe_member_event(event)
        case "escalation" | "signal":
            return describe_escalation_event(event, about)
        case "pattern":
            return describe_pattern_event(event, about)
    return unknown(event)


def describe_instruction_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, quote = who_of(event), about.agent, about.quote
    retries = int(event.data.get("retry_count") or 0)
    person = event.actor_type == "user"
    acknowledger = actor if person else agent
    on_behalf = f" for {agent}" if person else ""
    match event.kind:
        case Kind.INSTRUCTION_QUEUED:
            sender = "A rule" if event.data.get("rule") else actor
            return EventSentence("s-queued", sender, f"sent {agent}", "", quote, "", f" to {agent}")
        case Kind.INSTRUCTION_HELD:
            number = f", hold {event.data.get('holds')}"
            return EventSentence(
                "hold", agent, "could not stop:", "amber", quote, number, f" · held{number}"
            )
        case Kind.INSTRUCTION_DELIVERED:
            again = f" again as {urgency_word(retries)}" if retries else ""
            return EventSentence("s-delivered", agent, "received", "blue", quote, again, again)
        case Kind.INSTRUCTION_ACKNOWLEDGED:
            took = duration(about.waited) if about.waited is not None else ""
            return EventSentence(
                "s-acked",
                acknowledger,
                f"acknowledged{on_behalf}",
                "green",
                quote,
                f" in {took}" if took else "",
                f" after {took}" if took else " · acknowledged",
            )
        case Kind.INSTRUCTION_DECLINED:
            return EventSentence(
                "s-acked", acknowledger, f"declined{on_behalf}", "amber", quote, "", " · declined"
            )
        case Kind.INSTRUCTION_ACKNOWLEDGED_LATE:
            late = "too late"
            return EventSentence(
                "s-acked",
                acknowledger,
                f"acknowledged{on_behalf}",
                "",
                quote,
                f" {late}",
                f" · {late}",
            )
        case Kind.INSTRUCTION_REQUEUED if person:
            icon, as_loud = urgency_badge(retries).icon, f" as {urgency_word(retries)}"
            note = f" · sent again{as_loud}"
            return EventSentence(icon, actor, f"sent {agent} again", "amber", quote, as_loud, note)
        case Kind.INSTRUCTION_REQUEUED:
            icon, as_loud = urgency_badge(retries).icon, f"ueued again as {urgency_word(retries)}"
            note = f" · not acknowledged, q{as_loud}"
            return EventSentence(
                icon, agent, "has not acknowledged", "amber", quote, f". Q{as_loud}", note
            )
        case Kind.INSTRUCTION_FAILED:
            gave_up = describe_giving_up(event.data)
            note = f" · not acknowledged. {gave_up}"
            return EventSentence("s-failed", agent, "ignored", "red", quote, f". {gave_up}", note)
        case Kind.INSTRUCTION_CANCELLED:
            return EventSentence(
                "s-aborted", actor, "cancelled", "", quote, f" for {agent}", " · cancelled"
            )
    return unknown(event)


def describe_giving_up(data: dict[str, Any]) -> str:
    """Return after what Tenfour gave up: the retries, or the holds of a stop."""
    if data.get("holds"):
        return f"Tenfour let it go after {counted(int(data['holds']), 'hold')}"
    return f"Tenfour gave up after {counted(int(data.get('retry_count') or 0), 'retry', 'retries')}"


# icon, verb, tone, and the text after the quote, where `{why}` is the cause
TASKS = {
    Kind.TASK_COMPLETED: ("s-done", "completed", "green", ""),
    Kind.TASK_RETRY_SCHEDULED: ("s-retry", "failed", "amber", ". Will retry"),
    Kind.TASK_RELEASED: ("s-queued", "released", "", ""),
    Kind.TASK_BLOCKED: ("s-blocked", "can’t start", "amber", ": {why}"),
    Kind.TASK_ESCALATED: ("s-escalated", "needs an answer about", "red", ": {why}"),
    Kind.TASK_FAILED: ("s-failed", "gave up on", "red", ": {why}"),
}
BY_ACTOR = {
    Kind.TASK_REQUEUED: ("s-queued", "queued", " again"),
    Kind.TASK_ANSWER_UNDONE: ("undo", "undid an answer about", ""),
    Kind.TASK_CHANGED: ("pen", "changed", ""),
    Kind.TASK_SKIPPED: ("s-skipped", "skipped", ""),
    Kind.TASK_ABORTED: ("s-aborted", "aborted", ""),
    Kind.TASK_ABORT_REQUESTED: ("s-aborted", "asked to abort", ""),
    Kind.TASK_REPLAYED: ("undo", "replayed", ""),
    Kind.TASK_DISMISSED: ("trash", "dismissed", ""),
}


def describe_task_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, quote = who_of(event), about.agent, about.quote
    reason = describe_cause_briefly(event, agent=agent)
    note = f" · {reason}" if quote else reason
    because = lowered(describe_reason(event.data) or reason)
    if event.kind in BY_ACTOR:
        icon, does, tail = BY_ACTOR[Kind(event.kind)]
        return EventSentence(icon, actor, does, "", quote, tail, note)
    if event.kind in TASKS:
        icon, does, tone, tail = TASKS[Kind(event.kind)]
        return EventSentence(icon, agent, does, tone, quote, tail.format(why=because), note)
    match event.kind:
        case Kind.TASK_CREATED:
            return EventSentence("s-queued", actor, f"enqueued for {agent}", "", quote, "", note)
        case Kind.TASK_CLAIMED:
            number = event.data.get("attempt")
            again = f", attempt {number}" if number and number != 1 else ""
            return EventSentence("s-running", agent, "started", "blue", quote, again, note)
        case Kind.TASK_DUE if event.data.get("by_hand"):
            return EventSentence("play", actor, "retried", "", quote, "", note)
        case Kind.TASK_DUE:
            return EventSentence("clock", agent, "has a retry due:", "amber", quote, "", note)
        case Kind.TASK_UNBLOCKED:
            return EventSentence("s-queued", agent, "can start", "", quote, "", note)
    return unknown(event)


def lowered(clause: str) -> str:
    return f"{clause[:1].lower()}{clause[1:]}"


# what happens to a task whose question got no answer in time
EXPIRED = {
    "retry": "queued again",
    "skip": "skipped",
    "abort": "aborted",
    "fail": "gave up",
}


def describe_escalation_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, data = who_of(event), about.agent, event.data
    match event.kind:
        case Kind.SIGNAL_MATCHED:
            return plain("beat", agent, f"reported {data.get('type', 'a signal')}", ", as expected")
        case Kind.ESCALATION_OPENED if data.get("task"):
            reason = describe_reason(data)
            tail = f": {reason}" if reason else ""
            note = f" · needs an answer{tail}"
            return EventSentence(
                "s-escalated", agent, "needs an answer about", "red", about.quote, tail, note
            )
        case Kind.ESCALATION_REOPENED:
            note = " · answer undone, needs an answer again"
            return EventSentence("undo", actor, "undid the answer about", "", about.quote, "", note)
        case Kind.ESCALATION_EXPIRED:
            then = f": {EXPIRED.get(str(data.get('on_expiry')), '')}"
            note = f" · no answer in time{then}"
            return EventSentence(
                "clock", agent, "got no answer in time about", "red", about.quote, then, note
            )
        case Kind.ESCALATION_REMINDED:
            note = " · still needs an answer"
            return EventSentence(
                "clock", agent, "still needs an answer about", "amber", about.quote, "", note
            )
        case Kind.ESCALATION_ASSIGNED:
            to = str(data.get("user") or "no one")
            note = f" · assigned to {to}"
            return EventSentence("person", actor, "assigned", "", about.quote, f" to {to}", note)
        case Kind.ESCALATION_SNOOZED:
            until = str(data.get("until") or "")[:16].replace("T", " ")
            tail, note = f" until {until}", f" · snoozed until {until}"
            return EventSentence("clock", actor, "snoozed", "", about.quote, tail, note)
        case Kind.ESCALATION_RETURNED:
            note = " · back in the inbox"
            return EventSentence(
                "clock", agent, "needs an answer again about", "", about.quote, "", note
            )
        case Kind.ESCALATION_COMMENTED:
            said = " ".join(str(data.get("text") or "").split())[:QUOTE]
            return EventSentence(
                "pen", actor, "commented on", "", about.quote, f": {said}", f" · {said}"
            )
        case Kind.ESCALATION_WITHDRAWN:
            note = " · no longer needs an answer"
            return EventSentence(
                "s-aborted", actor, "withdrew the question about", "", about.quote, "", note
            )
        case Kind.ESCALATION_OPENED:
            tail, note = ". Needs an answer", " · needs an answer"
            return EventSentence("s-escalated", agent, "ignored", "red", about.quote, tail, note)
        case Kind.ESCALATION_RESOLVED:
            did = str(data.get("action") or "")
            answered = f"answered for {agent}"
            return EventSentence(
                "person", actor, answered, "", about.quote, f": {did}", f" · {did}"
            )
    return unknown(event)


# icon, verb, tone, and the verb's participle for the log
PATTERNS = {
    Kind.PATTERN_IGNORED: ("s-skipped", "ignored the failures", "", "ignored"),
    Kind.PATTERN_RESOLVED: ("s-done", "resolved the failures", "green", "resolved"),
    Kind.PATTERN_REOPENED: ("undo", "reopened the failures", "", "reopened"),
}
# a person's verdicts about fixes: icon, verb, tone
FIXES = {
    Kind.PATTERN_FIX_PROMOTED: ("s-done", "promoted the fix", "green"),
    Kind.PATTERN_FIX_RETIRED: ("s-skipped", "retired the fix", ""),
    Kind.PATTERN_FIX_RESET: ("undo", "reset the fix", ""),
}


def describe_pattern_event(event: Event, about: EventSubject) -> EventSentence:
    actor = who_of(event)
    if event.kind == Kind.PATTERN_REGRESSED:
        note = " · recurred after it was resolved"
        return EventSentence(
            "s-failed", about.agent or actor, "repeated", "red", about.quote, "", note
        )
    if event.kind == Kind.PATTERN_REOPENED and event.actor_type != "user":
        note = " · recurred, no longer ignored"
        return EventSentence("undo", about.agent or actor, "repeated", "", about.quote, "", note)
    if event.kind in FIXES:
        icon, does, tone = FIXES[Kind(event.kind)]
        named = ", ".join(map(str, event.data.get("entities") or ()))
        tail = f" for {named}" if named else ""
        quote = truncate(str(event.data.get("fix") or ""), QUOTE)
        return EventSentence(icon, actor, does, tone, quote, tail, f" · {does}{tail}")
    if event.kind == Kind.PATTERN_MERGED:
        number = counted(len(event.data.get("patterns") or []), "pattern")
        does, note = f"merged {number} into", f" · {number} merged into it"
        return EventSentence("s-done", "Tenfour", does, "", about.quote, "", note)
    if event.kind in PATTERNS:
        icon, does, tone, done = PATTERNS[Kind(event.kind)]
        return EventSentence(icon, actor, does, tone, about.quote, "", f" · {done}")
    return unknown(event)
