"""Describe the journal of standing instructions in sentences (pure)."""

from dashboard.sentences.event_sentence import EventSentence, EventSubject, who_of
from ledger.journal import Kind
from ledger.models import Event

# icon, verb, tone
RULES = {
    Kind.STANDING_INSTRUCTION_CREATED: ("plus", "created the rule", ""),
    Kind.STANDING_INSTRUCTION_UPDATED: ("pen", "changed the rule", ""),
    Kind.STANDING_INSTRUCTION_PAUSED: ("pause", "paused the rule", "amber"),
    Kind.STANDING_INSTRUCTION_RESUMED: ("play", "switched on the rule", "blue"),
    Kind.STANDING_INSTRUCTION_RETIRED: ("trash", "retired the rule", ""),
}
# what people call the columns that an event names
FIELDS = {
    "agent": "its agent",
    "content": "the text",
    "event": "the trigger",
    "expect_match": "what it expects",
    "expect_type": "what it expects",
    "hold_stop": "holding the stop",
    "interval_s": "the interval",
    "match": "the conditions",
    "max_retries": "the reminders",
    "on_failed": "the end",
    "once_per": "how often",
    "plan": "the plan",
    "signal_type": "the signal",
    "task_type": "the task type",
}


def describe_rule_event(event: Event, about: EventSubject) -> EventSentence:
    icon, does, tone = RULES.get(Kind(event.kind), ("info", event.kind, ""))
    more = describe_fields(event)
    note = f" · {does}{more}" if about.quote else f"{does[:1].upper()}{does[1:]}{more}"
    return EventSentence(icon, who_of(event), does, tone, about.quote, more, note)


def describe_fields(event: Event) -> str:
    changed = event.data.get("changed")
    if not isinstance(changed, list):
        return ""
    names = dict.fromkeys(FIELDS.get(str(name), str(name)) for name in changed)
    return f": {', '.join(names)}"
