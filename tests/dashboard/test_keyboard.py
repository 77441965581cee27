"""One table names every key, and `?` shows it on every page."""

import re
from datetime import datetime
from html import unescape

from django.test import Client

from ledger.models import Agent
from tests.dashboard.seen import html
from tests.dashboard.test_read_only import make_world

DIALOG = re.compile(r'<dialog class="dialog dialog--keys".*?</dialog>')
KEY = re.compile(r'data-(?:row-)?key="([^"]+)"')
FORMS = ("/instructions/new/", "/plans/import/", "/sessions/import/", "/instructions/standing/new/")
EVERYWHERE = ("Anywhere", "In a list")
SECTIONS = {
    "home": "On Overview and Insight",
    "insight": "On Overview and Insight",
    "escalation": "On an escalation",
    "instruction": "On an instruction",
    "task": "On a task",
    "plan": "On a plan",
    "deadletter": "On a dead letter",
    "pattern": "On a pattern",
    "agent": "On an agent",
    "connect": "Connect an agent",
    "operation": "On an operation",
    "session": "On a session",
    "deliverie": "On a delivery",
    "rule": "On a rule",
    "notification_preview": "On a rule",
    "/instructions/standing/new/": "On a rule",
}


def test_the_table_names_the_keys_of_every_page(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """Each key stands under its page's heading, or under those of all pages."""
    missing = {}
    places = make_world(agent, browser, now) | {path: path for path in FORMS}
    for name, path in places.items():
        used = set()
        for each in {path, path.partition("?")[0]}:  # with the dialog of an action, and without
            page = html(browser.get(each))
            table = DIALOG.search(page)
            assert table, each
            used |= {spell_key(key) for key in KEY.findall(DIALOG.sub("", page))}
        known = read_sections(table[0])
        headings = [*EVERYWHERE, SECTIONS.get(name) or SECTIONS.get(name.removesuffix("s"), "")]
        assert set(SECTIONS.values()) <= set(known)
        named = {key for heading in headings for key in known.get(heading, ())}
        if used - named:
            missing[name] = used - named
    assert missing == {}


def read_sections(dialog: str) -> dict[str, set[str]]:
    """Return the keys under each heading."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"<h3>", dialog)[1:]:
        heading, _, rest = section.partition("</h3>")
        for row in re.findall(r"<dd>(.*?)</dd>", rest):
            keys = [unescape(key) for key in re.findall(r"<kbd[^>]*>(.*?)</kbd>", row)]
            if "…" in keys:
                keys = [str(number) for number in range(int(keys[0]), int(keys[-1]) + 1)]
            if keys[0] == "Shift":
                keys = ["Shift " + keys[1]]
            found.setdefault(heading, set()).update(keys)
    return found


def spell_key(key: str) -> str:
    """Return a key as the table shows it."""
    return f"Shift {key}" if key.isupper() else key.upper()
