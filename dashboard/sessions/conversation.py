"""Lay out a session's messages as people read a conversation (pure).

Prompts and answers are turns. A tool call and its result are one line, calls between two answers
stand in one box, system records and long runs fold, and each batch ends with a cut.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from dashboard.sessions.conversation_items import (
    BatchLine,
    Block,
    CallLine,
    Cut,
    Delivery,
    Fold,
    Item,
    Noise,
    Record,
    Said,
    Turn,
)
from dashboard.sessions.tool_lines import describe_argument, describe_result, icon_of, joined
from ledger.sessions.message_parts import Call, Media, Result, Text, Thinking

# a longer run of the agent's turns keeps its ends and folds the rest
RUN_LENGTH, RUN_HEAD, RUN_TAIL = 12, 4, 4
# longer texts are fetched when they are opened
INLINE = 4_000
# the beginning of a record that a program wrote in the person's name; also used in PostgreSQL
RECORD_PATTERN = (
    r"^\s*(<(system-reminder|environment_context|user_instructions|permissions|"
    r"local-command-stdout|local-command-caveat|command-name|command-message|task-notification)"
    r"|# AGENTS\.md|Caveat: The messages below)"
)
RECORD = re.compile(RECORD_PATTERN)


@dataclass(slots=True)
class Layout:
    """The items above the next message."""

    results: dict[str, tuple[Said, Result, int]]
    called: set[str]
    batches: Mapping[int, BatchLine]
    contents: set[str] = field(default_factory=set)  # the contents of delivered instructions
    items: list[Item] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    batch: int | None = None

    def add(self, item: Item) -> None:
        self.end_noise()
        self.items.append(item)

    def end_noise(self) -> None:
        if self.records:
            self.items.append(Noise(tuple(self.records)))
            self.records = []

    def agent_turn(self, said: Said, *, is_new: bool = False) -> Turn:
        """Return the agent's current turn, or begin one; the caller appends it to the items."""
        last = self.items[-1] if self.items and not self.records else None
        todos = frozenset() if said.todo is None else frozenset((said.todo,))
        if isinstance(last, Turn) and last.kind == "agent" and not (is_new and last.lines):
            self.items.pop()
            return replace(last, state=worse(last, said), todos=last.todos | todos)
        self.end_noise()
        return Turn("agent", said.number, said.at, said.state, todos=todos)

    def end_batch(self, batch: int | None) -> None:
        if self.batch is not None and batch != self.batch:
            self.add(Cut(self.batches.get(self.batch, BatchLine(self.batch, "running", ""))))
        self.batch = batch


def worse(turn: Turn, said: Said) -> str:
    # The first of these states that occurs is shown.
    order = ("failed", "running", "pending", "success", "disabled")
    return min(turn.state, said.state, key=order.index)


def lay_out(
    messages: Sequence[Said],
    batches: Mapping[int, BatchLine],
    *,
    deliveries: Sequence[Delivery] = (),
    is_end: bool = True,
    folds: bool = True,
) -> list[Item]:
    """Return the items of a page; `is_end` says that the last batch may end here."""
    results: dict[str, tuple[Said, Result, int]] = {}
    called: set[str] = set()
    for said in messages:
        for at, part in enumerate(said.parts):
            if isinstance(part, Result):
                results[part.id] = (said, part, said.lengths.get(at, len(part.text)))
            elif isinstance(part, Call):
                called.add(part.id)
    page = Layout(results, called, batches, contents={each.content for each in deliveries})
    waiting = deque(sorted(deliveries, key=lambda each: each.at))
    for said in messages:
        while waiting and waiting[0].at <= said.at:
            page.add(waiting.popleft())
        page.end_batch(said.batch)
        add_message(page, said)
    if is_end:
        page.end_batch(None)
    page.end_noise()
    items = open_first_error(page.items)
    return fold_runs(items) if folds else items


def add_message(page: Layout, said: Said) -> None:
    if said.role == "system" or is_record(said):
        record = record_of(said)
        # a hook's record of an instruction that the conversation shows on its own
        if not any(content in record.text for content in page.contents):
            page.records.append(record)
    elif said.role == "user" and any(isinstance(part, Text | Media) for part in said.parts):
        add_prompt(page, said)
    else:
        add_answer(page, said)


def is_record(said: Said) -> bool:
    """Return whether a program wrote this message in the person's name."""
    texts = [part.text for part in said.parts if isinstance(part, Text)]
    others = any(isinstance(part, Result | Call) for part in said.parts)
    return said.role == "user" and not others and bool(texts) and all(map(RECORD.match, texts))


def record_of(said: Said) -> Record:
    text = "\n\n".join(part.text for part in said.parts if isinstance(part, Text | Thinking))
    match = RECORD.match(text)
    tag = (match[2] or "") if match else ""
    label = tag.replace("-", " ").replace("_", " ") if tag else name_of(text)
    return Record(said.number, label or "system message", text[:INLINE])


def name_of(text: str) -> str:
    """Return the name that a stored record begins with, such as "hook result", or nothing."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    head = line.partition(":")[0]
    return head.lower() if 0 < len(head) <= 32 and len(head) < len(line) else "system message"


def add_prompt(page: Layout, said: Said) -> None:
    for part in said.parts:
        if isinstance(part, Result):
            add_orphan(page, said, part)
    blocks = tuple(blocks_of(said, (Text,)))
    media = tuple(describe_media(part) for part in said.parts if isinstance(part, Media))
    todos = frozenset() if said.todo is None else frozenset((said.todo,))
    turn = Turn("prompt", said.number, said.at, said.state, blocks=blocks, media=media, todos=todos)
    page.add(turn)


def add_answer(page: Layout, said: Said) -> None:
    blocks = tuple(blocks_of(said, (Text, Thinking)))
    if blocks:
        turn = page.agent_turn(said, is_new=True)
        page.items.append(replace(turn, blocks=turn.blocks + blocks))
    for part in said.parts:
        if isinstance(part, Call):
            turn = page.agent_turn(said)
            line = describe_call(said, part, page.results.get(part.id))
            page.items.append(replace(turn, lines=(*turn.lines, line)))
        elif isinstance(part, Result):
            # The call may be on another page.
            add_orphan(page, said, part)
        elif isinstance(part, Media):
            turn = page.agent_turn(said)
            page.items.append(replace(turn, media=(*turn.media, describe_media(part))))


def blocks_of(said: Said, kinds: tuple[type, ...]) -> Iterable[Block]:
    for at, part in enumerate(said.parts):
        if isinstance(part, Text | Thinking) and isinstance(part, kinds) and part.text.strip():
            length = said.lengths.get(at, len(part.text))
            yield Block(
                said.number,
                part.text.strip()[:INLINE],
                is_thought=isinstance(part, Thinking),
                length=length if length > INLINE else 0,
            )


def describe_media(part: Media) -> str:
    return f"{part.kind} {part.name}".strip()


def describe_call(said: Said, call: Call, answer: tuple[Said, Result, int] | None) -> CallLine:
    line = CallLine(
        said.number,
        0,
        icon_of(call.name),
        call.name,
        describe_argument(call.arguments),
        "",
        input=format_arguments(call),
        is_long=bool(said.lengths),
    )
    if answer is None:
        return replace(line, result="no result yet", is_answered=False)
    by, result, length = answer
    return replace(
        line,
        result_number=by.number,
        result=describe_result(
            call.arguments, result.text, is_error=result.is_error, length=length
        ),
        output=result.text,
        is_error=result.is_error,
        is_long=line.is_long or length + len(line.input) > INLINE,
    )


def format_arguments(call: Call) -> str:
    said = []
    for key, value in call.arguments.items():
        if key in ("command", "cmd"):
            said.append(f"$ {joined(value)}")
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        said.append(f"{key}:\n{text}" if "\n" in text else f"{key}: {text}")
    return "\n".join(said)


def add_orphan(page: Layout, said: Said, part: Result) -> None:
    if part.id in page.called:
        return
    length = said.lengths.get(said.parts.index(part), len(part.text))
    line = CallLine(
        0,
        said.number,
        "play",
        "Result",
        "",
        describe_result({}, part.text, is_error=part.is_error, length=length),
        output=part.text,
        is_error=part.is_error,
        is_long=length > INLINE,
    )
    turn = page.agent_turn(said)
    page.items.append(replace(turn, lines=(*turn.lines, line)))


def open_first_error(items: list[Item]) -> list[Item]:
    for n, item in enumerate(items):
        if isinstance(item, Turn) and item.is_error:
            at = next(at for at, line in enumerate(item.lines) if line.is_error)
            # A long line would have to be fetched, so it stays closed.
            opened = replace(item.lines[at], is_open=not item.lines[at].is_long)
            lines = (*item.lines[:at], opened, *item.lines[at + 1 :])
            return [*items[:n], replace(item, lines=lines), *items[n + 1 :]]
    return items


# ---- folds


def fold_runs(items: list[Item]) -> list[Item]:
    folded: list[Item] = []
    for is_run, group in groupby(items, key=is_of_run):
        run = list(group)
        turns = [at for at, item in enumerate(run) if isinstance(item, Turn)]
        if not is_run or len(turns) <= RUN_LENGTH:
            folded += run
            continue
        start, end = turns[RUN_HEAD], turns[-RUN_TAIL]
        folded += [*run[:start], Fold(tuple(run[start:end])), *run[end:]]
    return folded


def is_of_run(item: Item) -> bool:
    # Prompts and messages of the buffer are never folded.
    if isinstance(item, Turn):
        return item.kind == "agent" and item.state == "success"
    return isinstance(item, Cut | Noise)
