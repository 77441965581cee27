"""The journal told in sentences (pure): one event as a line of a feed, or of the log."""

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
    """What an event's data does not say: the agent's name, the instruction's words and its age, or
    the task's title."""

    agent: str = ""
    text: str = ""
    waited: float | None = None  # seconds from the sending to the event

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
    """What happened, whatever the kind: one that has no sentence is told by its name."""
    match event.kind.partition(".")[0]:
        case "instruction":
            return describe_instruction_event(event, about)
        case "task":
            return describe_task_event(event, about)
        case "agent" | "token" | "project":
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
    heard = actor if person else agent
    stead = f" for {agent}" if person else ""
    match event.kind:
        case Kind.INSTRUCTION_QUEUED:
            return EventSentence("s-queued", actor, f"sent {agent}", "", quote, "", f" to {agent}")
        case Kind.INSTRUCTION_DELIVERED:
            again = f" again as {urgency_word(retries)}" if retries else ""
            return EventSentence("s-delivered", agent, "received", "blue", quote, again, again)
        case Kind.INSTRUCTION_ACKNOWLEDGED:
            took = duration(about.waited) if about.waited is not None else ""
            return EventSentence(
                "s-acked",
                heard,
                f"acknowledged{stead}",
                "green",
                quote,
                f" in {took}" if took else "",
                f" after {took}" if took else " · acknowledged",
            )
        case Kind.INSTRUCTION_DECLINED:
            return EventSentence(
                "s-acked", heard, f"declined{stead}", "amber", quote, "", " · declined"
            )
        case Kind.INSTRUCTION_ACKNOWLEDGED_LATE:
            late = "too late, nothing changes"
            return EventSentence(
                "s-acked", heard, f"answered{stead}", "", quote, f" {late}", f" · {late}"
            )
        case Kind.INSTRUCTION_REQUEUED if person:
            icon, as_loud = urgency_badge(retries).icon, f" as {urgency_word(retries)}"
            note = f" · sent again{as_loud}"
            return EventSentence(icon, actor, f"sent {agent} again", "amber", quote, as_loud, note)
        case Kind.INSTRUCTION_REQUEUED:
            icon, as_loud = urgency_badge(retries).icon, f"ueued again as {urgency_word(retries)}"
            note = f" · no answer, q{as_loud}"
            return EventSentence(
                icon, agent, "has not answered", "amber", quote, f". Q{as_loud}", note
            )
        case Kind.INSTRUCTION_FAILED:
            gave_up = f"Tenfour gave up after {counted(retries, 'retry', 'retries')}"
            note = f" · no answer. {gave_up}"
            return EventSentence("s-failed", agent, "ignored", "red", quote, f". {gave_up}", note)
        case Kind.INSTRUCTION_CANCELLED:
            return EventSentence(
                "s-aborted", actor, "withdrew", "", quote, f" from {agent}", " · withdrawn"
            )
    return unknown(event)


# icon, what is done, tone, and what follows the quote; `{why}` is the clause of the history
TASKS = {
    Kind.TASK_COMPLETED: ("s-done", "finished", "green", ""),
    Kind.TASK_RETRY_SCHEDULED: ("s-retry", "failed", "amber", ". It is tried again"),
    Kind.TASK_RELEASED: ("s-queued", "put back", "", ""),
    Kind.TASK_BLOCKED: ("s-blocked", "can’t start", "amber", ": {why}"),
    Kind.TASK_ESCALATED: ("s-escalated", "needs a person for", "red", ": {why}"),
    Kind.TASK_FAILED: ("s-failed", "gave up", "red", ": {why}"),
}
BY_ACTOR = {
    Kind.TASK_REQUEUED: ("s-queued", "queued", " again"),
    Kind.TASK_ANSWER_UNDONE: ("undo", "took back an answer about", ""),
    Kind.TASK_CHANGED: ("pen", "changed", ""),
    Kind.TASK_SKIPPED: ("s-skipped", "skipped", ""),
    Kind.TASK_ABORTED: ("s-aborted", "stopped", ""),
    Kind.TASK_ABORT_REQUESTED: ("s-aborted", "asked to stop", ""),
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
            return EventSentence("play", actor, "hurried", "", quote, "", note)
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
            told = plain("c-open", actor, f"opened the breaker of {agent}", because)
        case Kind.AGENT_BREAKER_OPENED:
            told = plain("c-open", agent, "gets no work: its breaker opened", because)
        case Kind.AGENT_BREAKER_HALF_OPEN:
            told = plain("c-half", agent, "gets one attempt to show that it works again")
        case _ if by_hand:
            told = plain("c-closed", actor, f"closed the breaker of {agent}")
        case _:
            told = plain("c-closed", agent, "works again: its breaker closed")
    return replace(told, tone=BREAKER_TONES.get(Kind(event.kind), ""))


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
            return plain("n-agents", actor, f"made {agent} known")
        case Kind.AGENT_PAUSED:
            return plain("pause", actor, f"paused {agent}")
        case Kind.AGENT_RESUMED:
            return plain("play", actor, f"let {agent} go on")
        case Kind.AGENT_LIMITED:
            most = data.get("concurrency")
            may = counted(int(most), "attempt") if most else "any number of attempts"
            return plain("n-agents", actor, f"lets {agent} run {may} at once")
        case Kind.AGENT_BRIEFED:
            does = (
                "changed the system text of"
                if data.get("characters")
                else "emptied the system text of"
            )
            return plain("n-agents", actor, f"{does} {agent}")
        case Kind.AGENT_RESET:
            withdrawn = counted(int(data.get("cancelled") or 0), "instruction")
            return plain("s-aborted", actor, f"reset {agent}", f": {withdrawn} withdrawn")
        case Kind.PROJECT_CREATED:
            return plain("project", actor, f"made the project {data.get('name', '')}".rstrip())
        case Kind.TOKEN_CREATED:
            return plain("key", actor, f"made a token{of(agent, data)}")
        case Kind.TOKEN_REVOKED:
            return plain("key", actor, f"revoked a token{of(agent, data)}")
    return unknown(event)


def of(agent: str, data: dict[str, Any]) -> str:
    """Which token it is: whose, of what kind, how it begins."""
    kind = str(data.get("kind", ""))
    owner = f" of {agent}" if agent else f" of an {kind}" if kind else ""
    return f"{owner}, {data['prefix']}…" if data.get("prefix") else owner


# what became of a task whose question nobody answered in time
EXPIRED = {
    "retry": "it is queued again",
    "skip": "it was skipped",
    "abort": "it was stopped",
    "fail": "it was given up",
}


def describe_escalation_event(event: Event, about: EventSubject) -> EventSentence:
    actor, agent, data = who_of(event), about.agent, event.data
    match event.kind:
        case Kind.SIGNAL_MATCHED:
            return plain("beat", agent, f"reported {data.get('type', 'a signal')}", ", as expected")
        case Kind.ESCALATION_OPENED if data.get("task"):
            reason = describe_reason(data)
            tail = f": {reason}" if reason else ""
            note = f" · needs a person{tail}"
            return EventSentence(
                "s-escalated", agent, "needs a person for", "red", about.quote, tail, note
            )
        case Kind.ESCALATION_REOPENED:
            note = " · answer taken back, needs a person again"
            return EventSentence(
                "undo", actor, "took back the answer about", "", about.quote, "", note
            )
        case Kind.ESCALATION_EXPIRED:
            then = f": {EXPIRED.get(str(data.get('on_expiry')), '')}"
            note = f" · nobody answered in time{then}"
            return EventSentence(
                "clock", agent, "got no answer in time about", "red", about.quote, then, note
            )
        case Kind.ESCALATION_REMINDED:
            note = " · still needs a person"
            return EventSentence(
                "clock", agent, "still needs a person for", "amber", about.quote, "", note
            )
        case Kind.ESCALATION_ASSIGNED:
            to = str(data.get("user") or "nobody")
            note = f" · {to} takes care of it"
            return EventSentence(
                "person", actor, f"gave {to} the care of", "", about.quote, "", note
            )
        case Kind.ESCALATION_COMMENTED:
            said = " ".join(str(data.get("text") or "").split())[:QUOTE]
            return EventSentence(
                "pen", actor, "remarked on", "", about.quote, f": {said}", f" · {said}"
            )
        case Kind.ESCALATION_WITHDRAWN:
            note = " · needs no answer any more"
            return EventSentence(
                "s-aborted", actor, "withdrew the question about", "", about.quote, "", note
            )
        case Kind.ESCALATION_OPENED:
            needs = "needs a person"
            tail, note = f". It {needs}", f" · {needs}"
            return EventSentence("s-escalated", agent, "ignored", "red", about.quote, tail, note)
        case Kind.ESCALATION_RESOLVED:
            did = str(data.get("action") or "")
            answered = f"answered for {agent}"
            return EventSentence(
                "person", actor, answered, "", about.quote, f": {did}", f" · {did}"
            )
    return unknown(event)


# icon, what somebody does, tone, and what was done
PATTERNS = {
    Kind.PATTERN_IGNORED: ("s-skipped", "ignores the failures", "", "ignored"),
    Kind.PATTERN_RESOLVED: ("s-done", "resolved the failures", "green", "resolved"),
    Kind.PATTERN_REOPENED: ("undo", "opened again the failures", "", "opened again"),
}


def describe_pattern_event(event: Event, about: EventSubject) -> EventSentence:
    actor = who_of(event)
    if event.kind == Kind.PATTERN_REGRESSED:
        note = " · came again although it was resolved"
        return EventSentence(
            "s-failed", about.agent or actor, "brought back", "red", about.quote, "", note
        )
    if event.kind == Kind.PATTERN_REOPENED and event.actor_type != "user":
        note = " · came again, ignored until now"
        return EventSentence(
            "undo", about.agent or actor, "brought back", "", about.quote, "", note
        )
    if event.kind in PATTERNS:
        icon, does, tone, done = PATTERNS[Kind(event.kind)]
        return EventSentence(icon, actor, does, tone, about.quote, "", f" · {done}")
    return unknown(event)


def plain(icon: str, who: str, does: str, tail: str = "") -> EventSentence:
    """A sentence that quotes nothing: the log repeats it without `who`."""
    return EventSentence(icon, who, does, tail=tail, note=f"{does[:1].upper()}{does[1:]}{tail}")


def unknown(event: Event) -> EventSentence:
    return EventSentence("info", who_of(event), event.kind, note=event.kind)


def who_of(event: Event) -> str:
    return event.actor_name or event.actor_type
