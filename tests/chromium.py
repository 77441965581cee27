"""The one Chromium of a test process, which the tests of pages and of agents share."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The shell has the same engine without windows, and half of Chromium's cost.
NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
MISSING = f"NO BROWSER: tests/browser needs a Chromium (TENFOUR_CHROMIUM, {', '.join(NAMES)})."


def chromium() -> str | None:
    """The browser's executable, if there is one."""
    named = os.environ.get("TENFOUR_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser_process() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        if os.environ.get("TENFOUR_REQUIRE_BROWSER") == "1":
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)
    # Playwright's loop runs in this thread, and Django takes that for asynchronous code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
