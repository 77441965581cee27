"""The parts of a conversation on a page: turns, calls, records, cuts and folds (pure)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from dashboard.wording.formatting import counted
from ledger.sessions.message_parts import Part

# a longer box of calls keeps its ends and folds the rest
BOX_LENGTH, BOX_HEAD, BOX_TAIL = 14, 5, 5


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it is stored; `lengths` has the true length of each part that was cut."""

    number: int
    role: str
    parts: tuple[Part, ...]
    state: str
    at: datetime
    batch: int | None = None
    attempt: UUID | None = None
    todo: int | None = None
    lengths: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph of a turn; `length` is that of the whole text if only its head is shown."""

    number: int
    text: str
    is_thought: bool = False
    length: int = 0


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call and its result; `number` is 0 if the call, or its result, is on another page.

    `anchors` has the messages that a link finds here, `position` the place in the turn.
    """

    number: int
    result_number: int
    icon: str
    name: str
    argument: str
    result: str
    input: str = ""
    output: str = ""
    is_error: bool = False
    is_answered: bool = True
    is_long: bool = False
    is_open: bool = False
    anchors: tuple[int, ...] = ()
    position: int = 0

    @property
    def anchor(self) -> int:
        return self.number or self.result_number


@dataclass(frozen=True, slots=True)
class Box:
    """Calls in a frame, or a fold of them with what it holds."""

    lines: tuple[CallLine, ...]
    folded: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt, or the agent's words with the calls that follow."""

    kind: str  # prompt, agent
    number: int
    at: datetime
    state: str
    blocks: tuple[Block, ...] = ()
    lines: tuple[CallLine, ...] = ()
    media: tuple[str, ...] = ()
    todos: frozenset[int] = frozenset()  # the to-dos that its messages belong to

    @property
    def todo_numbers(self) -> list[int]:
        return sorted(self.todos)

    @property
    def boxes(self) -> list[Box]:
        found = {self.number, *(block.number for block in self.blocks)}
        return fold_calls(place_lines(self.lines, found))

    @property
    def is_error(self) -> bool:
        return any(line.is_error for line in self.lines)

    @property
    def version(self) -> str:
        """A value that changes when the turn grows or is processed, so that its row flashes."""
        answered = sum(line.is_answered for line in self.lines)
        parts = (len(self.blocks), len(self.lines), answered, len(self.todos), self.state)
        return ".".join(map(str, parts))


@dataclass(frozen=True, slots=True)
class Record:
    """A hidden message from a program to the agent."""

    number: int
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Noise:
    """Consecutive system records."""

    records: tuple[Record, ...]
    kind: str = "noise"

    @property
    def number(self) -> int:
        return self.records[0].number

    @property
    def title(self) -> str:
        return f"{counted(len(self.records), 'system record')} hidden"

    @property
    def summary(self) -> str:
        counts = Counter(record.label for record in self.records)
        return ", ".join(label if n == 1 else f"{n} × {label}" for label, n in counts.items())


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A batch in one line: its state and its result."""

    number: int
    state: str
    says: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a batch."""

    batch: BatchLine
    kind: str = "cut"


@dataclass(frozen=True, slots=True)
class Fold:
    """The middle of a long run."""

    items: "tuple[Item, ...]"
    kind: str = "fold"

    @property
    def turns(self) -> "list[Turn]":
        return [item for item in self.items if isinstance(item, Turn)]

    @property
    def number(self) -> int:
        return self.turns[0].number

    @property
    def title(self) -> str:
        return f"{counted(len(self.turns), 'turn')} folded"

    @property
    def errors(self) -> int:
        return sum(line.is_error for turn in self.turns for line in turn.lines)

    @property
    def summary(self) -> str:
        calls = sum(len(turn.lines) for turn in self.turns)
        batches = [item.batch.number for item in self.items if isinstance(item, Cut)]
        last = self.turns[-1]
        end = max([last.number, *(each.number for each in last.blocks), *map(last_of, last.lines)])
        said = [counted(calls, "call")] if calls else []
        said += [counted(self.errors, "error")] if self.errors else []
        said += [f"batches {batches[0]} to {batches[-1]}"] if len(batches) > 1 else []
        said += [f"batch {batches[0]}"] if len(batches) == 1 else []
        return f"#{self.number} to #{end}: {', '.join(said)}" if said else f"to #{end}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """An instruction that was delivered to the agent between two messages."""

    id: UUID
    text: str  # the text that the agent got
    content: str  # the text that was sent
    state: str
    at: datetime
    acknowledged_at: datetime | None = None
    kind: str = "instruction"

    @property
    def took(self) -> timedelta | None:
        return self.acknowledged_at - self.at if self.acknowledged_at else None


Item = Turn | Noise | Cut | Fold | Delivery


def last_of(line: CallLine) -> int:
    return max(line.number, line.result_number)


def place_lines(lines: tuple[CallLine, ...], found: set[int]) -> tuple[CallLine, ...]:
    """Return the lines with their places; a message in `found` has its anchor elsewhere."""
    placed = []
    for position, line in enumerate(lines, 1):
        anchors = {line.number, line.result_number} - {0} - found
        found = found | anchors
        placed.append(replace(line, anchors=tuple(sorted(anchors)), position=position))
    return tuple(placed)


def fold_calls(lines: tuple[CallLine, ...]) -> list[Box]:
    if not lines:
        return []
    if len(lines) <= BOX_LENGTH:
        return [Box(lines)]
    middle = lines[BOX_HEAD:-BOX_TAIL]
    return [Box(lines[:BOX_HEAD]), Box(middle, folded=describe_box(middle)), Box(lines[-BOX_TAIL:])]


def describe_box(lines: Sequence[CallLine]) -> str:
    counts = Counter(line.name for line in lines).most_common(4)
    errors = sum(line.is_error for line in lines)
    said = [f"{n} {name}" for name, n in counts]
    return ", ".join(said + ([counted(errors, "error")] if errors else []))
