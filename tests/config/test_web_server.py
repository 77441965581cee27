"""What is loaded before there are workers."""

import os
import subprocess
import sys

import pytest
from django.test import RequestFactory

from config.local.embedded import free_port
from config.local.places import PROJECT
from config.web_server import Server
from config.wsgi import application
from tests.waiting import PATIENCE_S

LOADED = """
import gc, sys
from config.web_server import freeze_loaded, load_application
load_application("config.wsgi:application")
freeze_loaded()
from django.template import engines
kept = engines["django"].engine.template_loaders[0].get_template_cache
print(gc.isenabled() and gc.get_freeze_count() > 100_000)
print("dashboard.overview.views" in sys.modules, len(kept) > 100)
"""


def test_views_and_templates_are_loaded_once_without_the_database() -> None:
    """A connection that is open when workers are forked would be shared by them."""
    nowhere = f"postgresql://tenfour@127.0.0.1:{free_port()}/tenfour"
    env = os.environ | {"DATABASE_URL": nowhere, "PYTHONPATH": str(PROJECT)}
    argv = [sys.executable, "-c", LOADED]
    done = subprocess.run(
        argv, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout.split() == ["True"] * 3, done.stderr


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/v1/docs", "/v1/openapi.json", "/v1/me", "/v1/unknown"])
def test_the_api_and_its_docs_have_a_policy_and_refuse_frames(path: str) -> None:
    headers: dict[str, str] = {}

    def start_response(status: str, pairs: list[tuple[str, str]], *rest: object) -> None:
        headers.update(pairs)

    environ = RequestFactory().get(path).environ
    list(application(environ, start_response))
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"


class Interrupt:
    """The event that ends the main loop; another signal arrives while it is set."""

    def __init__(self, server: Server) -> None:
        self.server, self.is_locked, self.count = server, False, 0

    def set(self) -> None:
        assert not self.is_locked, "it would wait for its own lock"
        self.is_locked = True
        self.server.signal_handler_interrupt()
        self.is_locked = False
        self.count += 1


def test_a_second_signal_does_not_interrupt_the_stop_at_the_first() -> None:
    server = object.__new__(Server)
    server.interrupt_signal, server.main_loop_interrupt = False, Interrupt(server)
    server.signal_handler_interrupt()
    server.signal_handler_interrupt()
    assert server.interrupt_signal and server.main_loop_interrupt.count == 1
