"""`manage.py demo` against a live server: the whole ladder, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Agent, Instruction, Token
from retries.models import Escalation
from tests.serving import ROOT, database_of_tests

Demo = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def demo() -> Iterator[Demo]:
    """Starts the demo as a process; what still runs at the end of the test is killed."""
    started = []

    def start(url: str, *options: str) -> "subprocess.Popen[str]":
        running = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--url", url, *options],
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": database_of_tests()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(running)
        return running

    yield start
    for each in started:
        each.kill()
        each.communicate()


def until_it_plays(running: "subprocess.Popen[str]") -> None:
    """Waits for the first instruction: by then the agents have been started."""
    assert running.stdout
    said = ""
    for line in running.stdout:
        said += line
        if "|" in line:
            return
    raise AssertionError(f"the demo ended before it began: {said}")


def agents_of(pid: int) -> list[int]:
    """The agent processes that the demo started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def gone(pid: int) -> bool:
    try:
        state = re.search(r"^State:\s*(\S)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except (FileNotFoundError, ProcessLookupError):
        return True
    return bool(state and state[1] == "Z")


def until_all_are_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not all(map(gone, pids)):
        time.sleep(0.05)
    return all(map(gone, pids))


def test_the_whole_ladder(demo: Demo, gunicorn: str, transactional_db: None) -> None:
    running = demo(gunicorn, "--seconds", "9.5", "--speed", "5", "--wait", "0")
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0, out
    for text in ("steady | Run `python3", "picky  | **IMPORTANT:** ", "deaf   | **URGENT:** "):
        assert text in out, out
    fates = dict(Instruction.objects.values_list("agent__name", "state").distinct())
    assert fates == {"steady": "acknowledged", "picky": "acknowledged", "deaf": "failed"}, out
    assert "failed after 3 retries: Run `df -h .`" in out
    assert "5 failed" in out and "7 acknowledged" in out
    assert not Token.objects.filter(revoked_at=None).exists()


def test_a_persons_fix_is_heeded_by_the_deaf_agent(
    demo: Demo, gunicorn: str, transactional_db: None
) -> None:
    running = demo(gunicorn, "--seconds", "9.5", "--speed", "5", "--wait", "40")
    assert running.stdout
    said = []
    for line in running.stdout:
        said.append(line)
        if "waits for you" in line:
            break
    escalation = Escalation.objects.open().get()
    mara = Client()
    mara.force_login(User.objects.create_user("mara", is_staff=True))
    form = {"action": "fix", "fix": "Run `uptime` and say what you found.", "version": "1"}
    mara.post(f"/escalations/{escalation.id}/answer/", form)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0, [*said, out]
    escalation.refresh_from_db()
    assert escalation.resent_as is not None and escalation.resent_as.state == "acknowledged"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_agent_is_left_however_it_ends(
    demo: Demo, gunicorn: str, transactional_db: None, how: signal.Signals
) -> None:
    running = demo(gunicorn)
    until_it_plays(running)
    agents = agents_of(running.pid)
    assert len(agents) == 3
    running.send_signal(how)
    out, _ = running.communicate(timeout=30)
    assert until_all_are_gone(agents)
    assert "Traceback" not in out
    assert Agent.objects.count() == 3


def test_it_can_run_again_but_not_beside_itself(
    demo: Demo, gunicorn: str, transactional_db: None
) -> None:
    first = demo(gunicorn)
    until_it_plays(first)
    second, _ = demo(gunicorn).communicate(timeout=30)
    assert "A demo runs already" in second and "Traceback" not in second
    first.send_signal(signal.SIGINT)
    assert "No agent is left running" in first.communicate(timeout=30)[0]
    again = demo(gunicorn, "--seconds", "2", "--wait", "0")
    out, _ = again.communicate(timeout=60)
    assert again.returncode == 0 and "deliveries" in out, out


def test_nothing_running_is_one_sentence(demo: Demo, transactional_db: None) -> None:
    running = demo("http://127.0.0.1:1")
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 1
    assert "make up" in out and "Traceback" not in out
