"""Draws the modules of the server from their imports.

`python -m docs_site.architecture` writes docs/architecture.svg; a test compares it with the code.
A room is a module or folder directly inside one of the four packages. It stands below all rooms
of its package that import it, so imports point down.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

DRAWING = Path(__file__).resolve().parent.parent / "docs" / "architecture.svg"
# From the top down: each package imports only from those below it.
PACKAGES = ["config", "dashboard", "retries", "ledger"]
LEFT_OUT = {"migrations", "management", "templatetags", "static", "static_root"}

WIDTH = 900
LABEL_WIDTH = 110
ROW_HEIGHT = 28
GAP = 6
LETTER_WIDTH = 6.9  # of the monospaced font at 11 px, with a margin

Imports = dict[str, set[str]]


def find_room(module: str) -> str | None:
    """Return the room that a module stands in: `ledger.tasks` for `ledger.tasks.store`."""
    parts = module.split(".")
    if len(parts) < 2 or parts[1] in LEFT_OUT:
        return None
    return ".".join(parts[:2])


def read_imports(package: str) -> Imports:
    """Return what each room of a package imports from other rooms of the package."""
    graph = grimp.build_graph(package, cache_dir=None)
    imports: Imports = defaultdict(set)
    for module in sorted(graph.modules):
        if room := find_room(module):
            imports[room] |= {
                other
                for target in graph.find_modules_directly_imported_by(module)
                if (other := find_room(target)) and other != room
            }
    return dict(imports)


def find_reached(imports: Imports, start: str) -> set[str]:
    """Return every room that `start` imports, directly or through others."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = imports[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def arrange_rows(imports: Imports) -> list[list[str]]:
    """Return the rooms in rows, importers above what they import.

    Rooms whose modules import each other's (never in a circle of modules, as the import contracts
    hold) stand in one row of their own.
    """
    reached = {room: find_reached(imports, room) for room in imports}
    rows: list[list[str]] = []
    left = set(imports)
    while left:
        row = sorted(
            room
            for room in left
            if all(other in reached[room] for other in left if room in reached[other])
        )
        mutual = [room for room in row if room in reached[room]]
        single = [room for room in row if room not in mutual]
        rows += [each for each in (single, mutual) if each]
        left -= {*row}
    return rows


def wrap_row(row: Iterable[str]) -> list[list[tuple[str, float, float]]]:
    """Return lines of (name, x, width) that fit the drawing."""
    lines: list[list[tuple[str, float, float]]] = [[]]
    x = float(LABEL_WIDTH)
    for room in row:
        name = room.partition(".")[2]
        width = len(name) * LETTER_WIDTH + 16
        if x + width > WIDTH and lines[-1]:
            lines.append([])
            x = LABEL_WIDTH
        lines[-1].append((name, x, width))
        x += width + GAP
    return lines


STYLE = """<style>
text { font: 11px ui-monospace, monospace; fill: #1c2430 }
.title { font-weight: 700; font-size: 13px }
.package { fill: #f4f6f9; stroke: #d5dbe3 }
.room { fill: #fff; stroke: #b4bfcc }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf0 } .package { fill: #171c24; stroke: #2d3643 }
.room { fill: #202733; stroke: #435062 } }
</style>"""


def draw() -> str:
    """Return the drawing as SVG text that follows the reader's light or dark theme."""
    shapes: list[str] = []
    y = 10
    for package in PACKAGES:
        top = y
        body: list[str] = []
        for row in arrange_rows(read_imports(package)):
            for line in wrap_row(row):
                for name, x, width in line:
                    body.append(
                        f'<rect class="room" x="{x:.0f}" y="{y + 8}" width="{width:.0f}"'
                        f' height="{ROW_HEIGHT - 6}" rx="4"/>'
                        f'<text x="{x + 8:.0f}" y="{y + 23}">{escape(name)}</text>'
                    )
                y += ROW_HEIGHT
            y += GAP
        shapes += [
            f'<rect class="package" x="4" y="{top}" width="{WIDTH + 10}" height="{y - top + 6}"'
            ' rx="8"/>',
            f'<text class="title" x="16" y="{top + 24}">{package}</text>',
            *body,
        ]
        y += 20
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 20} {y}" role="img">',
            "<title>The modules of the server. Each imports only from rows below it.</title>",
            STYLE,
            *shapes,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    DRAWING.write_text(draw())
