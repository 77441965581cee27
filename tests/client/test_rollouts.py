"""Codex's rollout: the exit code of a call, from whole lines near the end of the file."""

import json
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tenfour.sessions import rollouts
from tenfour.sessions.rollouts import find_exit_code

from retries.agent_hooks import shell_results


def command(id: str = "call_1", code: Any = 2, status: str = "failed") -> dict[str, Any]:
    """Return a line of Codex 0.169.0 and 0.171.0, with the fields that are read."""
    item = {
        "type": "CommandExecution",
        "id": id,
        "command": ["/bin/bash", "-lc", "make test"],
        "source": "unified_exec_startup",
        "status": status,
        "aggregated_output": "1 failed\n",
        "exit_code": code,
    }
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}


def output(text: str) -> dict[str, Any]:
    line = command(code=1)
    line["payload"]["item"]["aggregated_output"] = text
    return line


OTHER = {
    "type": "response_item",
    "payload": {"type": "function_call_output", "call_id": "call_1", "output": "CommandExecution"},
}


def write(path: Path, *lines: Any, end: str = "\n") -> str:
    path.write_text("\n".join(map(json.dumps, lines)) + end)
    return str(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollout.jsonl"


def test_the_code_is_that_of_the_call(path: Path) -> None:
    write(path, command("call_1", 2), OTHER, command("call_2", 0, "completed"), OTHER)
    assert find_exit_code(str(path), "call_1") == 2
    assert find_exit_code(str(path), "call_2") == 0
    assert find_exit_code(str(path), "call_3", patience_s=0) is None


@pytest.mark.parametrize(
    "line",
    [
        command(code=None),
        command(code="0"),
        command(code=True),
        command(code=0, status="declined"),
        command(code=0, status="in_progress"),
        output("/bin/bash: line 1: cd: app: No such file or directory\n"),
        command() | {"payload": "CommandExecution"},
        command() | {"payload": {"item": ["CommandExecution"]}},
        ["CommandExecution"],
        "CommandExecution",
    ],
)
def test_what_tells_no_code_is_none(path: Path, line: Any) -> None:
    assert find_exit_code(write(path, line), "call_1", patience_s=0) is None


def test_the_server_reads_a_missing_folder_alike() -> None:
    assert rollouts.NOT_PREPARED == shell_results.NOT_PREPARED
    assert rollouts.SHELL_ERROR == shell_results.SHELL_ERROR


def test_a_file_that_is_no_rollout_has_no_codes(path: Path) -> None:
    assert find_exit_code(str(path), "call_1", patience_s=0) is None
    assert find_exit_code(str(path.parent), "call_1", patience_s=0) is None
    path.write_bytes(b'\x00\xff{"CommandExecution"\n' + b'["CommandExecution"' * 3 + b"\n")
    assert find_exit_code(str(path), "call_1", patience_s=0) is None


def test_a_line_that_is_being_written_is_awaited(path: Path) -> None:
    write(path, command(), end="")
    assert find_exit_code(str(path), "call_1", patience_s=0) is None

    def finish() -> None:
        time.sleep(0.1)
        with path.open("a") as file:
            file.write("\n")

    thread = Thread(target=finish)
    thread.start()
    assert find_exit_code(str(path), "call_1", patience_s=30) == 2
    thread.join()


def test_only_the_end_of_the_file_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "TAIL_BYTES", 600)
    write(path, command("call_1"), *[OTHER] * 3, command("call_2", 0, "completed"))
    assert find_exit_code(str(path), "call_1", patience_s=0) is None
    assert find_exit_code(str(path), "call_2", patience_s=0) == 0
