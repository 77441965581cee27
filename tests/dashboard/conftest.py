"""An operator and the headers of a script's request."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from inspect import signature
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from dashboard.frame import browser_uses, live_updates, rendering
from dashboard.lists import compiled_queries
from ledger.database import optional_cache, server_time
from tests.factories import make_project

LATEST = timedelta(milliseconds=500)
PART = {"HX-Request": "true", "HX-Request-Type": "partial"}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Return the real time, since pages show the last 24 hours.

    The pages' clock stops soon after it, so that ages and countdowns do not depend on the machine.
    """
    start = server_time.now()
    stopped = SimpleNamespace(now=lambda: min(server_time.now(), start + LATEST))
    monkeypatch.setattr(rendering, "server_time", stopped)
    return start


@pytest.fixture(autouse=True)
def _fresh_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep figures fresh, however slow the machine is."""
    monkeypatch.setattr(optional_cache, "FRESH_SECONDS", 10**6)


@pytest.fixture(autouse=True)
def _own_queries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Build queries again in a test that replaces values, because their SQL contains the limits."""
    replaces = "monkeypatch" in signature(request.function).parameters
    if replaces:
        clear_compiled()
    yield
    if replaces:
        clear_compiled()


def clear_compiled() -> None:
    for shapes in compiled_queries.stored_shapes:
        shapes.clear()


@pytest.fixture(autouse=True)
def _one_note_of_each_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store no later use of a browser, since any page may be the first one after a minute."""
    monkeypatch.setattr(browser_uses, "SEEN_EVERY", timedelta(days=1))


@pytest.fixture(autouse=True)
def _ageless_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no page grow too old, since a poll then renders it again."""
    monkeypatch.setattr(live_updates, "MAX_AGE_SECONDS", 10**9)


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def db(db: None) -> None:
    """The database with the project of every installation, which another test's flush deletes."""
    make_project()


@pytest.fixture
def mara(db: None) -> User:
    return User.objects.create_superuser("mara", password="tenfour-tenfour-tenfour")


@pytest.fixture
def browser(mara: User) -> Client:
    """Return a client with Mara signed in."""
    client = Client()
    client.force_login(mara)
    return client


@pytest.fixture
def part(browser: Client) -> Callable[..., HttpResponse]:
    """Return a function that requests the live part of a page."""
    return lambda path, **data: browser.get(path, data, headers=PART)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that counts the statements of a request, Django's and ours."""

    def count(client: Client, path: str, data: dict[str, Any] | None = None, **more: Any) -> int:
        sent = []
        execute = psycopg.Cursor.execute

        def execute_and_count(*args: Any, **kwargs: Any) -> Any:
            if args[1] != server_time.ASK:  # of every ten seconds, in any request
                sent.append(args[1])
            return execute(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Cursor, "execute", execute_and_count)
            response = client.get(path, data, **more)
        assert response.status_code < 400
        return len(sent)

    return count
