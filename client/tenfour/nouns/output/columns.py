"""Columns of a list and facts of a record: how each is read from the API's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenfour.commands.display import STYLE_OF, Screen, ago
from tenfour.http.values import instant

Row = Mapping[str, Any]
Read = Callable[[Row, Screen], str]


@dataclass(frozen=True)
class Column:
    """A column, or a fact of a record, which is left out where it is empty."""

    name: str
    read: Read
    # of STYLES, or "state" for the color of the state that it shows
    style: str = ""
    # Of a table that is too wide, these columns are cut first.
    stretch: bool = False

    def style_of(self, text: str) -> str:
        return STYLE_OF.get(text.split(" ")[0], "") if self.style == "state" else self.style


def value_of(row: Row, path: str) -> Any:
    """Return the value at a path such as `breaker.state`, or None."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def text_of(value: Any) -> str:
    """Return a value as people read it.

    >>> text_of(None), text_of(True), text_of(["a", "b"]), text_of(3)
    ('', 'yes', 'a, b', '3')
    """
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(text_of, value))
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text_of(each) or '-'}" for name, each in value.items())
    return str(value)


def plain(path: str, name: str | None = None, *, style: str = "", stretch: bool = False) -> Column:
    """Return the column of a field as it is."""
    label = name or path.rpartition(".")[2].replace("_", " ")
    return Column(label, lambda row, _: text_of(value_of(row, path)), style, stretch)


def state(path: str = "state", name: str | None = None) -> Column:
    return plain(path, name, style="state")


def identity(path: str = "id", name: str | None = None) -> Column:
    """Return the column of an id: on a terminal its last 8 digits, as the pages print it."""

    def read(row: Row, screen: Screen) -> str:
        text = text_of(value_of(row, path))
        return text[-8:] if screen.tty and len(text) == 36 else text

    return Column(name or path, read, "dim")


def whole(path: str = "id", name: str | None = None) -> Column:
    """Return the fact of an id, which a record shows whole."""
    return plain(path, name, style="dim")


def time(path: str, name: str | None = None) -> Column:
    """Return the column of a time: on a terminal how long ago, else as the API has it."""

    def read(row: Row, screen: Screen) -> str:
        at = instant(text := text_of(value_of(row, path)))
        return ago(at, screen.now) if at and screen.tty else text

    return Column(name or path.removesuffix("_at").replace("_", " "), read, "dim")


def computed(name: str, read: Callable[[Row], str], *, stretch: bool = False) -> Column:
    return Column(name, lambda row, _: read(row), stretch=stretch)
