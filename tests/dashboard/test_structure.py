"""The structure of the pages' HTML: what a browser repairs silently is not what we wrote."""

from collections import Counter
from datetime import datetime
from html.parser import HTMLParser

from django.test import Client

from ledger.models import Agent
from tests.dashboard.test_read_only import make_world

# An element of these kinds never stands inside another of the same group: the parser ends or
# drops one of them, so that a field reaches the wrong form or a click the wrong link.
APART = {"form": "form", "a": "click", "button": "click"}
LISTS = ("tasks", "plans", "agents", "patterns", "instructions", "sessions", "activity")


class Structure(HTMLParser):
    """Collects nested forms, links and buttons, and ids that stand twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []
        self.ids: Counter[str] = Counter()
        self.feed(text)
        self.problems += [f"id {id} {count} times" for id, count in self.ids.items() if count > 1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids.update(value for name, value in attrs if name == "id" and value)
        if group := APART.get(tag):
            if outer := [each for each in self.open if APART[each] == group]:
                self.problems.append(f"{tag} {dict(attrs)} inside {outer[-1]}")
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in APART and tag in self.open:
            self.open.remove(tag)


def test_no_form_link_or_id_stands_inside_another(
    agent: Agent, browser: Client, now: datetime
) -> None:
    paths = list(make_world(agent, browser, now).values())
    paths += [f"/{name}/?q=older:1m" for name in (*LISTS, "dead-letters", "escalations")]
    found = {path: Structure(browser.get(path).content.decode()).problems for path in paths}
    assert {path: problems for path, problems in found.items() if problems} == {}


def test_a_nested_form_is_found() -> None:
    page = '<form><button id="a"></button><form></form></form><a href="x"><b id="a"></b></a>'
    assert Structure(page).problems == ["form {} inside form", "id a 2 times"]
