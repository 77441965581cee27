"""Parse the text of a query box (pure): `agent:gemini urgency:urgent ack:>30s some words`.

Each page declares its keys. A key takes several values with commas (or), and a minus before it
excludes them. A term that makes no sense becomes a sentence in `problems`; the rest still counts.
"""

import re
import unicodedata
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

MAX_CHARACTERS = 300
MAX_WORDS = 8

TOKEN = re.compile(r'(?P<minus>-)?(?P<key>[a-z]+):(?P<value>"[^"]*"|\S+)|"(?P<words>[^"]*)"|\S+')


@dataclass(frozen=True, slots=True)
class Values:
    """The values that a key must have one of, and those it must not have."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


ANY = Values()


@dataclass(frozen=True, slots=True)
class Names:
    """A key whose values are names: any, or only the `choices`.

    `suggest` returns the choices to show for an unknown name; without it, all of them are shown.
    """

    choices: tuple[str, ...] = ()
    suggest: Callable[[str], tuple[str, ...]] | None = None


# a key that reads its value itself: returns what to remember, or raises ValueError with a sentence
Reader = Callable[[str], Mapping[str, Any]]


@dataclass(slots=True)
class Parsed:
    """The terms of a query box before a page makes its query of them."""

    text: str
    names: dict[str, Values] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)  # by the readers
    rest: list[str] = field(default_factory=list)  # words without a key
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxQuery:
    """A parsed query; `text` is what the box shows."""

    text: str = ""
    problems: tuple[str, ...] = field(default=(), compare=False)

    def having(self, key: str, term: str) -> str:
        """Return the query's text with another term for `key`, or with none if it is empty."""
        return " ".join(filter(None, [self.without(key), term]))

    def without(self, *keys: str) -> str:
        """Return the query's text without the terms of these keys."""
        kept = (token for token in tokens(self.text) if not has_key(token, keys))
        return " ".join(kept)


def parse(text: str, keys: Mapping[str, Names | Reader]) -> Parsed:
    """Split a query's text into the terms of its keys and other words; never fails."""
    parsed = Parsed(clean(text))
    for match in TOKEN.finditer(parsed.text):
        key = match["key"]
        kind = keys.get(key)
        if kind is None:
            parsed.rest.append(match["words"] if match["words"] is not None else match[0])
        elif isinstance(kind, Names):
            names = read_names(match["value"], key, kind, parsed.problems)
            before = parsed.names.get(key, ANY)
            parsed.names[key] = merge(before, names, unwanted=bool(match["minus"]))
        else:
            try:
                parsed.read |= kind(match["value"])
            except ValueError as problem:
                parsed.problems.append(str(problem))
    return parsed


def read_names(value: str, key: str, kind: Names, problems: list[str]) -> tuple[str, ...]:
    """Return the names in a value; an unknown one becomes a problem instead."""
    quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
    names = [value[1:-1]] if quoted else [name for name in value.split(",") if name]
    if not kind.choices:
        return tuple(filter(None, names))
    names = [name.lower() for name in names]
    for name in names:
        if name not in kind.choices:
            near = kind.suggest(name) if kind.suggest else kind.choices
            problems.append(f"Unknown {key} “{name}”. Use one of: {', '.join(near)}.")
    return tuple(name for name in names if name in kind.choices)


def merge(before: Values, names: tuple[str, ...], *, unwanted: bool) -> Values:
    if unwanted:
        return replace(before, unwanted=before.unwanted + names)
    return replace(before, wanted=before.wanted + names)


def split_ids(
    words: list[str], problems: list[str]
) -> tuple[tuple[uuid.UUID, ...], tuple[str, ...]]:
    """Split the words without a key into ids and words to search for, up to MAX_WORDS."""
    if len(words) > MAX_WORDS:
        problems.append(f"Only the first {MAX_WORDS} words are searched.")
    ids = tuple(each for each in map(as_id, words) if each)
    return ids, tuple(word for word in words if word and not as_id(word))[:MAX_WORDS]


def only_value(values: Values) -> str:
    """Return the value if exactly one is asked for, else an empty string."""
    return values.wanted[0] if len(values.wanted) == 1 and not values.unwanted else ""


def tokens(text: str) -> Iterator[str]:
    return (match[0] for match in TOKEN.finditer(text))


def has_key(token: str, keys: tuple[str, ...]) -> bool:
    return token.removeprefix("-").startswith(tuple(f"{key}:" for key in keys))


def clean(text: str) -> str:
    """Return the text as one line without control characters, cut to MAX_CHARACTERS."""
    line = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in text)
    return " ".join(line.split())[:MAX_CHARACTERS].strip()


def term(key: str, value: str) -> str:
    """Return the term that asks for `value` under `key`."""
    return f'{key}:"{value}"' if re.search(r"[\s,]", value) else f"{key}:{value}"


def as_id(word: str) -> uuid.UUID | None:
    """Return the id that a word is, in any notation, or None."""
    if len(word) < 32:
        return None
    try:
        return uuid.UUID(word)
    except ValueError:
        return None
