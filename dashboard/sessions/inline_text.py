"""Render a message's text: as it was written, with code between backticks and bold set apart."""

import re

from django.utils.html import escape
from django.utils.safestring import SafeString

# Only these two marks: all other Markdown stays text, so that no message can format the page.
MARKS = re.compile(r"`(?P<code>[^`\n]{1,200})`|\*\*(?P<bold>[^*\n]{1,200})\*\*")


def render_inline(text: str) -> SafeString:
    """Return a text as HTML.

    >>> str(render_inline("Run `make <x>`, **not** `pytest`"))
    'Run <code>make &lt;x&gt;</code>, <b>not</b> <code>pytest</code>'
    """
    made: list[str] = []
    at = 0
    for mark in MARKS.finditer(text):
        made.append(escape(text[at : mark.start()]))
        tag = "code" if mark["code"] else "b"
        made.append(f"<{tag}>{escape(mark['code'] or mark['bold'])}</{tag}>")
        at = mark.end()
    return SafeString("".join([*made, escape(text[at:])]))
