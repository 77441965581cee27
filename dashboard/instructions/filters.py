"""What a query box asks for (pure): `agent:gemini urgency:urgent ack:>30s some words`.

A key takes several values with commas (or), a minus before it excludes; whatever is not a known
key is looked for in the text. Nonsense becomes a sentence in `problems`, and the rest still counts.
"""

import re
import unicodedata
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ledger.states import LEVELS, InstructionState

MOST_CHARACTERS = 300
MOST_WORDS = 8

# what a person may call a state -> the states it stands for
STATES: dict[str, tuple[InstructionState, ...]] = {
    "waiting": (InstructionState.QUEUED, InstructionState.DELIVERED),
    **{state.value: (state,) for state in InstructionState},
    "gave-up": (InstructionState.FAILED,),
}
URGENCIES = {level.value: number for number, level in enumerate(LEVELS)}
# keys whose values are known
CLOSED = {"state": tuple(STATES), "urgency": tuple(URGENCIES)}
KEYS = ("agent", "from", "state", "urgency", "ack")

TOKEN = re.compile(r'(?P<minus>-)?(?P<key>[a-z]+):(?P<value>"[^"]*"|\S+)|"(?P<words>[^"]*)"|\S+')
ACK = re.compile(r"(?P<op>[<>])(?P<number>\d{1,6}(?:\.\d+)?)(?P<unit>ms|s|m|h)?")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Values:
    """What a key may be, and what it must not be."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query; `text` is what the box shows."""

    text: str = ""
    agent: Values = Values()
    sender: Values = Values()
    state: Values = Values()
    urgency: Values = Values()
    ack_over: float | None = None
    ack_under: float | None = None
    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def one_agent(self) -> str:
        """The agent's name, where exactly one is asked for."""
        return one_of(self.agent)

    @property
    def segment(self) -> str:
        """Which button of the list stands for the state: 'all', a name of STATES, or none."""
        if self.state == Values():
            return "all"
        return one_of(self.state)

    def with_state(self, name: str) -> str:
        """The text of the same query with another state, or any."""
        rest = " ".join(token for token in tokens(self.text) if not is_about(token, "state"))
        return " ".join(filter(None, [rest, f"state:{name}" if name else ""]))

    def stateless(self) -> "Query":
        """The same query for any state: what the counts beside the states count."""
        return replace(self, text="", state=Values())


def one_of(values: Values) -> str:
    return values.wanted[0] if len(values.wanted) == 1 and not values.unwanted else ""


def tokens(text: str) -> Iterator[str]:
    return (match[0] for match in TOKEN.finditer(text))


def is_about(token: str, key: str) -> bool:
    return token.removeprefix("-").startswith(f"{key}:")


def clean(text: str) -> str:
    """One line without control characters, of a length that a person could have typed."""
    line = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in text)
    return " ".join(line.split())[:MOST_CHARACTERS].strip()


def term(key: str, value: str) -> str:
    """The query that finds `value` under `key`."""
    return f'{key}:"{value}"' if re.search(r"[\s,]", value) else f"{key}:{value}"


def parse(text: str) -> Query:
    """The query in `text`; never fails."""
    text = clean(text)
    found: dict[str, Values] = {}
    problems: list[str] = []
    words: list[str] = []
    bounds: dict[str, float] = {}
    for match in TOKEN.finditer(text):
        key = match["key"]
        if key not in KEYS:
            words.append(match["words"] if match["words"] is not None else match[0])
        elif key == "ack":
            bounds |= ack_bounds(match["value"], problems)
        else:
            names = values_of(match["value"], key, CLOSED.get(key, ()), problems)
            found[key] = merged(found.get(key, Values()), names, unwanted=bool(match["minus"]))
    ids, rest = ids_and_words(words, problems)
    return Query(
        text=text,
        agent=found.get("agent", Values()),
        sender=found.get("from", Values()),
        state=found.get("state", Values()),
        urgency=found.get("urgency", Values()),
        ack_over=bounds.get(">"),
        ack_under=bounds.get("<"),
        ids=ids,
        words=rest,
        problems=tuple(problems),
    )


def values_of(value: str, key: str, known: tuple[str, ...], problems: list[str]) -> tuple[str, ...]:
    """The values of a key; where only some are `known`, the others become problems."""
    quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
    names = [value[1:-1]] if quoted else [name for name in value.split(",") if name]
    if not known:
        return tuple(filter(None, names))
    names = [name.lower() for name in names]
    for name in names:
        if name not in known:
            problems.append(f"There is no {key} “{name}”: it is one of {', '.join(known)}.")
    return tuple(name for name in names if name in known)


def ids_and_words(
    found: list[str], problems: list[str]
) -> tuple[tuple[uuid.UUID, ...], tuple[str, ...]]:
    """What is looked for beside the keys: ids, and so many words."""
    if len(found) > MOST_WORDS:
        problems.append(f"Only the first {MOST_WORDS} words are looked for.")
    ids = tuple(each for each in map(as_id, found) if each)
    return ids, tuple(word for word in found if word and not as_id(word))[:MOST_WORDS]


def merged(before: Values, names: tuple[str, ...], *, unwanted: bool) -> Values:
    if unwanted:
        return replace(before, unwanted=before.unwanted + names)
    return replace(before, wanted=before.wanted + names)


def ack_bounds(value: str, problems: list[str]) -> dict[str, float]:
    """How long an acknowledgement took, as {">": seconds} or {"<": seconds}."""
    match = ACK.fullmatch(value)
    if match is None:
        problems.append(f"“ack:{value}” is not a time: write ack:>30s or ack:<2m.")
        return {}
    return {match["op"]: float(match["number"]) * SECONDS[match["unit"] or "s"]}


def as_id(word: str) -> uuid.UUID | None:
    """The id that a word is, however it was copied."""
    if len(word) < 32:
        return None
    try:
        return uuid.UUID(word)
    except ValueError:
        return None
