"""`tenfour export`, and the debugging commands of the seed document on what it writes."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from tenfour import Client, TenfourError
from tenfour.commands.export_files import append_file
from tenfour.commands.export_following import FollowedLog, Position

from ledger import agents
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Plan
from tests.client.conftest import Run
from tests.retries.renderings.stories import add, attempt, make_plan, sample
from tests.serving import Tenfour, environment
from tests.waiting import PATIENCE_S, wait_until

FILES = {"retry-state.json", "retry.log", "retry.jsonl", "state.md", "failure-records.yaml"}


@pytest.fixture
def as_reader(tenfour_server: Tenfour) -> dict[str, str]:
    """Of a project with the sample's plan, and a task in another one."""
    now = timezone.now() - timedelta(hours=1)
    agent = agents.register("coder", project=tenfour_server.project, stamp=Stamp(SYSTEM))
    sample(agent, now=now)
    attempt(agent, add(make_plan(agent, "03-02"), agent, 1, now=now), now=now, error="no")
    return {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("reader")}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def shell(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_debugging_commands_run_unchanged(
    run: Run, as_reader: dict[str, str], tmp_path: Path
) -> None:
    """S1.64, with grep"""
    assert run("export", str(tmp_path / ".ultraplan" / "logs"), env=as_reader).status == 0
    log = (tmp_path / ".ultraplan" / "logs" / "retry.log").read_text().splitlines(keepends=True)
    assert shell("tail -50 .ultraplan/logs/retry.log", tmp_path) == "".join(log[-50:])
    counts = shell(
        """grep "attempt=" .ultraplan/logs/retry.log | cut -d']' -f3 | sort | uniq -c""", tmp_path
    )
    assert re.findall(r"(\d+) +\[(\S+)", counts) == [
        ("1", "03-01:task-1"),
        ("3", "03-01:task-2"),
        ("5", "03-01:task-3"),
        ("1", "03-01:task-4"),
        ("1", "03-01:task-5"),
        ("1", "03-02:task-1"),
    ]
    (escalation,) = shell('grep "escalating" .ultraplan/logs/retry.log', tmp_path).splitlines()
    assert escalation.endswith('[03-01:task-3] escalating reason="max_retries_exceeded"')


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq on this machine")
def test_the_jq_line_runs_unchanged(run: Run, as_reader: dict[str, str], tmp_path: Path) -> None:
    """S1.64, with jq"""
    assert run("export", str(tmp_path / ".ultraplan" / "logs"), env=as_reader).status == 0
    told = shell(
        """cat .ultraplan/logs/retry.jsonl | jq 'select(.event=="resolved") | {task: .task_id, attempts: .total_attempts}'""",
        tmp_path,
    )
    found = [json.loads(each) for each in re.findall(r"\{[^}]*\}", told)]
    assert {each["task"]: each["attempts"] for each in found} == {
        "03-01:task-1": 1,
        "03-01:task-2": 2,
        "03-01:task-3": 3,
        "03-01:task-4": 1,
        "03-01:task-5": 1,
    }


def test_the_files_of_the_project_and_of_each_plan(
    run: Run, as_reader: dict[str, str], tmp_path: Path
) -> None:
    done = run("export", str(tmp_path), env=as_reader)
    assert (done.status, done.err) == (0, "")
    plans = {f"plans/{ref}/{name}" for ref in ("03-01", "03-02") for name in {*FILES, "summary.md"}}
    assert names(tmp_path) == FILES | plans
    assert {
        str(Path(line).relative_to(tmp_path)) for line in done.out.splitlines()
    } == FILES | plans
    one = tmp_path / "plans" / "03-01"
    assert (one / "summary.md").read_text().startswith("## Retry Summary for Plan 03-01\n")
    whole = (tmp_path / "retry.log").read_text().splitlines()
    assert (one / "retry.log").read_text().splitlines() == [x for x in whole if "[03-01:" in x]
    assert json.loads((tmp_path / "retry-state.json").read_text())["global_stats"] == {
        "total_retries": 3,
        "successful_retries": 1,
        "escalations": 1,
    }


def test_one_plan_alone_replaces_what_was_there(
    run: Run, as_reader: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "retry.log").write_text("old")
    assert run("export", str(tmp_path), "--plan", "03-02", env=as_reader).status == 0
    assert names(tmp_path) == FILES | {"summary.md"}
    assert set(re.findall(r"\[(\d+-\d+):", (tmp_path / "retry.log").read_text())) == {"03-02"}


def test_the_files_are_closed_to_other_users(
    run: Run, as_reader: dict[str, str], tmp_path: Path
) -> None:
    """As those of `manage.py export`, also where an earlier version wrote the files (SEC-9)."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "retry.log").write_text("old")
    before = os.umask(0)
    try:
        assert run("export", str(folder), env=as_reader).status == 0
    finally:
        os.umask(before)
    modes = {path.is_file(): set[int]() for path in folder.rglob("*")}
    for path in folder.rglob("*"):
        modes[path.is_file()].add(path.stat().st_mode & 0o777)
    assert modes == {True: {0o640}, False: {0o750}}


def test_an_export_that_can_not_be_made_changes_nothing(
    run: Run, as_reader: dict[str, str], tenfour_server: Tenfour, tmp_path: Path
) -> None:
    unknown = run("export", str(tmp_path / "a"), "--plan", "09-09", env=as_reader)
    assert unknown.status == 1 and "No plan" in unknown.err
    agent = as_reader | {"TENFOUR_TOKEN": tenfour_server.token("agent", "coder")}
    refused = run("export", str(tmp_path / "a"), env=agent)
    assert refused.status == 1 and "events:read" in refused.err
    (tmp_path / "file").write_text("mine")
    blocked = run("export", str(tmp_path / "file"), env=as_reader)
    assert blocked.status == 2 and "can't be written" in blocked.err
    assert names(tmp_path) == {"file"}


def test_documents_in_python(tenfour_server: Tenfour, as_reader: dict[str, str]) -> None:
    with Client(tenfour_server.url, as_reader["TENFOUR_TOKEN"]) as tenfour:
        assert len(tenfour.document("retry.log", tail=2).splitlines()) == 2
        assert tenfour.document("summary", plan="03-01").startswith("## Retry Summary")
        with pytest.raises(TenfourError, match="No plan"):
            tenfour.document("state.md", plan="09-09")


# ---- kept current


@contextmanager
def followed(folder: Path, *args: str, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Run `tenfour export --follow`; interrupt it at the end, as Ctrl-C does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tenfour", "export", "--follow", str(folder), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(env),
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (130, -signal.SIGKILL) and "Traceback" not in err


def document(env: dict[str, str], name: str, plan: str | None = None) -> str:
    with Client(env["TENFOUR_URL"], env["TENFOUR_TOKEN"]) as tenfour:
        return tenfour.document(name, plan=plan)


def is_current(folder: Path, env: dict[str, str]) -> bool:
    """Whether the logs have the lines of the server's, each once, and the states are equal."""
    logs = all(
        (folder / "logs" / name).exists()
        and sorted((folder / "logs" / name).read_text().splitlines())
        == sorted(document(env, name).splitlines())
        for name in ("retry.log", "retry.jsonl")
    )
    states = {"state/retry-state.json": "retry-state.json", "STATE.md": "state.md"}
    states["state/failure-records.yaml"] = "failure-records.yaml"
    return logs and all(
        (folder / path).exists() and (folder / path).read_text() == document(env, name)
        for path, name in states.items()
    )


def fail_again(tenfour_server: Tenfour, number: int) -> None:
    agent = Agent.objects.get(project=tenfour_server.project)
    plan = Plan.objects.get(project=tenfour_server.project, ref="03-02")
    now = timezone.now() - timedelta(minutes=5)
    attempt(agent, add(plan, agent, number, now=now), now=now, error=f"no {number}\n" * 3)


def test_a_followed_folder_stays_current_over_restarts(
    as_reader: dict[str, str], tenfour_server: Tenfour, tmp_path: Path
) -> None:
    """SED-3: one is killed, one is interrupted; `tail -f` reads every line once."""
    folder = tmp_path / ".ultraplan"
    log = folder / "logs" / "retry.log"
    with followed(folder, env=as_reader):
        wait_until(lambda: is_current(folder, as_reader))
        inode, tail = log.stat().st_ino, log.open()
        heard = tail.read()
        fail_again(tenfour_server, 2)
        wait_until(lambda: is_current(folder, as_reader))
        again = subprocess.run(
            [sys.executable, "-m", "tenfour", "export", "--follow", str(folder)],
            env=environment(as_reader),
            capture_output=True,
            text=True,
        )
        assert again.returncode == 2 and "another process" in again.stderr
    fail_again(tenfour_server, 3)
    with followed(folder, env=as_reader) as process:
        wait_until(lambda: is_current(folder, as_reader))
        process.kill()
    fail_again(tenfour_server, 4)
    with followed(folder, env=as_reader):
        wait_until(lambda: is_current(folder, as_reader))
    with tail:
        heard += tail.read()
    assert log.stat().st_ino == inode and heard == log.read_text()
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes <= {0o640, 0o600}
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_dir()} == {0o750}


@pytest.mark.parametrize("written", [0, 1, 40, -1])
def test_what_a_killed_follower_began_is_added_by_the_next(written: int, tmp_path: Path) -> None:
    """SED-3: not a character is lost or doubled, wherever it was killed."""
    path, pending = tmp_path / "retry.log", "[x] attempt=1 status=failed é\n" * 3
    path.write_text("before\n")
    position = Position("project p", "7.x", len("before\n"), pending)
    (tmp_path / ".retry.log.position").write_text(json.dumps(asdict(position)))
    data = pending.encode()
    append_file(path, data if written == -1 else data[:written])
    FollowedLog(path, "project p")
    FollowedLog(path, "project p")
    assert path.read_text() == "before\n" + pending
    path.write_text("")  # rotated, as copytruncate does
    FollowedLog(path, "project p")
    assert path.read_text() == ""


def test_a_log_of_another_origin_is_left_alone(
    run: Run, as_reader: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "retry.log").write_text("mine\n")
    refused = run("export", "--follow", str(tmp_path), env=as_reader)
    assert refused.status == 2 and "Move it away" in refused.err
    other = tmp_path / "b"
    with followed(other, "--plan", "03-02", env=as_reader):
        wait_until(lambda: (other / "SUMMARY.md").exists())
        assert "03-01" not in (other / "logs" / "retry.log").read_text()
    refused = run("export", "--follow", str(other), env=as_reader)
    assert refused.status == 2 and "is of plan 03-02" in refused.err
