"""The block that the next attempt is told, in colours (pure): its exact text, tag by tag.

Everything in it is escaped, so that `<` and `>` stand in tags alone.
"""

import re
from dataclasses import dataclass

TAG = re.compile(r"(</?[a-z_]+|<!--)([^<>]*)(>)")
PERSON = ("<user_intervention>", "</user_intervention>")


@dataclass(frozen=True, slots=True)
class Part:
    css: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the text, whether it is the person's, and its parts: joined they are the line."""

    parts: list[Part]
    is_fix: bool


def painted(block: str) -> list[Line]:
    """The lines of the block.

    >>> [part.css for part in painted('<a b="1">x</a>')[0].parts]
    ['tg', 'at', 'tg', 'tx', 'tg', 'tg']
    """
    lines: list[Line] = []
    is_fix = False
    for text in block.splitlines():
        is_fix = is_fix or PERSON[0] in text
        lines.append(Line(parts(text), is_fix))
        is_fix = is_fix and PERSON[1] not in text
    return lines


def parts(text: str) -> list[Part]:
    found: list[Part] = []
    end = 0
    for tag in TAG.finditer(text):
        found += [Part("tx", text[end : tag.start()]), Part("tg", tag[1])]
        found += [Part("at", tag[2]), Part("tg", tag[3])]
        end = tag.end()
    found.append(Part("tx", text[end:]))
    return [part for part in found if part.text]
