"""One table names every key, and `?` shows it on every page."""

import re
from datetime import datetime
from html import unescape
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from django.test import Client

from dashboard.escalations.panel import KEYS as ANSWER_KEYS
from ledger.models import Agent
from retries.verbs.verb import Verb
from tests.dashboard.seen import html
from tests.dashboard.test_read_only import make_world

DIALOG = re.compile(r'<dialog class="dialog dialog--keys".*?</dialog>')
KEY = re.compile(r'data-(?:row-)?key="([^"]+)"')
# keys that belong together, as a page shows them beside what they do
SHOWN = re.compile(r"<kbd(?:(?!</kbd>).)*</kbd>(?:\s*<kbd(?:(?!</kbd>).)*</kbd>)*")
ONE_KEY = re.compile(r"<kbd[^>]*>(.*?)</kbd>")
FORMS = ("/instructions/new/", "/plans/import/", "/sessions/import/", "/instructions/standing/new/")
EVERYWHERE = ("Anywhere", "In a list", "In the search")
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
    "pool": "On an agent",
    "connect": "Connect an agent",
    "operation": "On an operation",
    "session": "On a session",
    "deliverie": "On a delivery",
    "rule": "On a rule",
    "notification_preview": "On a rule",
    "/instructions/standing/new/": "On a rule",
    "permission_rules": "On a rule",
    "permission_rule": "On a rule",
    "people": "On People and Tokens",
    "tokens": "On People and Tokens",
}
MODIFIERS = ("Shift", "Ctrl", "Alt", "G")
SYMBOLS = {"⇧P": "Shift P", "⇧H": "Shift H", "Ctrl ↵": "Ctrl Enter"}
# the keys that the drawn pages have in common
DRAWN = {
    "Anywhere": {"Ctrl K"},
    "In a list": {"X", "B"},
    "On an escalation": {"H", "M", "B", "Z"},
    "On an agent": {"Shift P"},
    "On Overview and Insight": {"1", "2", "3"},
}
# the folders of the pages under each heading, and the keys that are elsewhere: in a script of
# theirs, or in the head of every page
FOLDERS = {
    "On an escalation": ("escalations", "permissions"),
    "On Overview and Insight": ("overview", "insight"),
    "On an instruction": ("instructions",),
    "On a task": ("tasks",),
    "On a plan": ("plans",),
    "On a dead letter": ("deadletters",),
    "On a pattern": ("patterns",),
    "On an agent": ("agents",),
    "Connect an agent": ("connect",),
    "On an operation": ("operations",),
    "On a session": ("sessions",),
    "On People and Tokens": ("people", "tokens"),
    "On a delivery": ("notifications",),
    "On a rule": ("standing_instructions", "notifications", "permissions"),
}
ELSEWHERE = {
    "On an escalation": {"B", "Ctrl Enter"},
    "On a rule": {"Ctrl Enter"},
    "On a plan": {"Shift J", "Shift K"},
    "On a session": {"Shift J", "Shift K"},
}
COUNTED = {"insight": "123", "overview": "123", "connect": "1234567"}
LITERAL = re.compile(r'(?:data-(?:row-)?key|\bkey)="([^"{]+)"')
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def list_keys(folder: str) -> set[str]:
    """Return the keys that the templates and verbs of a page's folder can have."""
    text = "".join(path.read_text() for path in sorted((TEMPLATES / folder).glob("*.html")))
    keys = set(LITERAL.findall(text)) | set(COUNTED.get(folder, ""))
    if folder == "escalations":
        keys |= set(ANSWER_KEYS.values())
    if find_spec(f"dashboard.{folder}.action_views"):
        views = vars(import_module(f"dashboard.{folder}.action_views")).values()
        rooms = [vars(each) for each in views if isinstance(each, ModuleType)]
        verbs = [each for room in rooms for each in room.values() if isinstance(each, Verb)]
        keys |= {verb.key for verb in verbs if verb.key}
    return {spell_key(key) for key in keys}


def test_every_key_of_the_table_does_something(browser: Client) -> None:
    """Under each heading, its pages have an element or an action with that key."""
    table = DIALOG.search(html(browser.get("/settings/")))
    assert table
    known = read_sections(table[0])
    assert set(known) - {*EVERYWHERE} == set(FOLDERS)
    idle = {
        (heading, key)
        for heading, folders in FOLDERS.items()
        for key in known[heading]
        if key not in ELSEWHERE.get(heading, ())
        and not any(key in list_keys(folder) for folder in folders)
    }
    assert idle == set()


def test_the_table_names_the_keys_of_every_page(
    agent: Agent, browser: Client, now: datetime
) -> None:
    """Each key that acts or that the page shows stands under its heading, or under all pages'."""
    missing = {}
    places = make_world(agent, browser, now) | {path: path for path in FORMS}
    for name, path in places.items():
        used = set()
        for each in {path, path.partition("?")[0]}:  # with the dialog of an action, and without
            page = html(browser.get(each))
            table = DIALOG.search(page)
            assert table, each
            rest = DIALOG.sub("", page)
            used |= {spell_key(key) for key in KEY.findall(rest)}
            used |= {key for shown in SHOWN.findall(rest) for key in read_keys(shown)}
        known = read_sections(table[0])
        headings = [*EVERYWHERE, SECTIONS.get(name) or SECTIONS.get(name.removesuffix("s"), "")]
        assert set(SECTIONS.values()) <= set(known)
        named = {key for heading in headings for key in known.get(heading, ())}
        if used - named:
            missing[name] = used - named
    assert missing == {}
    assert {heading: known[heading] & keys for heading, keys in DRAWN.items()} == DRAWN


def read_sections(dialog: str) -> dict[str, set[str]]:
    """Return the keys under each heading."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"<h3>", dialog)[1:]:
        heading, _, rest = section.partition("</h3>")
        for row in re.findall(r"<dd>(.*?)</dd>", rest):
            found.setdefault(heading, set()).update(read_keys(row))
    return found


def read_keys(markup: str) -> set[str]:
    """Return the keys that markup shows, each with the one that is held or pressed before it."""
    keys = []
    for text in ONE_KEY.findall(markup):
        name = "Enter" if "<svg" in text else unescape(text).strip()
        if keys and keys[-1] in MODIFIERS:
            name = f"{keys.pop()} {name}"
        keys.append(SYMBOLS.get(name, name))
    if "…" in keys:
        held, first = ["", *keys[0].split()][-2:]
        return {f"{held} {n}".strip() for n in range(int(first), int(keys[-1]) + 1)}
    return set(keys)


def spell_key(key: str) -> str:
    """Return a key as the table shows it."""
    return f"Shift {key}" if key.isupper() else key.upper()
