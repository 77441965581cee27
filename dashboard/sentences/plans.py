"""Describe the journal of plans in sentences (pure), for feeds, the log and a plan's history."""

from dashboard.sentences.event_sentence import EventSentence, EventSubject
from dashboard.wording.formatting import counted
from ledger.journal import Kind
from ledger.models import Event

# icon, verb, tone
PLANS = {
    Kind.PLAN_IMPORTED: ("plus", "imported", ""),
    Kind.PLAN_UPDATED: ("pen", "changed", ""),
    Kind.PLAN_PAUSED: ("pause", "paused", "amber"),
    Kind.PLAN_RESUMED: ("play", "resumed", "blue"),
    Kind.PLAN_ABORTED: ("s-aborted", "aborted", "red"),
    Kind.PLAN_RESTARTED: ("undo", "restarted", "blue"),
}


# keys under which an import counts tasks
DIFF = ("added", "changed", "aborted")


def describe_plan_event(event: Event, about: EventSubject) -> EventSentence:
    who, quote = event.actor_name or event.actor_type, about.quote
    if event.kind == Kind.PLAN_COMPLETED:
        return EventSentence("s-done", "The plan", "", "green", quote, " completed", " · completed")
    if event.kind == Kind.PLAN_STUCK:
        why = ": none of its tasks can start"
        return EventSentence(
            "s-blocked", "The plan", "is stuck", "red", quote, why, f" · stuck{why}"
        )
    icon, does, tone = PLANS.get(Kind(event.kind), ("info", event.kind, ""))
    more = detail(event)
    note = f" · {does}{more}" if quote else f"{does[:1].upper()}{does[1:]}{more}"
    return EventSentence(icon, who, does, tone, quote, more, note)


def detail(event: Event) -> str:
    data = event.data
    found = []
    if event.kind == Kind.PLAN_RESTARTED and data.get("run"):
        found.append(f"as run {data['run']}")
    if isinstance(data.get("tasks"), int):
        found.append(f"with {counted(data['tasks'], 'task')}")
    if data.get("carried"):
        found.append(f"{data['carried']} carried over")
    if event.kind == Kind.PLAN_UPDATED:
        found += [f"{data[name]} {name}" for name in DIFF if isinstance(data.get(name), int)]
    said = f" {', '.join(found)}" if found else ""
    return f"{said}: {data['reason']}" if data.get("reason") else said
