"""Describe the events of the journal in sentences (pure), for feeds and for the log."""

from typing import Any

from dashboard.sentences.agent_events import (
    describe_agent_event,
    describe_budget_event,
    describe_limit_event,
    describe_pool_event,
    describe_project_event,
    describe_token_event,
)
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
from dashboard.sentences.settings import (
    describe_channel_event,
    describe_marker_event,
    describe_notification_rule_event,
    describe_on_call_event,
    describe_view_event,
)
from dashboard.sentences.tasks import describe_cause_briefly, describe_reason, name_changes
from dashboard.wording.badges import urgency_badge
from dashboard.wording.formatting import counted, duration
from ledger.journal import Kind
from ledger.models import Event
from ledger.values.text import truncate
from retries.states import Reason

ASSIGNED = (Kind.ESCALATION_ASSIGNED, Kind.TASK_ASSIGNED, Kind.PATTERN_ASSIGNED)
COMMENTED = (Kind.ESCALATION_COMMENTED, Kind.TASK_COMMENTED, Kind.PATTERN_COMMENTED)


def describe_event(event: Event, about: EventSubject) -> EventSentence:
    if event.kind in ASSIGNED:
        to = str(event.data.get("user") or "no one")
        tail, note = f" to {to}", f" · assigned to {to}"
        return EventSentence("person", who_of(event), "assigned", "", about.quote, tail, note)
    if event.kind in COMMENTED:
        said = " ".join(str(event.data.get("text") or "").split())[:QUOTE]
        tail, note = f": {said}", f" · {said}"
        return EventSentence("pen", who_of(event), "commented on", "", about.quote, tail, note)
    match event.kind.partition(".")[0]:
        case "instruction":
            return describe_instruction_event(event, about)
        case "task":
            return describe_task_event(event, about)
        case "agent":
            return describe_agent_event(event, about)
        case "pool":
            return describe_pool_event(event, about)
        case "limit":
            return describe_limit_event(event)
        case "budget" | "price":
            return describe_budget_event(event)
        case "token":
            return describe_token_event(event, about)
        case "project":
            return describe_project_event(event)
        case "webhook" | "channel":
            return describe_channel_event(event)
        case "notification_rule":
            return describe_notification_rule_event(event)
        case "escalation_policy" | "rota":
            return describe_on_call_event(event)
        case "marker":
            return describe_marker_event(event)
        case "saved_view":
            return describe_view_event(event)
        case "member" | "invitation":
            return describe_member_event(event)
        case "escalation" | "signal":
            return describe_escalation_event(event, about)
        case "pattern":
            return describe_pattern_event(event, about)
        case "permission" | "permission_rule":
            return describe_permission_event(event, about)
    return unknown(event)


def describe_instruction_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, quote = who_of(event), about.agent, about.quote
    retries = int(event.data.get("retry_count") or 0)
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
        case Kind.INSTRUCTION_READ:
            return EventSentence("eye", agent, "read", "blue", quote, "", " · read")
        case (
            Kind.INSTRUCTION_ACKNOWLEDGED
            | Kind.INSTRUCTION_ACKNOWLEDGED_LATE
            | Kind.INSTRUCTION_DECLINED
        ):
            return describe_acknowledgment(event, about)
        case Kind.INSTRUCTION_REQUEUED:
            return describe_requeue(event, about)
        case Kind.INSTRUCTION_FAILED:
            gave_up = describe_giving_up(event.data)
            note = f" · not acknowledged. {gave_up}"
            return EventSentence("s-failed", agent, "ignored", "red", quote, f". {gave_up}", note)
        case Kind.INSTRUCTION_CANCELLED:
            return EventSentence(
                "s-aborted", actor, "cancelled", "", quote, f" for {agent}", " · cancelled"
            )
    return unknown(event)


def describe_acknowledgment(event: Event, about: EventSubject) -> EventSentence:
    # A person may acknowledge on an agent's behalf.
    is_person, quote = event.actor_type == "user", about.quote
    who = who_of(event) if is_person else about.agent
    on_behalf = f" for {about.agent}" if is_person else ""
    does = f"acknowledged{on_behalf}"
    match event.kind:
        case Kind.INSTRUCTION_DECLINED:
            does = f"declined{on_behalf}"
            return EventSentence("s-acked", who, does, "amber", quote, "", " · declined")
        case Kind.INSTRUCTION_ACKNOWLEDGED_LATE:
            return EventSentence("s-acked", who, does, "", quote, " too late", " · too late")
    took = duration(about.waited) if about.waited is not None else ""
    note = f" after {took}" if took else " · acknowledged"
    return EventSentence("s-acked", who, does, "green", quote, f" in {took}" if took else "", note)


def describe_requeue(event: Event, about: EventSubject) -> EventSentence:
    retries = int(event.data.get("retry_count") or 0)
    icon, urgency, quote = urgency_badge(retries).icon, urgency_word(retries), about.quote
    if event.actor_type == "user":
        does, tail = f"sent {about.agent} again", f" as {urgency}"
        note = f" · sent again as {urgency}"
        return EventSentence(icon, who_of(event), does, "amber", quote, tail, note)
    tail = f". Queued again as {urgency}"
    note = f" · not acknowledged, queued again as {urgency}"
    return EventSentence(icon, about.agent, "has not acknowledged", "amber", quote, tail, note)


def describe_giving_up(data: dict[str, Any]) -> str:
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
    Kind.TASK_FILES_OUTSIDE: ("pen", "changed files outside of", "amber", "’s files"),
    Kind.TASK_REPORTED_LATE: ("clock", "reported too late", "amber", ", which changes nothing"),
}
BY_ACTOR = {
    Kind.TASK_REQUEUED: ("s-queued", "queued", " again"),
    Kind.TASK_ANSWER_UNDONE: ("undo", "returned", " to its question"),
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
    if event.kind == Kind.TASK_CHANGED and event.data.get("to_agent"):
        names = name_changes(event.data)
        tail = f" to {event.data['to_agent']}" + (f" and changed {names}" if names else "")
        return EventSentence("n-agents", actor, "reassigned", "", quote, tail, note)
    if event.kind == Kind.TASK_COMPLETED and event.data.get("answer"):
        return EventSentence("s-done", actor, "accepted", "green", quote, " as done", note)
    if event.kind == Kind.TASK_COMPLETED and event.data.get("ticked"):
        return EventSentence("s-done", actor, "ticked", "green", quote, " in the plan’s file", note)
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
    "terminal": "its own program decided",
}


# icon, verb, tone, and the note for the log
ESCALATIONS = {
    Kind.ESCALATION_REMINDED: (
        "clock",
        "still needs an answer about",
        "amber",
        "still needs an answer",
    ),
    Kind.ESCALATION_RETURNED: ("clock", "needs an answer again about", "", "back in the inbox"),
}
ESCALATIONS_BY_ACTOR = {
    Kind.ESCALATION_REOPENED: (
        "undo",
        "undid the answer about",
        "answer undone, needs an answer again",
    ),
    Kind.ESCALATION_WITHDRAWN: (
        "s-aborted",
        "withdrew the question about",
        "no longer needs an answer",
    ),
}


def describe_escalation_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, quote, data = who_of(event), about.agent, about.quote, event.data
    if event.kind in ESCALATIONS:
        icon, does, tone, note = ESCALATIONS[Kind(event.kind)]
        if why := data.get("not_answered"):
            note += f", and its policy did not answer: {why}"
        return EventSentence(icon, agent, does, tone, quote, "", f" · {note}")
    if event.kind in ESCALATIONS_BY_ACTOR:
        icon, does, note = ESCALATIONS_BY_ACTOR[Kind(event.kind)]
        return EventSentence(icon, actor, does, "", quote, "", f" · {note}")
    match event.kind:
        case Kind.SIGNAL_MATCHED:
            return plain("beat", agent, f"reported {data.get('type', 'a signal')}", ", as expected")
        case Kind.ESCALATION_OPENED if data.get("task"):
            reason = describe_reason(data)
            tail = f": {reason}" if reason else ""
            does, note = "needs an answer about", f" · needs an answer{tail}"
            return EventSentence("s-escalated", agent, does, "red", quote, tail, note)
        case Kind.ESCALATION_OPENED if data.get("reason") == Reason.PERMISSION_REQUEST:
            does, note = "asks whether it may call", " · asks for permission"
            return EventSentence("f-permission", agent, does, "amber", quote, "", note)
        case Kind.ESCALATION_OPENED:
            tail, note = ". Needs an answer", " · needs an answer"
            return EventSentence("s-escalated", agent, "ignored", "red", quote, tail, note)
        case Kind.ESCALATION_EXPIRED:
            then = f": {EXPIRED.get(str(data.get('on_expiry')), '')}"
            does, note = "got no answer in time about", f" · no answer in time{then}"
            return EventSentence("clock", agent, does, "red", quote, then, note)
        case Kind.ESCALATION_TOLD:
            to = ", ".join(map(str, data.get("people") or ())) or "no one"
            policy = f"Policy {data.get('policy') or ''}".strip()
            return EventSentence("bell", policy, f"told {to} of", "", quote, "", f" · told {to}")
        case Kind.ESCALATION_SNOOZED:
            until = str(data.get("until") or "")[:16].replace("T", " ")
            tail, note = f" until {until}", f" · snoozed until {until}"
            return EventSentence("clock", actor, "snoozed", "", quote, tail, note)
        case Kind.ESCALATION_RESOLVED:
            did, does = str(data.get("action") or ""), f"answered for {agent}"
            return EventSentence("person", actor, does, "", quote, f": {did}", f" · {did}")
    return unknown(event)


# icon, verb, tone, and what the log says
PERMISSIONS = {
    Kind.PERMISSION_ALLOWED: ("check", "was allowed by a rule", "green", "allowed by a rule"),
    Kind.PERMISSION_DENIED: ("x", "was denied by a rule", "red", "denied by a rule"),
    Kind.PERMISSION_RULE_CREATED: ("rule", "made the rule", "", "rule made"),
    Kind.PERMISSION_RULE_REVOKED: ("trash", "revoked the rule", "amber", "rule revoked"),
    Kind.PERMISSION_RULE_EXPIRED: ("clock", "ended the unused rule", "", "rule ended unused"),
    Kind.PERMISSION_RULE_DISMISSED: ("s-skipped", "put aside the rule", "", "proposal put aside"),
}


def describe_permission_event(event: Event, about: EventSubject) -> EventSentence:
    icon, does, tone, note = PERMISSIONS[Kind(event.kind)]
    is_request = event.subject_type == "permission_request"
    rule = truncate(str(event.data.get("rule") or ""), QUOTE)
    who, quote = (about.agent, about.quote) if is_request else (who_of(event), rule)
    tail = f": {rule}" if is_request else ""
    return EventSentence(icon, who, does, tone, quote, tail, f" · {note}{tail}")


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
