"""`manage.py demo` against a live server: the whole ladder, and nothing left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from config.demo.demo_project import refuse_second_demo, run_stage
from config.demo.instruction_demo import skip_older_questions
from ledger.models import Agent, Instruction, Task, Token
from retries.attempts import leases
from retries.models import Escalation
from tests.processes import is_running
from tests.retries.escalations.test_answering import ignored
from tests.serving import ROOT, database_of_tests
from tests.waiting import PATIENCE_S, wait_until

Demo = Callable[..., "subprocess.Popen[str]"]
# of the whole ladder, which takes a minute where nothing else runs
LONGEST_S = 2 * PATIENCE_S


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
    """Waits until the demo does something: by then the agents have been started."""
    assert running.stdout
    said = ""
    for line in running.stdout:
        said += line
        if line.startswith("demo "):
            return
    raise AssertionError(f"the demo ended before it began: {said}")


def agents_of(pid: int) -> list[int]:
    """The agent processes that the demo started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


@pytest.mark.timeout(LONGEST_S + PATIENCE_S)
def test_the_whole_ladder_and_a_persons_fixes(
    demo: Demo, web_server: str, transactional_db: None
) -> None:
    """S1.1, S1.37, S1.47, S1.49: what failed three times for want of a fact is done by attempt 4 of 4."""
    # It asks as soon as a question is open, and ends when everything is over.
    running = demo(web_server, "--seconds", "1", "--speed", "2.4", "--wait", str(LONGEST_S))
    open_ones = Escalation.objects.open()
    wait_until(lambda: open_ones.count() == 2 or running.poll() is not None)
    mara = Client()
    mara.force_login(User.objects.create_superuser("mara"))
    ignored, version = open_ones.get(task=None), open_ones.get(instruction=None)
    fixes = {
        ignored: "Run `date -u` and say what you found.",
        version: "Run `echo 2.0.0 > VERSION`",
    }
    for escalation, fix in fixes.items():
        form = {"action": "fix", "fix": fix, "version": str(escalation.version)}
        mara.post(f"/escalations/{escalation.id}/answer/", form)

    def is_over() -> bool:
        leases.expire(now=timezone.now())  # no clock runs here
        return running.poll() is not None

    wait_until(is_over)
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, out
    ignored.refresh_from_db()
    assert ignored.resent_as is not None and ignored.resent_as.state == "acknowledged"
    for text in ("steady | Run `python3", "picky  | **IMPORTANT:** ", "deaf   | **URGENT:** "):
        assert text in out, out
    sent = Instruction.objects.exclude(pk=ignored.resent_as.pk)
    fates = dict(sent.values_list("agent__name", "state").distinct())
    assert fates == {"steady": "acknowledged", "picky": "acknowledged", "deaf": "failed"}, out
    assert "failed after 3 retries: Run `df -h .`" in out
    assert "5 failed" in out and "7 acknowledged" in out
    assert " open: http" in out
    assert not Token.objects.filter(revoked_at=None).exists()
    assert version.task is not None
    version.task.refresh_from_db()
    assert (version.task.state, version.task.attempts) == ("done", 4), out
    assert Task.objects.get(ref__endswith="task-10").state == "done"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_agent_is_left_however_it_ends(
    demo: Demo, web_server: str, transactional_db: None, how: signal.Signals
) -> None:
    running = demo(web_server)
    until_it_plays(running)
    agents = agents_of(running.pid)
    assert len(agents) >= 8  # builder is two, and so is mortal once it has been killed
    running.send_signal(how)
    out, _ = running.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not any(map(is_running, agents)))
    assert "Traceback" not in out
    assert Agent.objects.count() == 7


def test_it_can_run_again_but_not_beside_itself(
    demo: Demo, web_server: str, transactional_db: None
) -> None:
    first = demo(web_server)
    until_it_plays(first)
    second, _ = demo(web_server).communicate(timeout=PATIENCE_S)
    assert "A demo is running already" in second and "Traceback" not in second
    first.send_signal(signal.SIGINT)
    assert "No agent is left running" in first.communicate(timeout=PATIENCE_S)[0]
    again = demo(web_server, "--seconds", "2", "--wait", "0")
    out, _ = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0 and "deliveries" in out, out


def test_an_interrupt_inside_a_statement_ends_it_as_any_other(
    web_server: str, transactional_db: None
) -> None:
    with pytest.raises(KeyboardInterrupt), refuse_second_demo(), run_stage(web_server):
        connection.connection.pgconn.send_query(b"select pg_sleep(0)")  # its rows are never read
        raise KeyboardInterrupt
    token = Token.objects.get()
    assert token.revoked_at is not None


@pytest.mark.django_db
def test_older_questions_of_an_endless_demo_are_skipped(agent: Agent) -> None:
    """OPR-15, OPR-43: at most five of its own are open, however long it plays."""
    asked = [ignored(agent, f"Check {number}") for number in range(7)]
    skip_older_questions(agent.project)
    skip_older_questions(agent.project)
    assert list(Escalation.objects.open().order_by("id")) == asked[2:]
    first = Escalation.objects.get(pk=asked[0].pk)
    assert (first.action, first.answered_by_name) == ("skip", "demo")


def test_nothing_running_is_one_sentence(demo: Demo, transactional_db: None) -> None:
    running = demo("http://127.0.0.1:1")
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    assert "make up" in out and "Traceback" not in out
