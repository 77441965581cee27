"""Draw a plan file as a tree of text, as a dry run shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DEEPEST = 12  # deeper levels are drawn like this one
SIGNS = {"added": "+", "changed": "~", "untouched": "!", "done": "x"}
LEGEND = "+ new, ~ changed, ! started and kept, x done in the file"


def draw_tree(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each task, and below it its command, its criteria, and its warnings."""
    branches = draw_branches([min(int(row["level"]), DEEPEST) for row in rows])
    width = max((len(str(row["line"])) for row in rows), default=1)
    for row, (branch, below) in zip(rows, branches, strict=True):
        line = str(row["line"]) if row["line"] else ""
        start = f"{line:>{width}} {SIGNS.get(row['change'], ' ')} "
        after = f"  after {', '.join(row['after'])}" if row["after"] else ""
        name = f"{row['name']} " if row["name"] else ""
        yield f"{start}{branch}{name}{row['title']}{after}".rstrip()
        indent = f"{'':>{width}}   {below}  "
        if row["command"]:
            proposed = " (proposed, not run)" if row["is_proposed"] else ""
            yield f"{indent}$ {' '.join(row['command'].split())}{proposed}"
        for check in row["criteria"]:
            yield f"{indent}done when: {check}"
        for warning in row["warnings"]:
            yield f"{indent}warning: {warning}"


def draw_branches(levels: Sequence[int]) -> list[tuple[str, str]]:
    """Return what stands before each row of a tree, and before the lines below it.

    >>> draw_branches([0, 1, 1])
    [('', '│ '), ('├ ', '│ '), ('└ ', '  ')]
    """
    found = []
    later: set[int] = set()  # the levels that have a row further down
    for level in reversed(levels):
        bars = "".join("│ " if each in later else "  " for each in range(1, level))
        is_last = level not in later
        own = "" if not level else "└ " if is_last else "├ "
        beside = "" if not level else "  " if is_last else "│ "
        parts = "│ " if level + 1 in later else ""
        found.append((bars + own, bars + beside + parts))
        later = {each for each in later if each < level} | {level}
    return found[::-1]


def describe_pairs(problem: Mapping[str, Any]) -> Iterator[str]:
    """Yield an option for each answer to the questions of a merge that can't tell tasks apart."""
    for one in problem.get("ambiguous", ()):
        yield f"{one['ref']} '{one['title']}' ({one['state']}) is in the file:"
        stored = str(one["ref"]).rpartition(":")[2]
        for each in one["candidates"]:
            own = str(each["file_ref"]).rpartition(":")[2]
            yield f"  --pair {own}={stored}  as '{each['title']}'"
            yield f"  --pair {own}=new  not this one: it is a different task"
