"""The clock of a page that stands still until a test moves it, and the page's polls."""

import time
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone
from playwright.sync_api import Page, Request, Response

from tests.browser.conftest import DEADLINE_MS, wait_until

# After the real time, which a page's clock may not go back to while a machine is slow.
AHEAD = timedelta(minutes=10)
STEP_S = 2  # the shortest time between two polls


def stop_clock(page: Page) -> None:
    """Stop the clock of the pages that are opened from now on."""
    start = timezone.now()
    page.clock.install(time=start)
    page.clock.pause_at(start + AHEAD)


class Polls:
    """The polls of a page whose clock stands still: their addresses, and whether one is open.

    With `part`, `sent` has the addresses that contain it instead of those of the whole page.
    """

    def __init__(self, page: Page, part: str = "since=") -> None:
        self.page, self.part = page, part
        self.sent: list[str] = []
        self.open: set[Request] = set()
        page.on("request", self.begin)
        page.on("requestfinished", self.end)
        page.on("requestfailed", self.end)
        page.on("response", self.end_refused)

    def begin(self, request: Request) -> None:
        if self.part in request.url:
            self.sent.append(request.url)
        if self.part in request.url or "since=" in request.url:
            self.open.add(request)

    def end(self, request: Request) -> None:
        self.open.discard(request)

    def end_refused(self, response: Response) -> None:
        """Count an error as an answer: the page does not read it to its end."""
        if not response.ok:
            self.end(response.request)

    def let_pass(self, seconds: int) -> None:
        """Let time pass on the page, and wait for the answer of each poll."""
        for _ in range(seconds // STEP_S):
            self.page.clock.run_for(STEP_S * 1000)
            self.wait_for_answers()

    def wait_for_answers(self) -> None:
        wait_until(self.page, lambda: not self.open)

    def let_pass_until(self, holds: Callable[[], bool]) -> None:
        """Let time pass on the page until something holds."""
        end = time.monotonic() + DEADLINE_MS / 1000
        while not holds():
            assert time.monotonic() < end, "it never holds"
            self.let_pass(STEP_S)

    def let_one_pass(self) -> None:
        """Let time pass until the page polls."""
        count = len(self.sent)
        self.let_pass_until(lambda: len(self.sent) > count)
