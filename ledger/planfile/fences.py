"""Find fenced code in Markdown (pure)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

OPENING = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")


@dataclass(frozen=True, slots=True)
class Fence:
    """The range of lines of fenced code, including its fences; `end` is the line after it."""

    start: int
    end: int
    closed: bool


def find_fences(lines: Sequence[str]) -> list[Fence]:
    """Return the fenced code of a text.

    A fence ends at a line with at least as many of the same characters and nothing else, or at the
    end of the text.
    """
    fences, start, opening = [], 0, ""
    for n, line in enumerate(lines):
        if opening:
            text = line.strip()
            if len(text) >= len(opening) and not text.strip(opening[0]):
                fences.append(Fence(start, n + 1, closed=True))
                opening = ""
        elif ("```" in line or "~~~" in line) and (match := OPENING.match(line)):
            start, opening = n, match[1]
    return [*fences, Fence(start, len(lines), closed=False)] if opening else fences


def mask_fences(lines: Sequence[str]) -> list[bool]:
    mask = [False] * len(lines)
    for fence in find_fences(lines):
        mask[fence.start : fence.end] = [True] * (fence.end - fence.start)
    return mask


def find_fenced_texts(text: str) -> list[str]:
    lines = text.split("\n")
    return ["\n".join(lines[f.start + 1 : f.end - 1]) for f in find_fences(lines) if f.closed]
