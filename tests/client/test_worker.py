"""`tenfour worker`, and `tenfour run` where a person, a signal or a restart comes in between."""

import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tenfour import Client

from tests.client.conftest import Run
from tests.client.faulty import FaultyLine, problem
from tests.client.test_run import AT_ONCE, start, the_task
from tests.processes import is_running
from tests.serving import Tenfour, environment, serve
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def as_coder(tenfour_server: Tenfour, tmp_path: Path) -> dict[str, str]:
    return {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
        "TENFOUR_STATE": str(tmp_path / "state"),
    }


@pytest.fixture
def operator(tenfour_server: Tenfour) -> Iterator[Client]:
    with tenfour_server.client("operator") as client:
        yield client


def answer_first(operator: Client, text: str) -> None:
    wait_until(lambda: bool(list(operator.escalations.list(state="open"))))
    (asked,) = operator.escalations.list(state="open")
    operator.escalations.resolve(asked.id, text)


def start_worker(
    env: dict[str, str], *args: str, log: Path | None = None
) -> "subprocess.Popen[str]":
    """Start a worker; its messages go to the log, which can be read while it runs."""
    with ExitStack() as stack:
        return subprocess.Popen(
            [sys.executable, "-m", "tenfour", "worker", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context(log.open("w")) if log else subprocess.PIPE,
            text=True,
            env=environment(env),
        )


# ---- a person


def test_an_escalation_ends_the_run_with_75_and_a_blocked_task_with_76(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    producer.tasks.enqueue("coder", "code", max_attempts=1, on_exhausted="escalate")
    ran = run("run", "--", "false", env=as_coder)
    asked = the_task(producer)
    assert (ran.status, asked.state) == (75, "escalated")
    assert ran.err.startswith("tenfour: Attempt 1 of 1 ended; a person is asked: http")
    # The command itself reports that it can't continue.
    second = producer.tasks.enqueue("coder", "code")
    blocked = (
        f"{shlex.quote(sys.executable)} -m tenfour report $TENFOUR_ATTEMPT --status blocked"
        " --message key"
    )
    ran = run("run", "--", "sh", "-c", blocked, env=as_coder)
    assert (ran.status, ran.out) == (76, "blocked blocked\n")
    assert ran.err.endswith(f"tenfour: Task {second.id} is blocked.\n")


def test_a_run_waits_for_the_answer_and_goes_on_with_the_fix(
    as_coder: dict[str, str], producer: Client, operator: Client
) -> None:
    producer.tasks.enqueue("coder", "code", max_attempts=1, on_exhausted="escalate")
    script = 'cat "$TENFOUR_PROMPT_FILE" | grep "trim first"'
    running = start(as_coder, "--wait", "--", "sh", "-c", script)
    answer_first(operator, "fix: trim first")
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0 and "trim first" in out
    assert "tenfour: Waiting for an answer: http" in err and "Continuing with the answer." in err
    assert the_task(producer).state == "done"


@pytest.mark.parametrize(("answer", "status"), [("abort", 130), ("skip", 1)])
def test_an_answer_that_ends_the_task_ends_the_run(
    as_coder: dict[str, str], producer: Client, operator: Client, answer: str, status: int
) -> None:
    producer.tasks.enqueue("coder", "code", max_attempts=1, on_exhausted="escalate")
    running = start(as_coder, "--wait", "--", "false")
    answer_first(operator, answer)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == status and f"tenfour: The answer is: {answer}.\n" in err


def test_an_abort_stops_the_check_and_what_ignores_the_signal(
    as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    """Ten seconds after SIGTERM comes SIGKILL, also for the children."""
    mark = tmp_path / "pids"
    pids = shlex.quote(str(mark))
    check = f"trap '' TERM; echo $$ > {pids}; echo checking; sleep 300 & echo $! >> {pids}; wait; sleep 300"
    running = start(as_coder, "--name", "x", "--lease", "5", "--verify", check, "--", "true")
    assert running.stdout and running.stdout.readline() == "checking\n"
    wait_until(lambda: len(mark.read_text().split()) == 2)
    began = time.monotonic()
    producer.tasks.abort(the_task(producer).id)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130 and err.endswith("tenfour: The task was aborted.\n")
    assert time.monotonic() - began > 9
    wait_until(lambda: not any(is_running(int(pid)) for pid in mark.read_text().split()))


def test_what_the_command_leaves_running_serves_the_check_and_ends_with_the_attempt(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    pid = shlex.quote(str(mark))
    script = f"sleep 300 >/dev/null 2>&1 & echo $! > {pid}"
    check = f"kill -0 $(cat {pid})"
    ran = run("run", "--name", "x", "--verify", check, "--", "sh", "-c", script, env=as_coder)
    assert (ran.status, the_task(producer).state) == (0, "done")
    assert not is_running(int(mark.read_text()))


# ---- output


def test_a_huge_output_that_is_not_text_arrives_with_the_line_that_tells(
    as_coder: dict[str, str], producer: Client
) -> None:
    """What this machine sends is bounded: the server refuses more than 8 MiB."""
    noise = "head -c 20000000 /dev/zero | tr '\\0' '\\377' | fold -b -w 99"
    script = f"{noise}; echo; echo AssertionError: 4 is not 5; {noise}; exit 1"
    options = ["--name", "x", "--max-attempts", "1"]
    running = start(as_coder, *options, "--", "sh", "-c", f"({script}) 2>&1")
    assert running.stdout
    running.stdout.close()  # the reader is gone; the report needs the output all the same
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1 and "Traceback" not in err
    task = the_task(producer)
    (attempt,) = producer.tasks.attempts(task.id)
    assert task.state == "failed" and len((attempt.failure or {})["details"].encode()) < 70_000


# ---- the server


def test_a_restart_of_the_server_in_the_middle_loses_nothing(
    run: Run, tenfour_server: Tenfour, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    """The agent's server is one of its own on the same database, which is killed and started."""
    mark = tmp_path / "go"
    with socket.create_server(("127.0.0.1", 0)) as bound:
        env = as_coder | {"TENFOUR_URL": f"http://127.0.0.1:{bound.getsockname()[1]}"}
        server = serve(bound.fileno())
        script = f"echo up; until test -e {shlex.quote(str(mark))}; do sleep 0.1; done; echo fine"
        running = start(env, "--name", "x", "--lease", "60", "--", "sh", "-c", script)
        assert running.stdout and running.stdout.readline() == "up\n"
        server.kill()
        server.wait()
        mark.touch()
        wait_until(lambda: bool(list((tmp_path / "state" / "outbox").glob("*.json"))))
        server = serve(bound.fileno())
        try:
            out, _ = running.communicate(timeout=PATIENCE_S)
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE_S)
    assert (running.returncode, out) == (0, "fine\n")
    task = the_task(producer)
    assert (task.state, task.attempts, task.retry_count) == ("done", 1, 0)


# ---- worker


def test_a_worker_takes_task_after_task_and_outlasts_a_server_that_is_away(
    as_coder: dict[str, str], producer: Client, line: FaultyLine, tmp_path: Path
) -> None:
    first = producer.tasks.enqueue("coder", "code", {"action": "one"}, backoff=AT_ONCE)
    line.faults.extend([problem(503, "temporarily_unavailable", Retry_After="0")] * 3)
    script = 'read first; echo "$TENFOUR_ATTEMPT_NUMBER"; test "$TENFOUR_ATTEMPT_NUMBER" = 2'
    worker = start_worker(
        as_coder | {"TENFOUR_URL": line.url},
        "--stdin",
        "--agent",
        "coder",
        "--",
        "sh",
        "-c",
        script,
        log=(log := tmp_path / "log"),
    )
    try:
        wait_until(lambda: producer.tasks.get(first.id).state == "done")
        # It has asked and found nothing; otherwise the next task may be there before it asks.
        wait_until(lambda: "tenfour: No task is waiting; waiting.\n" in log.read_text())
        second = producer.tasks.enqueue("coder", "code", backoff=AT_ONCE)
        wait_until(lambda: producer.tasks.get(second.id).state == "done")
    finally:
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=PATIENCE_S)
    err = log.read_text()
    assert (worker.returncode, out) == (143, "1\n2\n1\n2\n")
    assert f"tenfour: Task {first.id}, attempt 2.\n" in err and "Traceback" not in err


def test_a_worker_of_another_agent_and_one_without_its_command_claim_nothing(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    producer.tasks.enqueue("coder", "code")
    other = run("worker", "--agent", "tester", "--", "true", env=as_coder)
    assert other.status == 2 and "belongs to the agent coder" in other.err
    missing = run("worker", "--", "no-such-command", env=as_coder)
    assert missing.status == 2 and "Command not found" in missing.err
    assert the_task(producer).state == "queued"


def test_a_worker_that_is_killed_leaves_its_report_to_the_next(
    as_coder: dict[str, str], producer: Client, line: FaultyLine, tmp_path: Path
) -> None:
    mark, state = tmp_path / "go", tmp_path / "state" / "outbox"
    producer.tasks.enqueue("coder", "code", lease_s=600)
    script = f"until test -e {shlex.quote(str(mark))}; do sleep 0.1; done"
    first = start_worker(as_coder | {"TENFOUR_URL": line.url}, "--", "sh", "-c", script)
    wait_until(lambda: the_task(producer).state == "running")
    line.faults.extend([problem(503, "temporarily_unavailable", Retry_After="0")] * 1000)
    mark.touch()
    wait_until(lambda: bool(list(state.glob("*.json"))))
    first.kill()
    first.communicate(timeout=PATIENCE_S)
    line.faults.clear()
    second = start_worker(as_coder | {"TENFOUR_URL": line.url}, "--", "true")
    assert second.stderr and "Sent the report of attempt" in second.stderr.readline()
    second.terminate()
    second.communicate(timeout=PATIENCE_S)
    assert the_task(producer).state == "done" and not list(state.glob("*"))
    assert the_task(producer).attempts == 1


def test_a_clock_that_is_wrong_here_changes_no_wait(
    run: Run, as_coder: dict[str, str], producer: Client
) -> None:
    """A retry is due in seconds from now, whatever this machine's clock says."""
    producer.tasks.enqueue("coder", "code", backoff={"base_delay_ms": 1000, "jitter": False})
    # An hour ahead: time.time() is the only clock that a wrong date changes.
    skewed = """
import sys, time
wall = time.time
time.time, time.time_ns = lambda: wall() + 3600, lambda: int((wall() + 3600) * 1e9)
from tenfour.cli import main
sys.exit(main())"""
    began = time.monotonic()
    argv = [
        sys.executable,
        "-c",
        skewed,
        "run",
        "--",
        "sh",
        "-c",
        "test $TENFOUR_ATTEMPT_NUMBER = 2",
    ]
    done = subprocess.run(argv, env=environment(as_coder), capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began > 1
