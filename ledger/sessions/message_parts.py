"""Define the one form in which messages of a conversation are stored, from any sender (pure).

A message is a role and a list of parts. Trackers, pages and readers of transcripts use these
classes; the database holds `parts_as_json`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    """A text by a person or an agent."""

    text: str
    type: str = "text"


@dataclass(frozen=True, slots=True)
class Thinking:
    """An agent's reasoning before its answer."""

    text: str
    type: str = "thinking"


@dataclass(frozen=True, slots=True)
class Call:
    """An agent's call of one of its own tools."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    type: str = "tool_call"


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's answer to the call with the same id."""

    id: str
    text: str
    is_error: bool = False
    type: str = "tool_result"


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a file; only its kind and a name or type are stored."""

    kind: str
    name: str = ""
    type: str = "media"


Part = Text | Thinking | Call | Result | Media
PARTS: dict[str, type[Part]] = {
    "text": Text,
    "thinking": Thinking,
    "tool_call": Call,
    "tool_result": Result,
    "media": Media,
}


def parts_as_json(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return parts as the database stores them.

    >>> parts_as_json([Text("Fix it")])
    [{'text': 'Fix it', 'type': 'text'}]
    """
    return [{name: getattr(part, name) for name in part.__slots__} for part in parts]


def parts_from_json(stored: Sequence[dict[str, Any]]) -> tuple[Part, ...]:
    """Return stored parts as objects.

    >>> parts_from_json([{"type": "text", "text": "Fix it"}])
    (Text(text='Fix it', type='text'),)
    """
    return tuple(PARTS[part["type"]](**part) for part in stored)
