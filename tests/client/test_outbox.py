"""Reports on disk: they survive a server that is away, a crash and a reboot."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tenfour import Client, tasks
from tenfour.http import outbox
from tenfour.settings import Settings

from tests.client.conftest import Run
from tests.client.faulty import FaultyLine, problem
from tests.client.test_run import start, the_task
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def as_coder(tenfour_server: Tenfour, state: Path) -> dict[str, str]:
    return {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
        "TENFOUR_STATE": str(state),
    }


def waiting(state: Path) -> list[Path]:
    return sorted((state / "outbox").glob("*.json"))


AWAY = problem(503, "temporarily_unavailable", Retry_After="0")


def test_a_report_survives_that_everything_is_killed_before_it_is_sent(
    run: Run,
    as_coder: dict[str, str],
    state: Path,
    producer: Client,
    line: FaultyLine,
    tmp_path: Path,
) -> None:
    """The agent's machine loses its power while the server is away; a new process sends it."""
    mark = tmp_path / "go"
    script = f"echo up; until test -e {shlex.quote(str(mark))}; do sleep 0.1; done; echo {'x' * 2000}; exit 3"
    options = ["--name", "x", "--max-attempts", "1", "--lease", "600"]
    through_line = as_coder | {"TENFOUR_URL": line.url}
    running = start(through_line, *options, "--", "sh", "-c", script)
    assert running.stdout and running.stdout.readline() == "up\n"
    line.faults.extend([AWAY] * 1000)
    mark.touch()
    wait_until(lambda: bool(waiting(state)))
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=PATIENCE_S)
    (file,) = waiting(state)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert as_coder["TENFOUR_TOKEN"] not in file.read_text()
    assert the_task(producer).state == "running"
    # Still away: it is kept, and the exit status says so.
    kept = run("resend", env=through_line)
    assert kept.status == 1 and "temporarily_unavailable" in kept.err and waiting(state)
    line.faults.clear()
    sent = run("resend", env=through_line)
    task = the_task(producer)
    (attempt,) = producer.tasks.attempts(task.id)
    assert (sent.status, sent.out, sent.err) == (0, f"{attempt.id} failed\n", "")
    assert task.state == "failed" and not waiting(state)
    assert "x" * 500 in json.dumps(attempt.failure)
    assert run("resend", env=through_line).out == ""


def test_the_next_command_sends_it(
    run: Run, as_coder: dict[str, str], state: Path, producer: Client, line: FaultyLine
) -> None:
    through_line = as_coder | {"TENFOUR_URL": line.url}
    options = ["--name", "x", "--patience", "0"]
    script = "echo up; read go; echo fine"
    running = start(through_line, *options, "--", "sh", "-c", script)
    assert running.stdout and running.stdout.readline() == "up\n"
    line.faults.extend([AWAY] * 1000)
    out, err = running.communicate("go\n", timeout=PATIENCE_S)
    line.faults.clear()
    assert (running.returncode, out) == (69, "fine\n")
    assert f"It waits in {state}/outbox" in err and "`tenfour resend`" in err
    # Another agent's command leaves it alone.
    other = run("pull", env=through_line | {"TENFOUR_TOKEN": other_token(producer)})
    assert (other.status, other.err, len(waiting(state))) == (0, "", 1)
    pulled = run("pull", env=through_line)
    (attempt,) = producer.tasks.attempts(the_task(producer).id)
    assert pulled.status == 0 and the_task(producer).state == "done"
    assert pulled.err == f"tenfour: Sent the report of attempt {attempt.id}: done.\n"


def other_token(producer: Client) -> str:
    from ledger import agents, tokens
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Project

    project = Project.objects.get(pk=producer.me().project["id"])
    agent = agents.register("other", project=project, stamp=Stamp(SYSTEM))
    return tokens.issue("agent", project=project, agent=agent, stamp=Stamp(SYSTEM))[1]


def test_a_report_that_comes_too_late_is_set_aside_and_said(
    run: Run, as_coder: dict[str, str], state: Path, producer: Client, agent_client: Client
) -> None:
    producer.tasks.enqueue("coder", "code")
    (claim,) = agent_client.tasks.claim()
    store = f"""
from tenfour import settings, tasks
from tenfour.http import outbox
outbox.store({claim.attempt.id!r}, tasks.exit({claim.attempt.id!r}, 0, "fine"), settings.read())
"""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": "client", **as_coder}
    subprocess.run([sys.executable, "-c", store], env=env, check=True)
    agent_client.tasks.release(claim.attempt.id)
    late = run("resend", env=as_coder)
    assert (late.status, late.out) == (1, "") and "is over" in late.err
    (aside,) = (state / "outbox").glob("*.refused")
    assert f"It is stored in {aside}." in late.err
    assert run("resend", env=as_coder).err == ""


def test_a_report_is_stored_before_it_is_sent_and_the_same_try_is_known(
    producer: Client, agent_client: Client, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOUR_STATE", str(state))
    producer.tasks.enqueue("coder", "code")
    (claim,) = agent_client.tasks.claim()
    call = tasks.report(claim.attempt.id, "success", summary="done")
    stored = outbox.store(claim.attempt.id, call, agent_client.settings)
    (read,) = outbox.list_reports(agent_client.settings)
    assert read == stored
    first = agent_client.perform(read.call)  # the answer is lost with the machine
    (sent,) = outbox.send_all(agent_client.perform, iter([read]))
    assert sent.decision and sent.decision.decision == first.decision == "done"
    assert outbox.is_empty()


def test_what_is_no_report_and_what_another_server_gets_is_left_alone(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOUR_STATE", str(state))
    here, there = (Settings(f"http://{name}", "t") for name in ("here", "there"))
    outbox.store("a", tasks.exit("a", 0), there)
    (state / "outbox" / "0.json").write_text("{}")
    (state / "outbox" / "1.json").write_bytes(b"\xff")
    assert list(outbox.list_reports(here, of_any_token=True)) == []
    assert [each.attempt for each in outbox.list_reports(there)] == ["a"]
    assert list(outbox.list_reports(Settings("http://there", "u"))) == []


def test_only_the_newest_refused_reports_are_kept(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOUR_STATE", str(state))
    monkeypatch.setattr(outbox, "MOST_REFUSED", 2)
    here = Settings("http://here", "t")
    for name in "abc":
        outbox.set_aside(outbox.store(name, tasks.exit(name, 0), here))
    assert len(list((state / "outbox").glob("*.refused"))) == 2 and outbox.is_empty()


def test_a_disk_that_takes_nothing_does_not_stop_the_report(
    run: Run, as_coder: dict[str, str], producer: Client, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    blocked = as_coder | {"TENFOUR_STATE": str(tmp_path / "file")}
    ran = run("run", "--name", "x", "--", "true", env=blocked)
    assert ran.status == 0 and "can't be stored on this machine" in ran.err
    assert the_task(producer).state == "done"


def test_nothing_is_burnt_or_stored_where_no_server_is_or_the_token_is_wrong(
    run: Run, as_coder: dict[str, str], state: Path, producer: Client
) -> None:
    producer.tasks.enqueue("coder", "code")
    away = run("run", "--", "true", env=as_coder | {"TENFOUR_URL": "http://127.0.0.1:1"})
    assert away.status == 69 and "cannot be reached" in away.err
    wrong = run("run", "--", "true", env=as_coder | {"TENFOUR_TOKEN": "tenfour_agt_wrong"})
    assert wrong.status == 1 and "token" in wrong.err.lower() and "Traceback" not in wrong.err
    assert the_task(producer).state == "queued" and not waiting(state)
