"""People and keys that tests share."""

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection, connections
from django.test import Client

from ledger.models import Agent, Project
from retries.sessions import buffering
from tests import programs, services
from tests.chromium import browser_process as browser_process
from tests.elsewhere import elsewhere as elsewhere
from tests.factories import make_agent, make_project, make_token
from tests.flush import flush_quickly
from tests.long_tests import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.serving import agent_client as agent_client
from tests.serving import producer as producer
from tests.serving import tenfour_server as tenfour_server
from tests.serving import web_server as web_server
from tests.waiting import PATIENCE_S

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them all that they
# start; some of that is interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A busy machine may let the cache and timers wait longer than pages and requests do.
settings.CACHES["default"]["OPTIONS"]["socket_timeout"] = PATIENCE_S
buffering.GIVE_UP_S = PATIENCE_S
# A busy machine may take longer for an example, or for ten, and each run tries the same examples.
hypothesis.settings.register_profile(
    "tests",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=True,
)
hypothesis.settings.load_profile("tests")
settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns without it


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their count: compressed ones hold the time, and processes must agree on names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Name a failed test at once: a run that is ended from outside prints no summary."""
    if report.when == "call" and report.failed:
        return "failed", f"\nFAILED {report.nodeid}\n", "FAILED"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in programs.describe_missing(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, red=True, bold=True)


if services.running:

    @pytest.fixture(scope="session")
    def django_db_setup() -> Iterator[None]:
        """Use the migrated database of the copied cluster instead of making one."""
        connection.settings_dict["NAME"] = services.DATABASE
        flush_quickly()
        yield
        connections.close_all()


@pytest.fixture(autouse=True)
def _no_counts_from_other_tests() -> None:
    cache.clear()


@pytest.fixture
def project(db: None) -> Project:
    return make_project()


@pytest.fixture
def agent(project: Project) -> Agent:
    return make_agent()


@pytest.fixture
def admin_user(db: None) -> User:
    """Without a password, unlike that of pytest-django: to hash one takes half a second."""
    return User.objects.create_superuser("admin")


class Api:
    """Calls the API as one token would."""

    def __init__(self, secret: str = "") -> None:
        self.client = Client()
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        data = (
            body if isinstance(body, (bytes, str)) else json.dumps(body) if body is not None else ""
        )
        response = self.client.generic(
            method,
            f"/v1{path}",
            data,
            content_type=more.pop("Content-Type", "application/json"),
            headers=self.headers | more,
        )
        response.body = json.loads(response.content) if "json" in response["Content-Type"] else None
        return response


@pytest.fixture
def api(db: None) -> Callable[..., Api]:
    """`api("agent", agent=…)`: a caller with a new token of that kind."""
    return lambda kind="operator", **more: Api(make_token(kind, **more))


@pytest.fixture
def operator(api: Callable[..., Api]) -> Api:
    return api("operator")


@pytest.fixture
def coder(api: Callable[..., Api], agent: Agent) -> Api:
    return api("agent", agent=agent)
