"""examples/checks.py against a live server, answered by hand and by a real agent process."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone
from tenfour import Client

from examples.checks import ClientContextTask, OpenSpecTask, WorkflowTask
from ledger.journal import SYSTEM
from retries.reminders import retry_unacknowledged
from tests.serving import ROOT, Tenfour, environment
from tests.waiting import PATIENCE_S

COMMAND = {"command": "openspec", "line": "openspec --version", "found": True, "exit_code": 0}


def test_the_expected_event_settles_the_check_and_its_data_is_used(
    producer: Client, agent_client: Client
) -> None:
    """S0.33"""
    task = OpenSpecTask()
    task.cli_check.request(producer, "coder")
    id = task.cli_check.pending_id
    assert id is not None
    (pulled,) = agent_client.instructions.pull()
    assert pulled.id == id and id not in pulled.text

    assert agent_client.signal("fs_command", {"command": "git"}) == ()
    assert agent_client.signal("fs_directory", {"path": "openspec"}) == ()
    task.cli_check.poll(producer)
    assert (task.cli_check.pending_id, task.available) == (id, None)

    assert agent_client.signal("fs_command", COMMAND) == (id,)
    task.cli_check.poll(producer)
    assert (task.cli_check.pending_id, task.available) == (None, True)

    assert agent_client.signal("fs_command", COMMAND | {"found": False}) == ()
    task.cli_check.poll(producer)
    assert task.available is True


def test_an_event_settles_only_the_check_that_expects_it(
    producer: Client, agent_client: Client
) -> None:
    task = OpenSpecTask()
    for check in task.checks:
        check.request(producer, "coder")
    entries = {"path": "openspec", "exists": True, "entries": ["changes", "project.md"]}
    assert agent_client.signal("fs_directory", entries) == (task.project_check.pending_id,)
    for check in task.checks:
        check.poll(producer)
    assert (task.is_project, task.available) == (True, None)
    assert task.cli_check.pending_id and not task.project_check.pending_id


def test_asking_again_while_it_is_pending_changes_nothing(
    producer: Client, agent_client: Client
) -> None:
    (check,) = ClientContextTask().checks
    check.request(producer, "coder")
    first = check.pending_id
    check.request(producer, "coder")
    assert check.pending_id == first
    assert len(agent_client.instructions.pull()) == 1


def test_the_system_and_the_phase_come_from_the_data(
    producer: Client, agent_client: Client
) -> None:
    system, workflow = ClientContextTask(), WorkflowTask()
    for check in (*system.checks, *workflow.checks):
        check.request(producer, "coder")
    agent_client.signal("client_context", {"os": "Linux"})
    agent_client.signal(
        "fs_file", {"path": ".workflow.yaml", "content": "issue: 2\nphase: review\n"}
    )
    for check in (*system.checks, *workflow.checks):
        check.poll(producer)
    assert (system.system, workflow.phase) == ("Linux", "review")


def test_an_ignored_check_is_given_up_and_does_not_wait_for_ever(
    tenfour_server: Tenfour, producer: Client, agent_client: Client
) -> None:
    task = OpenSpecTask()
    task.cli_check.request(producer, "coder", max_retries=1)
    texts = []
    for tick in range(1, 4):
        texts += [each.text for each in agent_client.instructions.pull()]
        now = timezone.now() + timedelta(minutes=tick)
        retry_unacknowledged(now=now, project=tenfour_server.project, actor=SYSTEM)
    task.cli_check.poll(producer)
    assert texts == [task.cli_check.content] * 2
    assert task.cli_check.ignored and task.cli_check.pending_id is None
    assert task.available is None


@pytest.fixture
def steady(tenfour_server: Tenfour) -> Iterator[None]:
    """The steady agent as a process."""
    env = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "steady"),
    }
    command = [sys.executable, "examples/agents.py", "steady", "--every", "0.1", "--with-parent"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, env=environment(env))
    yield
    assert process.stdin
    process.stdin.close()
    assert process.wait(timeout=PATIENCE_S) == 0


def test_real_processes_ask_and_answer(tenfour_server: Tenfour, steady: None) -> None:
    env = {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("orchestrator")}
    done = subprocess.run(
        [sys.executable, "examples/checks.py", "--agent", "steady", "--wait", str(PATIENCE_S)],
        cwd=ROOT,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OpenSpec: available no, a project no" in done.stdout
    assert f"System: {'Linux' if sys.platform == 'linux' else ''}" in done.stdout
    assert "Workflow: phase none" in done.stdout
