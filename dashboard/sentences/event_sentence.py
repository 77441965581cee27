"""The parts of the sentence about an event (pure)."""

from dataclasses import dataclass

from ledger.models import Event
from ledger.values.text import truncate

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


def plain(icon: str, who: str, does: str, tail: str = "") -> EventSentence:
    # The log repeats the sentence without `who`.
    return EventSentence(icon, who, does, tail=tail, note=f"{does[:1].upper()}{does[1:]}{tail}")


def unknown(event: Event) -> EventSentence:
    return EventSentence("info", who_of(event), event.kind, note=event.kind)


def who_of(event: Event) -> str:
    return event.actor_name or event.actor_type
