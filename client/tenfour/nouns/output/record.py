"""One row in full: its title, its facts, and the texts that it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tenfour.commands.display import Screen, clean, one_line, pad
from tenfour.nouns.output.columns import Column, Row


@dataclass(frozen=True)
class Layout:
    """The parts of a record: the title's column, its facts, and its texts of many lines."""

    title: Column
    facts: Sequence[Column]
    texts: Sequence[Column] = field(default=())


def render_record(layout: Layout, row: Row, screen: Screen) -> Iterator[str]:
    """Return the lines of a record.

    A terminal shows no empty facts. Anywhere else each fact is `name:<tab>text`, empty or not.
    """
    title = one_line(layout.title.read(row, screen))
    facts = [(fact, one_line(fact.read(row, screen))) for fact in layout.facts]
    if screen.tty:
        facts = [(fact, text) for fact, text in facts if text]
        yield screen.paint(title, "bold")
        width = max((len(fact.name) for fact, _ in facts), default=0) + 2
        for fact, text in facts:
            label = screen.paint(pad(f"{fact.name}:", width), "dim")
            yield f"{label} {screen.paint(text, fact.style_of(text))}"
    else:
        yield f"{layout.title.name}:\t{title}"
        yield from (f"{fact.name}:\t{text}" for fact, text in facts)
    for column in layout.texts:
        if text := clean(column.read(row, screen)).strip("\n"):
            yield from _text(column.name, text, screen)


def _text(name: str, text: str, screen: Screen) -> Iterator[str]:
    if not screen.tty:
        yield f"-- {name}"
        yield text
        return
    yield ""
    yield screen.paint(name.capitalize(), "bold")
    yield from (f"  {line}".rstrip() for line in text.splitlines())
