"""Tables: aligned and cut to the width of a terminal; tab-separated anywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenfour.commands.display import Screen, cut, one_line, width_of
from tenfour.nouns.output.columns import Column, Row

GAP = 2
# A column that may be cut stays this wide as long as others can be cut instead.
STRETCH_AT_LEAST, AT_LEAST = 16, 6


def render_table(columns: Sequence[Column], rows: Sequence[Row], screen: Screen) -> Iterator[str]:
    """Return the lines of a table; tab-separated lines have no head and are never cut.

    A terminal shows no column that is empty in all rows, and fewer columns where it is narrow;
    tab-separated lines have all of them.
    """
    cells = [[one_line(column.read(row, screen)) for column in columns] for row in rows]
    if not screen.tty:
        yield from ("\t".join(line) for line in cells)
        return
    lines = [[column.name.upper() for column in columns], *cells]
    widths = fit_widths(columns, lines, screen.width)
    for number, line in enumerate(lines):
        yield (
            (" " * GAP)
            .join(
                _cell(text, width, column.style_of(text) if number else "dim", screen)
                for column, text, width in zip(columns, line, widths, strict=True)
                if width
            )
            .rstrip()
        )


def _cell(text: str, width: int, style: str, screen: Screen) -> str:
    shown = cut(text, width)
    return screen.paint(shown, style) + " " * (width - width_of(shown))


def fit_widths(columns: Sequence[Column], lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the width of each column, 0 for one that is left out, so that a line fits.

    Long texts are cut first; then columns are left out, from the right; ids stay whole.
    """
    widths = [
        max(map(width_of, texts)) if any(texts[1:]) else 0 for texts in zip(*lines, strict=True)
    ]
    stretch = [at for at, column in enumerate(columns) if column.stretch]
    _shrink(widths, stretch, STRETCH_AT_LEAST, room)
    for at in range(len(columns) - 1, 1, -1):
        if _total(widths) > room and columns[at].name != "id" and not columns[at].stretch:
            widths[at] = 0
    _shrink(widths, stretch, AT_LEAST, room)
    _shrink(widths, range(len(widths)), AT_LEAST, room)
    return widths


def _shrink(widths: list[int], which: Sequence[int], least: int, room: int) -> None:
    while _total(widths) > room:
        widest = max(which, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= least:
            return
        widths[widest] -= 1


def _total(widths: Sequence[int]) -> int:
    used = [width for width in widths if width]
    return sum(used) + GAP * (len(used) - 1)
