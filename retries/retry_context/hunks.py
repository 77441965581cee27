"""Shorten a diff to its smaller hunks (pure), so that none is cut in the middle."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

# Git begins each file with this line, and each hunk with the other one.
FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
LEFT_OUT = "[… {lines:,} lines left out …]\n"
FILES_LEFT_OUT = "[… more files left out: {files:,} …]\n"
# as long as the longest note about what was left out
NOTE_LENGTH = 60


@dataclass(slots=True)
class FileDiff:
    """The lines above a file's hunks, and the hunks; of those, `shown` are not left out."""

    header: str
    hunks: list[str]
    shown: set[int] = field(default_factory=set)

    def render(self) -> str:
        # A note stands for each run of hunks that is left out.
        parts, lines = [self.header], 0
        for number, hunk in enumerate([*self.hunks, ""]):
            if hunk and number not in self.shown:
                lines += hunk.count("\n")
                continue
            if lines:
                parts.append(LEFT_OUT.format(lines=lines))
            parts.append(hunk)
            lines = 0
        return "".join(parts)


def clip_hunks(diff: str, most: int, *, measure: Callable[[str], int] = len) -> str:
    """Return a diff in at most `most`, as `measure` counts: whole hunks, the smaller ones first.

    Each file keeps its header while there is room, so that its name is known.

    >>> print(clip_hunks("diff --git a/x b/x\\n@@ -1 +1 @@\\n" + "+y\\n" * 99, 150), end="")
    diff --git a/x b/x
    [… 100 lines left out …]
    """
    if measure(diff) <= most:
        return diff
    files = [read_file(text) for text in FILE.split(diff) if text]
    room = most - NOTE_LENGTH
    kept: list[FileDiff] = []
    for each in files:
        # a note for each hunk, until it is known to be shown
        size = measure(each.header) + NOTE_LENGTH * len(each.hunks)
        if size > room:
            break
        kept.append(each)
        room -= size
    sizes = sorted(
        (measure(hunk), at, number)
        for at, each in enumerate(kept)
        for number, hunk in enumerate(each.hunks)
    )
    for size, at, number in sizes:
        if size - NOTE_LENGTH > room:
            break
        kept[at].shown.add(number)
        room -= size - NOTE_LENGTH
    left = len(files) - len(kept)
    more = FILES_LEFT_OUT.format(files=left) if left else ""
    return "".join(each.render() for each in kept) + more


def read_file(text: str) -> FileDiff:
    # Each hunk ends with a line break.
    header, *hunks = HUNK.split(text if text.endswith("\n") else f"{text}\n")
    return FileDiff(header, hunks)
