"""The examples in shell, as processes at a live server."""

import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from tenfour import Client

from tests.serving import ROOT, Tenfour
from tests.waiting import PATIENCE_S, wait_until

LOOP = ROOT / "examples" / "shell_loop.sh"
CI_STEP = ROOT / "examples" / "ci_step.sh"

# Fails until it is told what went wrong before.
LEARNS = """
prompt=$(cat)
case $prompt in
*"no shelf found"*) echo "found it" ;;
*) echo "no shelf found" >&2; exit 3 ;;
esac
"""


def environment(server: Tenfour, token: str, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TENFOUR_URL": server.url, "TENFOUR_TOKEN": token, **more}


def run(argv: list[str], env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S
    )


def test_the_loop_works_until_no_task_waits(tenfour_server: Tenfour, producer: Client) -> None:
    token = tenfour_server.token("agent", "coder")
    now = {"base_delay_ms": 0}
    first = producer.tasks.enqueue("coder", "code", {"n": 1}, title="Find it", backoff=now)
    second = producer.tasks.enqueue("coder", "code", {"n": 2}, backoff=now)
    done = run(["sh", str(LOOP), "sh", "-c", LEARNS], environment(tenfour_server, token))
    assert done.returncode == 0, done.stderr
    assert [producer.tasks.get(task.id).state for task in (first, second)] == ["done", "done"]
    after, before = producer.tasks.attempts(first.id)
    assert before.failure and "no shelf found" in str(before.failure)
    assert after.outcome == "success" and done.stdout.count("found it") == 2
    assert token not in done.stdout + done.stderr


def test_the_loop_says_why_the_agent_may_not_work(
    tenfour_server: Tenfour, producer: Client, operator: Client
) -> None:
    """AGT-20."""
    token = tenfour_server.token("agent", "coder")
    task = producer.tasks.enqueue("coder", "code")
    operator.agents.trip_breaker("coder")
    done = run(["sh", str(LOOP), "true"], environment(tenfour_server, token))
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "no task: breaker_open\n")
    assert producer.tasks.get(task.id).state == "queued"


def test_a_command_that_ends_at_once_leaves_no_process(
    tenfour_server: Tenfour, producer: Client
) -> None:
    """What sends the heartbeats may not have begun; it would keep running, with the output open."""
    env = environment(tenfour_server, tenfour_server.token("agent", "coder"))
    for _ in range(3):
        producer.tasks.enqueue("coder", "code")
    done = run(["sh", str(LOOP), "true"], env)  # ends when no process has the output open
    assert done.returncode == 0, done.stderr
    assert {task.state for task in producer.tasks.list()} == {"done"}


def test_the_loop_sends_heartbeats_and_releases_its_task(
    tenfour_server: Tenfour, producer: Client, tmp_path: Path
) -> None:
    token = tenfour_server.token("agent", "coder")
    task = producer.tasks.enqueue("coder", "code")
    env = environment(tenfour_server, token, WAIT="1", BEAT_S="0.2")
    begun = tmp_path / "begun"
    script = f"touch {shlex.quote(str(begun))}; sleep 600"
    # Ctrl-C in a terminal reaches the whole group.
    process = subprocess.Popen(["sh", str(LOOP), "sh", "-c", script], env=env, process_group=0)
    try:
        wait_until(begun.exists)
        (attempt,) = producer.tasks.attempts(task.id)

        def is_renewed() -> bool:
            found = producer.tasks.attempt(attempt.id)
            return found.lease_expires_at != attempt.lease_expires_at

        wait_until(is_renewed)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        status = process.wait(timeout=PATIENCE_S)
    assert status == 130
    now = producer.tasks.get(task.id)
    assert (now.state, now.retry_count) == ("queued", 0)


def test_a_loop_with_a_wrong_token_says_so(tenfour_server: Tenfour) -> None:
    done = run(["sh", str(LOOP), "true"], environment(tenfour_server, "tenfour_agt_wrong"))
    assert done.returncode != 0 and "401" in done.stderr


def test_the_step_gives_a_failure_to_an_agent_once(
    tenfour_server: Tenfour, producer: Client, agent_client: Client
) -> None:
    token = tenfour_server.token("orchestrator")
    env = environment(tenfour_server, token, AGENT="coder", COMMIT="0123456789abcdef")
    command = """printf 'red "shelf"\\n\\377'; exit 3"""
    for _ in range(2):
        done = run(["sh", str(CI_STEP), command], env)
        assert done.returncode == 3 and "a task of coder" in done.stderr, done.stderr
    (task,) = producer.tasks.list()
    assert task.title and task.title.endswith("at 0123456789ab")
    assert 'red "shelf"' in task.payload["output"] and task.payload["exit_code"] == 3
    # The agent's work is checked with the step's own command.
    (claim,) = agent_client.tasks.claim()
    with agent_client.attempt(claim) as attempt:
        assert attempt.verify().exit_code == 3


def test_a_step_that_passes_creates_no_task(tenfour_server: Tenfour, producer: Client) -> None:
    token = tenfour_server.token("orchestrator")
    env = environment(tenfour_server, token, AGENT="coder", COMMIT="1")
    done = run(["sh", str(CI_STEP), "echo green"], env)
    assert (done.returncode, done.stdout) == (0, "green\n")
    assert list(producer.tasks.list()) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", None])
def test_a_step_without_tenfour_has_the_exit_code_of_the_tests(
    url: str | None, tenfour_server: Tenfour
) -> None:
    env = environment(tenfour_server, "wrong", AGENT="coder", COMMIT="1")
    done = run(["sh", str(CI_STEP), "exit 5"], {**env, "TENFOUR_URL": url or env["TENFOUR_URL"]})
    assert done.returncode == 5 and "did not take the failure" in done.stderr
