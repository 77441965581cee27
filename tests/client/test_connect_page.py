"""The lines of the page that connects an agent, each run as printed in a fresh environment."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.urls import reverse
from pytest_django import Settings
from tenfour.setup import agent_files

from dashboard.connect.views import HOOK_EVENTS, HTTP_EVENTS
from ledger.models import Instruction, Token
from tests.connect_page import ConnectPage, environment_of, make_venv
from tests.serving import ROOT, Tenfour

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], str]:
    """Run lines in a new user's shell, in a virtual environment that has pip alone."""
    environ = environment_of(make_venv(tmp_path / "venv"), tmp_path)

    def run(lines: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", lines], env=environ, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def page(tenfour_server: Tenfour, settings: Settings) -> ConnectPage:
    return ConnectPage(tenfour_server.url, tenfour_server.project, settings)


def assert_acknowledged() -> None:
    assert Instruction.objects.get().state == "acknowledged"
    assert Token.objects.get().first_call is not None


def test_the_lines_of_the_command_line(page: ConnectPage, shell: Callable[[str], str]) -> None:
    told = shell(page.lines("cli"))
    assert "Run `git status` and say in one line what you found." in told
    assert_acknowledged()


def test_the_lines_of_curl(page: ConnectPage, shell: Callable[[str], str]) -> None:
    assert "git status" in shell(page.lines("curl"))
    assert_acknowledged()


def test_the_lines_of_python(
    page: ConnectPage, shell: Callable[[str], str], tmp_path: Path
) -> None:
    install, program = page.lines("install"), page.lines("python")
    assert len([*install.splitlines(), *program.splitlines()]) <= 5
    (tmp_path / "agent.py").write_text(program)
    assert "git status" in shell(f"{install}\npython agent.py")
    assert_acknowledged()


def test_uv_runs_a_command_without_an_install(
    page: ConnectPage, tenfour_server: Tenfour, shell: Callable[[str], str]
) -> None:
    export = "\n".join(page.lines("cli").splitlines()[:2])
    uv = ROOT / ".venv" / "bin" / "uv"
    wheel = tenfour_server.url + reverse("client_wheel")
    told = shell(f"{export}\n{shlex.quote(str(uv))} tool run --quiet --from {wheel} tenfour pull")
    assert "git status" in told


def test_the_page_and_the_docs_name_the_hooks_that_the_client_writes() -> None:
    """AGT-27."""
    assert HOOK_EVENTS == agent_files.EVENTS and HTTP_EVENTS == agent_files.HTTP_EVENTS
    *most, last = HTTP_EVENTS
    assert f"for {', '.join(most)} and {last}:" in (ROOT / "docs" / "hooks.md").read_text()
