"""Every page's texts and controls, as recorded in `outlines/*.txt`.

After a change, run this module with UPDATE_OUTLINES=1 and review the difference.
"""

import os
import re
from datetime import datetime
from difflib import unified_diff
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.test import Client

from dashboard.escalations import snooze_times
from ledger.database import server_time
from ledger.models import Agent
from tests.dashboard.test_read_only import make_world

FOLDER = Path(__file__).with_name("outlines")
# "option": a list of all time zones says nothing about a page
HIDDEN = {"script", "style", "svg", "template", "head", "option"}
EMPTY = {"input", "br", "img", "hr", "meta", "link", "wbr", "source", "use", "path", "col"}
CONTROLS = {
    "a": ("href",),
    "form": ("method", "action", "hx-post", "hx-get"),
    "button": ("name", "value", "formaction", "hx-post", "hx-get", "disabled"),
    "input": ("type", "name", "value", "checked", "required"),
    "select": ("name",),
    "textarea": ("name",),
    "summary": (),
}
# ids, whole or shortened, times, and numbers differ from run to run
VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b[0-9a-f]{8}\b"
    r"|\b(?=[0-9a-f]*[0-9])[0-9a-f]{4,}\b|\d+"
)
# a time of another day has a date and no seconds, so a page before midnight, or on the first of a
# month, has others
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
DATE = re.compile(rf"\b(?:\d+ {MONTH}|{MONTH} \d+,?)(?: \d{{4}},?)? (?=\d+:\d\d)")
SECONDS = re.compile(r"(?<=\d:\d\d):\d\d\b")


class Outline(HTMLParser):
    """The texts and controls of a page, one per line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY and (tag in HIDDEN or self.hidden):
            self.hidden.append(tag)
        elif tag in CONTROLS:
            given = {name: value or "" for name, value in attrs}
            shown = (f'{name}="{given[name]}"' for name in CONTROLS[tag] if name in given)
            self.add(" ".join([f"[{tag}]", *shown]))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.hidden:
            while self.hidden.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.add(" ".join(data.split()))

    def add(self, text: str) -> None:
        if text and "csrfmiddlewaretoken" not in text:
            self.lines.append(VARYING.sub("#", SECONDS.sub("", DATE.sub("", unquote(text)))))


def draw_outline(part: str) -> str:
    outline = Outline()
    outline.feed(part)
    return "\n".join(outline.lines) + "\n"


def test_every_page_has_the_texts_and_controls_of_its_record(
    agent: Agent, browser: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_time, "now", lambda: now)  # some lines count down
    monkeypatch.setattr(snooze_times, "EVENING", 0)  # offered only before the evening
    outlines: dict[str, str] = {}
    changed = []
    for name, address in make_world(agent, browser, now).items():
        before, _, rest = browser.get(address).content.decode().partition("<main")
        main, _, after = rest.partition("</main>")
        outlines[name] = draw_outline(f"<main{main}")
        outlines.setdefault("frame", draw_outline(before + after))
    for name, outline in outlines.items():
        path = FOLDER / f"{name}.txt"
        if os.environ.get("UPDATE_OUTLINES"):
            path.write_text(outline)
        if outline != path.read_text():
            changed.append((name, difference(path.read_text(), outline)))
    assert changed == []


def difference(recorded: str, outline: str) -> list[str]:
    lines = unified_diff(recorded.splitlines(), outline.splitlines(), n=1, lineterm="")
    return list(islice(lines, 2, 40))
