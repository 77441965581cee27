"""Highlight the retry context that the next attempt receives, tag by tag (pure).

The renderer escapes all text, so `<` and `>` occur only in tags.
"""

import re
from dataclasses import dataclass

TAG = re.compile(r"(</?[a-z_]++|<!--)([^<>]*+)(>)")
USER_TAGS = ("<user_intervention>", "</user_intervention>")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a line with its CSS class."""

    css: str
    text: str


@dataclass(frozen=True, slots=True)
class PreviewLine:
    """A line of the context: its parts joined are its text."""

    parts: list[Part]
    is_fix: bool  # whether it belongs to the user's message


def highlight(context: str) -> list[PreviewLine]:
    """Split a retry context into lines of highlighted parts.

    >>> [part.css for part in highlight('<a b="1">x</a>')[0].parts]
    ['tg', 'at', 'tg', 'tx', 'tg', 'tg']
    """
    lines: list[PreviewLine] = []
    is_fix = False
    for text in context.splitlines():
        is_fix = is_fix or USER_TAGS[0] in text
        lines.append(PreviewLine(split_parts(text), is_fix))
        is_fix = is_fix and USER_TAGS[1] not in text
    return lines


def split_parts(text: str) -> list[Part]:
    parts: list[Part] = []
    end = 0
    for tag in TAG.finditer(text):
        parts += [Part("tx", text[end : tag.start()]), Part("tg", tag[1])]
        parts += [Part("at", tag[2]), Part("tg", tag[3])]
        end = tag.end()
    parts.append(Part("tx", text[end:]))
    return [part for part in parts if part.text]
