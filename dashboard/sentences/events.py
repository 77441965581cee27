"""Describe the events of the journal in sentences (pure), for feeds and for the log."""

from dataclasses import dataclass, replace
from typing import Any

from dashboard.badges import urgency_badge
from dashboard.formatting import counted, duration
from dashboard.sentences.instructions import urgency_word
from dashboard.sentences.tasks import breaker_reason, describe_cause_briefly, describe_reason
from ledger.journal import Kind
from ledger.models import Event
from ledger.text import truncate

QUOTE = 90


@dataclass(frozen=True, slots=True)
class EventSubject:
    """The subject of an event, looked up because the event's data lacks it."""

    agent: str = ""
    text: str = ""  # an instruction's content, or a task's title
    waited: float | None = None  # seconds since the instruction was sent

    @property
    def quote(self) -> str:
        return truncate(" ".join(self.text.split()), QUOTE)


@dataclass(frozen=True, slots=True)
class EventSentence:
    """`who` `does` “quote”`tail` in a feed; “quote”`note` in the log, where `who` has a column."""

    icon: str
    who: str
    does: str
    tone: str = ""
    quote: str = ""
    tail: str = ""
    note: str = ""

    @property
    def css(self) -> str:
        return f"is-{self.tone}" if self.tone else ""


def describe_event(event: Event, about: EventSubject) -> EventSentence:
    """Return the sentence for an event, or the name of a kind that has no sentence."""
    match event.kind.partition(".")[0]:
        case "instruction":
            return describe_instruction_event(event, about)
        case "task":
            return describe_task_event(event, about)
        case "agent" | "token" | "project" | "webhook":
            return describe_agent_event(event, about)
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


def describe_breaker_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, by_hand = who_of(event), about.agent, event.actor_type == "user"
    said = breaker_reason(event.data)
    because = f": {said}" if said else ""
    match event.kind:
        case Kind.AGENT_BREAKER_OPENED if by_hand:
            sentence = plain("c-open", actor, f"opened {agent}’s breaker", because)
        case Kind.AGENT_BREAKER_OPENED:
            sentence = plain("c-open", agent, "is on hold: its breaker opened", because)
        case Kind.AGENT_BREAKER_HALF_OPEN:
            sentence = plain("c-half", agent, "gets one probe attempt: its breaker is half open")
        case _ if by_hand:
            sentence = plain("c-closed", actor, f"closed {agent}’s breaker")
        case _:
            sentence = plain("c-closed", agent, "recovered: its breaker closed")
    return replace(sentence, tone=BREAKER_TONES.get(Kind(event.kind), ""))


BREAKER_TONES = {
    Kind.AGENT_BREAKER_OPENED: "red",
    Kind.AGENT_BREAKER_HALF_OPEN: "amber",
    Kind.AGENT_BREAKER_CLOSED: "green",
}


def describe_agent_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, data = who_of(event), about.agent or str(event.data.get("name", "")), event.data
    if event.kind in BREAKER_TONES:
        return describe_breaker_event(event, about)
    match event.kind:
        case Kind.AGENT_REGISTERED:
            return plain("n-agents", actor, f"registered {agent}")
        case Kind.AGENT_PAUSED:
            return plain("pause", actor, f"paused {agent}")
        case Kind.AGENT_RESUMED:
            return plain("play", actor, f"resumed {agent}")
        case Kind.AGENT_LIMITED:
            most = data.get("concurrency")
            may = counted(int(most), "attempt") if most else "unlimited"
            return plain("n-agents", actor, f"set {agent}’s concurrency to {may}")
        case Kind.AGENT_BRIEFED:
            does = (
                "changed the system prompt of"
                if data.get("characters")
                else "cleared the system prompt of"
            )
            return plain("n-agents", actor, f"{does} {agent}")
        case Kind.AGENT_TARGET_SET:
            if not data.get("percent"):
                return plain("s-acked", actor, f"removed the target of {agent}")
            share = f"{data['percent']}% acknowledged within {data.get('within_s')} s"
            return plain("s-acked", actor, f"set the target of {agent}: {share}")
        case Kind.AGENT_RESET:
            cancelled = counted(int(data.get("cancelled") or 0), "instruction")
            return plain("s-aborted", actor, f"reset {agent}", f": {cancelled} cancelled")
        case Kind.AGENT_NEEDS_ATTENTION:
            said = truncate(str(data.get("message") or ""), QUOTE)
            note = " · waits for the person at its terminal"
            does = "waits for the person at its terminal"
            return EventSentence(
                "person",
                agent,
                f"{does}:" if said else does,
                "amber",
                said,
                "",
                note if said else "Waits for the person at its terminal",
            )
        case Kind.AGENT_SILENT:
            tail = f" while {counted(int(data.get('waiting') or 0), 'instruction')} waited"
            return replace(plain("clock", agent, "has not called", tail), tone="amber")
        case Kind.AGENT_HEARD:
            return plain("beat", agent, "called again")
        case Kind.WEBHOOK_DISABLED:
            reason = str(data.get("reason") or "unknown").replace("_", " ")
            name = data.get("name", "")
            return replace(
                plain("s-failed", actor, f"disabled the channel {name}: {reason}"), tone="red"
            )
        case Kind.PROJECT_CREATED:
            return plain("project", actor, f"created the project {data.get('name', '')}".rstrip())
        case Kind.PROJECT_POLICIES_CHANGED:
            changed = ", ".join(
                f"{name} to {value}".replace("_", " ")
                for name, value in sorted(data.items())
                if name != "reason"
            )
            reason = f": {data['reason']}" if data.get("reason") else ""
            return plain("project", actor, f"set the policies {changed}", reason)
        case Kind.PROJECT_EXPERIMENT_STARTED | Kind.PROJECT_EXPERIMENT_ENDED:
            does = "started" if event.kind == Kind.PROJECT_EXPERIMENT_STARTED else "ended"
            element = str(data.get("element") or "?").replace("_", " ")
            reason = truncate(str(data.get("reason") or ""), QUOTE)
            return EventSentence(
                "f-verify", actor, f"{does} the experiment without {element}:", "", reason
            )
        case Kind.TOKEN_CREATED:
            return plain("key", actor, f"created {describe_token(agent, data)}")
        case Kind.TOKEN_REVOKED:
            return plain("key", actor, f"revoked {describe_token(agent, data)}")
        case Kind.TOKEN_ROTATED:
            return plain("key", actor, f"rotated {describe_token(agent, data)}")
    return unknown(event)


def describe_token(agent: str, data: dict[str, Any]) -> str:
    """Return a token's owner or kind, and its prefix: `coder’s token, tf_1a2…`."""
    kind = str(data.get("kind", ""))
    article = "an" if kind[:1] in "aeiou" else "a"
    token = f"{agent}’s token" if agent else f"{article} {kind} token" if kind else "a token"
    return f"{token}, {data['prefix']}…" if data.get("prefix") else token


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


def plain(icon: str, who: str, does: str, tail: str = "") -> EventSentence:
    """Return a sentence without a quote, which the log repeats without `who`."""
    return EventSentence(icon, who, does, tail=tail, note=f"{does[:1].upper()}{does[1:]}{tail}")


def unknown(event: Event) -> EventSentence:
    return EventSentence("info", who_of(event), event.kind, note=event.kind)


def who_of(event: Event) -> str:
    return event.actor_name or event.actor_type
