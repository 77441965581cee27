"""Cut and escape texts, and render them as XML elements (pure)."""

import json
import re
from typing import Any

from ledger.secrets.redaction import stripped
from ledger.values.text import truncate

# characters that XML cannot contain
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def dump_json(value: Any) -> str:
    # Sorted keys make equal values give equal bytes.
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def element(name: str, text: str, most: int | None, *, trust: str = "", more: str = "") -> str:
    """Render an element on its own line, with the number of characters cut."""
    # `more` has rendered attributes. An empty element has none and costs little.
    clipped = text if most is None else truncate(text, most)
    attributes = more + (f' trust="{trust}"' if trust else "")
    if clipped != text:
        attributes += f' truncated_chars="{len(text) - len(clipped) + 1}"'
    content = escaped(stripped(clipped).strip("\n").rstrip())
    return f"<{name}{attributes}>{content}</{name}>\n" if content else f"<{name}/>\n"


def one_line(text: str, most: int) -> str:
    return truncate(" ".join(stripped(text).split()), most)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def clean_text(text: str) -> str:
    # A person's text may have characters that XML cannot contain.
    return NOT_XML.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
