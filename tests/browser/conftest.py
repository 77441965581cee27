"""A real Chromium at a live server; without one these tests skip, loudly, or fail."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, FloatRect, Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from ledger.database import optional_cache
from ledger.models import Agent, ClockRun
from tests import waiting
from tests.chromium import MISSING, chromium
from tests.factories import make_agent

# Long enough for a machine that runs other things; a test that passes never waits for it.
DEADLINE_MS = 60_000
expect.set_options(timeout=DEADLINE_MS)
PASSWORD = "tenfour-tenfour-tenfour"
AXE = Axe()
UNDO_TIME = timedelta(minutes=5)
BREAKER_OPEN_S = 590
WIDTHS = (1440, 390)
THREE_WIDTHS = (1440, 1100, 390)  # of pages that have three columns at most
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# What a slow machine may cause: a page was painted before the transition to it could begin, or a
# poll took too long, which the page shows and repeats.
TOO_LATE = (
    "Transition was aborted because of invalid state. Page already revealed",
    "htmx:error: timeout",
)
# The scheme is in force, and no color is in a transition: half changed it has no contrast.
HAS_SETTLED = """scheme => matchMedia(`(prefers-color-scheme: ${scheme})`).matches
    && document.getAnimations().every((each) => each.playState !== "running")"""
# On a busy machine, a message would be gone before the test reads it.
LONG_TOASTS = """{
    const start = window.setTimeout;
    window.setTimeout = (run, after, ...more) =>
        start(run, after === 5000 || after === 10000 ? 4 * after : after, ...more);
}"""
POLL = "document.querySelector('[data-live]').dispatchEvent(new Event('tenfour:poll'))"
BOXES = """names => names.map((name) => {
    const box = document.querySelector(name)?.getBoundingClientRect();
    return box && {x: box.x, y: box.y, width: box.width, height: box.height};
})"""
# the one rule of WCAG 2.2 AA is off by default; the contrast takes half of the time
RUN_AXE = """([part, contrast]) => axe.run({include: [part]}, {
    resultTypes: ["violations"],
    rules: {"target-size": {enabled: true}, "color-contrast": {enabled: contrast}},
})"""
# The bars around a page are those of every page: test_every_page looks at them, in `html`.
OWN = "main, dialog[open], #toasts"
TWO_FRAMES = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if any("tests/browser" in report.nodeid for report in skipped) and not chromium():
        terminalreporter.write_line(MISSING, red=True, bold=True)


@dataclass
class Visitor:
    """One person's browser: pages, and what its console complains about."""

    url: str
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.set_default_timeout(DEADLINE_MS)

    def new_page(self) -> Page:
        page = self.context.new_page()
        page.on("console", self.note)
        page.on("pageerror", lambda error: self.complain(str(error)))
        return page

    def page(self) -> Page:
        """Return the page that is open already, or a new one."""
        return self.context.pages[-1] if self.context.pages else self.new_page()

    def open(self, path: str) -> Page:
        page = self.page()
        page.goto(self.url + path)
        return page

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complain(message.text)

    def complain(self, text: str) -> None:
        if not any(each in text for each in TOO_LATE):
            self.complaints.append(text)

    def signed_in(self, username: str = "mara") -> "Visitor":
        """Take over a session made on the server; the form has tests of its own."""
        client = Client()
        client.force_login(User.objects.get(username=username))
        name = django_settings.SESSION_COOKIE_NAME
        cookie = {"name": name, "value": client.cookies[name].value, "url": self.url}
        self.context.add_cookies([cookie])
        return self

    def sign_in(self, path: str = "/instructions/") -> Page:
        return self.signed_in().open(path)


class UnderWay:
    """Counts the requests that the threads of the live server have begun and not ended."""

    def __init__(self) -> None:
        self.count, self.lock = 0, threading.Lock()

    def begin(self, **_: object) -> None:
        self.add(1)

    def end(self, **_: object) -> None:
        self.add(-1)

    def add(self, number: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            with self.lock:
                self.count += number


@pytest.fixture
def _ended_requests(transactional_db: None) -> Iterator[None]:
    """Wait for the server at the end: a late poll would fill the next test's cache."""
    under_way = UnderWay()
    request_started.connect(under_way.begin)
    request_finished.connect(under_way.end)
    yield
    waiting.wait_until(lambda: not under_way.count, lambda: f"{under_way.count} did not end")
    request_started.disconnect(under_way.begin)
    request_finished.disconnect(under_way.end)


@pytest.fixture
def visit(
    browser_process: Browser, live_server: LiveServer, mara: User, _ended_requests: None
) -> Iterator[Callable[..., Visitor]]:
    """`visit(width=390, color_scheme="dark", …)`: a new visitor."""
    visitors = []

    def new(*, width: int = 1440, height: int = 900, **more: object) -> Visitor:
        size = {"width": width, "height": height}
        context = browser_process.new_context(viewport=size, **{"reduced_motion": "reduce", **more})
        context.add_init_script(LONG_TOASTS)
        visitors.append(Visitor(live_server.url, context))
        return visitors[-1]

    yield new
    for visitor in visitors:
        visitor.context.close()


@pytest.fixture(autouse=True)
def _fresh_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is at the moment."""
    monkeypatch.setattr(optional_cache, "FRESH_SECONDS", 10**6)


@pytest.fixture(autouse=True)
def _long_times(settings: Settings) -> None:
    """However long the test takes to get to the button."""
    settings.TENFOUR = settings.TENFOUR | {
        "UNDO_SECONDS": int(UNDO_TIME.total_seconds()),
        "BREAKER_OPEN_SECONDS": BREAKER_OPEN_S,
    }


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def mara(transactional_db: None) -> User:
    return User.objects.create_superuser("mara", password=PASSWORD)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def coder(transactional_db: None, now: datetime) -> Agent:
    """An agent under a clock that runs."""
    ClockRun.objects.create(name="idle_check", last_run_at=now)
    return make_agent("coder")


def poll(page: Page) -> None:
    """Let the page ask for news at once, and wait until it has them."""
    page.wait_for_selector("[data-live][data-htmx-powered]", state="attached")
    with page.expect_response(lambda response: "since=" in response.url):
        page.evaluate(POLL)
    page.evaluate(TWO_FRAMES)


def wait_until(
    page: Page, holds: Callable[[], bool], describe: Callable[[], object] = lambda: "it never holds"
) -> None:
    """Wait until something holds, while the page and its events continue."""
    end = time.monotonic() + DEADLINE_MS / 1000
    while not holds():
        assert time.monotonic() < end, describe()
        page.evaluate("() => 0")


def wait_for_boxes(
    page: Page, names: Sequence[str], holds: Callable[[list[FloatRect]], bool]
) -> list[FloatRect]:
    """Return the boxes of CSS selectors as soon as `holds` is true of them.

    All are measured at the same moment: a page may move between two measurements.
    """
    boxes: list[FloatRect] = []

    def measure() -> bool:
        boxes[:] = page.evaluate(BOXES, list(names))
        return all(boxes) and holds(boxes)

    wait_until(page, measure, lambda: dict(zip(names, boxes, strict=True)))
    return boxes


def shoot(page: Page, name: str) -> None:
    """Save a picture of the page, if a person wants to look at it."""
    if folder := os.environ.get("PICTURES_FOLDER"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=False)


def axe_findings(page: Page, *, contrast: bool = True, part: str = OWN) -> list[str]:
    if not page.evaluate("() => 'axe' in window"):  # half a megabyte of script
        page.evaluate(AXE.axe_script)
    found = page.evaluate(RUN_AXE, [part, contrast])["violations"]
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def set_width(page: Page, width: int) -> None:
    """Set the window's width, and wait until the page has it."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => innerWidth === width", arg=width)


def overflow(page: Page) -> int:
    """By how many pixels the page, or the part of it that scrolls, is wider than it may be."""
    script = """() => Math.max(0, ...[document.documentElement, document.querySelector("main")]
        .map((el) => el.scrollWidth - el.clientWidth))"""
    return int(page.evaluate(script))


def assert_whole(
    visitor: Visitor,
    path: str,
    *,
    widths: Sequence[int] = WIDTHS,
    act: Callable[[Page], None] = lambda page: None,
    part: str = OWN,
    expected: str | None = None,
) -> Page:
    """Assert that a page fits all widths, is accessible in both schemes and logs no error.

    `act` runs after the page is loaded; `expected` marks errors that are no fault of the page.
    Returns the page, still open.
    """
    page = visitor.page()
    set_width(page, widths[0])
    page.goto(visitor.url + path)
    act(page)
    assert_whole_as_it_is(page, widths=widths, part=part)
    assert [text for text in visitor.complaints if not expected or expected not in text] == []
    assert page.title() != "owned"
    return page


def assert_whole_as_it_is(page: Page, *, widths: Sequence[int] = WIDTHS, part: str = OWN) -> None:
    """Assert that the page that is open fits all widths and is accessible in both schemes.

    A scheme changes nothing but colors, so it has one width. Axe takes most of the time: `part` is
    less than OWN if another check of the same page looks at the rest.
    """
    for number, width in enumerate(widths):
        scheme = SCHEMES[number > 0]
        set_width(page, width)
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(HAS_SETTLED, arg=scheme)  # a width may be in a transition, too
        wait_until(page, lambda: overflow(page) == 0, lambda: (page.url, width))  # noqa: B023
        page.evaluate(TWO_FRAMES)
        found = axe_findings(page, contrast=number in (0, len(widths) - 1), part=part)
        assert found == [], (page.url, width, scheme)
