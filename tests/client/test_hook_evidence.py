"""What `tenfour hook` knows beyond the event: the exit code of Codex, and the files of a check."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tenfour import Client

from ledger.models import Attempt, Instruction, Task
from tests.client.command import Ran, run_command
from tests.client.test_rollouts import command
from tests.serving import Tenfour
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

ENDED = {"stdout": "", "stderr": "", "interrupted": False}
# Fails without the file `fixed`, and counts its runs beside the folder.
CHECK = "echo run >> ../runs; test -f fixed"
Hook = Callable[..., Ran]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A repository with one commit."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "a.py").write_text("a = 1\n")
    subprocess.run(["git", "init", "--quiet"], cwd=app, check=True)
    commit(app)
    return app


def commit(app: Path) -> None:
    who = ["-c", "user.name=Mara", "-c", "user.email=mara@example.org"]
    for args in (["add", "."], ["commit", "--quiet", "--message", "Change"]):
        subprocess.run(["git", *who, *args], cwd=app, check=True)


@pytest.fixture
def hook(tenfour_server: Tenfour, tmp_path: Path, app: Path) -> Hook:
    """Runs `tenfour hook` in the repository, with an event of the session s-1 on stdin."""
    known = {
        "TENFOUR_URL": tenfour_server.url,
        "TENFOUR_TOKEN": tenfour_server.token("agent", "coder"),
        "TENFOUR_STATE": str(tmp_path / "state"),
        "HOME": str(tmp_path),
    }

    def hook(
        event: str, *, agent: str = "claude", env: dict[str, str] | None = None, **fields: Any
    ) -> Ran:
        body = {"hook_event_name": event, "session_id": "s-1", "cwd": str(app), **fields}
        args = ("hook", "--agent", agent)
        ran = run_command(
            *args,
            stdin=json.dumps(body),
            env=known | (env or {}),
            cwd=app,
            hook_timeout_s=PATIENCE_S,
        )
        assert ran.status == 0, ran.err
        return ran

    return hook


def runs(app: Path) -> int:
    path = app.parent / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": "call_1",
        **more,
    }


# ---- the exit codes of Codex


@pytest.mark.parametrize(("code", "state"), [(0, "acknowledged"), (2, "delivered")])
def test_the_exit_code_of_codex_comes_from_its_rollout(
    code: int, state: str, hook: Hook, producer: Client, tmp_path: Path
) -> None:
    expect = {"type": "fs_command", "match": {"line": "make check", "exit_code": 0}}
    producer.instructions.send("coder", "Check", expect=expect)
    assert "Check" in hook("UserPromptSubmit", agent="codex").out
    rollout = tmp_path / "rollout.jsonl"
    status = "failed" if code else "completed"
    rollout.write_text(json.dumps(command("call_1", code, status)) + "\n")
    event = shell("make check", tool_response="checked\n", transcript_path=str(rollout))
    hook("PostToolUse", agent="codex", **event)
    assert Instruction.objects.get().state == state


def test_a_command_that_ran_on_is_told_once_it_has_ended(
    hook: Hook, producer: Client, tmp_path: Path
) -> None:
    """Codex sends no hook for it, neither when the call returns nor when the command ends."""
    expect = {"type": "fs_command", "match": {"line": "make test", "exit_code": 0}}
    producer.instructions.send("coder", "Check", expect=expect)
    hook("UserPromptSubmit", agent="codex")
    output = "Chunk ID: a20e3d\nProcess running with session ID 4\nOutput:\n"
    payload = {"type": "function_call_output", "call_id": "call_1", "output": output}
    lines = [{"type": "response_item", "payload": payload}]
    rollout = tmp_path / "rollout.jsonl"

    def stop() -> None:
        rollout.write_text("".join(json.dumps(line) + "\n" for line in lines))
        hook("Stop", agent="codex", transcript_path=str(rollout))

    stop()
    assert Instruction.objects.get().state == "delivered"
    lines.append(command("call_1", 0, "completed"))
    stop()
    stop()
    assert Instruction.objects.get().state == "acknowledged"
    (told,) = tmp_path.glob("state/hooks/*/told/*")
    assert json.loads(told.read_text()) == ["call_1"]


def test_without_a_rollout_the_code_is_not_known(
    hook: Hook, producer: Client, tmp_path: Path
) -> None:
    payload = {"action": "Write", "verify": {"command": "make test"}}
    producer.tasks.enqueue("coder", "implementation", payload=payload)
    hook("UserPromptSubmit", agent="codex")
    event = shell("make test", tool_response="passed\n", transcript_path=str(tmp_path / "gone"))
    hook("PostToolUse", agent="codex", **event)
    check = Attempt.objects.get().progress["check"]
    assert (check["exit_code"], check["unknown"]) == (None, "not_reported")


# ---- the files of a check


@pytest.fixture
def task(producer: Client, hook: Hook) -> str:
    """A task with a check, which the session has."""
    payload = {"action": "Write", "verify": {"command": CHECK}}
    id = producer.tasks.enqueue("coder", "implementation", payload=payload).id
    assert "Write" in hook("UserPromptSubmit").out
    return id


def test_a_check_that_passed_on_these_files_is_not_run_again(
    task: str, hook: Hook, app: Path
) -> None:
    (app / "fixed").touch()
    hook("PostToolUse", **shell(f"cd . && {CHECK}", tool_response=ENDED))
    assert hook("Stop").out == ""
    assert runs(app) == 0
    assert (Task.objects.get().state, Task.objects.get().proof) == ("done", "proven")
    (check,) = Attempt.objects.get().checks
    assert (check["seen_by"], check["exit_code"]) == ("hook", 0)
    assert check["tree"] == Attempt.objects.get().tree and check["tree"]["files"] == 1


def test_a_check_that_passed_is_not_run_again_after_a_commit(
    task: str, hook: Hook, app: Path
) -> None:
    (app / "fixed").touch()
    hook("PostToolUse", **shell(CHECK, tool_response=ENDED))
    commit(app)
    hook("PostToolUse", **shell("git commit -am Fix", tool_response=ENDED))
    assert hook("Stop").out == ""
    assert (runs(app), Task.objects.get().proof) == (0, "proven")


def test_a_check_that_passed_before_the_files_changed_is_run_again(
    task: str, hook: Hook, app: Path
) -> None:
    (app / "fixed").touch()
    hook("PostToolUse", **shell(CHECK, tool_response=ENDED))
    (app / "a.py").write_text("a = 2\n")
    assert hook("Stop").out == ""
    assert runs(app) == 1
    assert (Task.objects.get().state, Task.objects.get().proof) == ("done", "proven")
    seen, ran = Attempt.objects.get().checks
    assert (seen["seen_by"], ran["seen_by"]) == ("hook", "client")
    assert seen["tree"] != ran["tree"] == Attempt.objects.get().tree


def test_the_check_runs_in_the_project_s_folder(task: str, hook: Hook, app: Path) -> None:
    """Also where the agent has changed to another folder."""
    below = app / "docs"
    below.mkdir()
    (app / "fixed").touch()
    env = {"CLAUDE_PROJECT_DIR": str(app)}
    hook("PostToolUse", cwd=str(below), env=env, **shell(CHECK, tool_response=ENDED))
    assert Attempt.objects.get().progress["check"]["exit_code"] is None
    assert hook("Stop", cwd=str(below), env=env).out == ""
    assert (runs(app), Task.objects.get().proof) == (1, "proven")


def test_a_check_that_fails_at_the_stop_is_a_failure(task: str, hook: Hook, app: Path) -> None:
    (app / "fixed").touch()
    hook("PostToolUse", **shell(CHECK, tool_response=ENDED))
    (app / "fixed").unlink()
    assert json.loads(hook("Stop").out)["decision"] == "block"
    assert (runs(app), Task.objects.get().state) == (1, "running")


def test_a_check_that_takes_longer_than_a_hook_is_the_agents(
    producer: Client, hook: Hook, app: Path
) -> None:
    verify = {"command": CHECK, "timeout_s": 3600}
    producer.tasks.enqueue("coder", "implementation", payload={"action": "x", "verify": verify})
    hook("UserPromptSubmit")
    asked = json.loads(hook("Stop").out)
    assert asked["decision"] == "block" and CHECK in asked["reason"]
    assert runs(app) == 0


# ---- the calls of Codex after an abort


def test_a_call_of_codex_is_refused_after_an_abort(producer: Client, hook: Hook, app: Path) -> None:
    """AGT-11: Codex has no other way to be stopped."""
    payload = {"action": "Write", "verify": {"command": CHECK}}
    task = producer.tasks.enqueue("coder", "implementation", payload=payload)
    hook("UserPromptSubmit", agent="codex")
    call = shell("rm -rf build")
    assert hook("PreToolUse", agent="codex", **call).out == ""
    producer.tasks.abort(task.id)
    for _ in range(2):
        refused = json.loads(hook("PreToolUse", agent="codex", **call).out)
        output = refused["hookSpecificOutput"]
        assert output["permissionDecision"] == "deny"
        assert "aborted" in output["permissionDecisionReason"]
        hook("PostToolUse", agent="codex", **shell("ls", tool_response=""))
    assert "aborted" in json.loads(hook("Stop", agent="codex").out)["systemMessage"]
    assert (runs(app), Task.objects.get().state) == (0, "aborted")
    assert hook("PreToolUse", agent="codex", **call).out == ""
