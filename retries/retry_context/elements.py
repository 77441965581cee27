"""Clip and escape texts, and render them as XML elements (pure)."""

import json
import re
from typing import Any

from ledger.redaction import stripped
from ledger.text import truncate

GAP = "\n[…]\n"
# characters that XML cannot contain
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def dump_json(value: Any) -> str:
    """Return the value as JSON with sorted keys, so that equal values give equal bytes."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def element(
    name: str, text: str, most: int | None, *, tail: float = 0.0, trust: str = "", more: str = ""
) -> str:
    """Render an element of a failure on its own line, with the number of characters cut.

    `more` are rendered attributes.
    """
    clipped, cut = (text, 0) if most is None else clip(text, most, tail=tail)
    attributes = more + (f' trust="{trust}"' if trust else "")
    if cut:
        attributes += f' truncated_chars="{cut}"'
    content = escaped(stripped(clipped).strip("\n").rstrip())
    return f"      <{name}{attributes}>{content}</{name}>\n"


def clip(text: str, most: int, *, tail: float = 0.0) -> tuple[str, int]:
    """Return at most `most` characters of `text`, and how many were cut.

    `tail` is the share taken from the end of the text.

    >>> clip("0123456789", 9, tail=0.5), clip("0123456789", 4)
    (('01\\n[…]\\n89', 6), ('012…', 7))
    """
    if len(text) <= most:
        return text, 0
    if not tail:
        head = truncate(text, most)
        return head, len(text) - len(head) + 1
    keep = max(0, most - len(GAP))
    last = int(keep * tail)
    return text[: keep - last] + GAP + text[len(text) - last :], len(text) - keep


def one_line(text: str, most: int) -> str:
    """Return the text on one line, in at most `most` characters."""
    return truncate(" ".join(stripped(text).split()), most)


def escaped(text: str) -> str:
    """Return the text with the characters that XML reserves as entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def clean_text(text: str) -> str:
    """Return a person's text without the characters that XML cannot contain."""
    return NOT_XML.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
