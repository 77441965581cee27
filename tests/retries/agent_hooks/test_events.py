"""What the rules read from the events of Claude Code and Codex."""

from typing import Any

import pytest

from retries.agent_hooks.events import HookEvent, commands_of, read_event, signals_of

CLAUDE_OK = {"stdout": "ok", "stderr": "", "interrupted": False}


def shell(command: str, *, response: Any = CLAUDE_OK, error: str = "") -> HookEvent:
    return read_event(
        {
            "hook_event_name": "PostToolUseFailure" if error else "PostToolUse",
            "session_id": "s-1",
            "cwd": "/srv/app",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            **({"error": error} if error else {"tool_response": response}),
        }
    )


def test_a_command_is_a_signal_with_its_first_word_and_its_line() -> None:
    """S0.27: the signal that acknowledges an instruction."""
    (signal,) = signals_of(shell("openspec  list"))
    assert signal.type == "fs_command"
    assert signal.data == {
        "command": "openspec",
        "line": "openspec list",
        "tool": "Bash",
        "exit_code": 0,
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("make test", [("make test", 0)]),
        ("cd app && make test", [("cd app", 0), ("make test", 0)]),
        ("make test; echo done", [("make test", None), ("echo done", 0)]),
        ("make test 2>&1 | tail -20", [("make test", None), ("tail -20", 0)]),
        ("CI=1 DEBUG= make test", [("make test", 0)]),
        ("make test\nmake lint", [("make test", None), ("make lint", 0)]),
        ("make lint || make test", [("make lint", None), ("make test", None)]),
        ("make test || true", [("make test", None), ("true", None)]),
        ("echo 'a && b; c'", [("echo 'a && b; c'", 0)]),
        ("echo it's", []),
        ("make test && ", []),
        ("", []),
    ],
)
def test_a_line_is_read_as_its_commands(line: str, expected: list[tuple[str, int | None]]) -> None:
    assert [(each.line, each.exit_code) for each in commands_of(shell(line))] == expected


def test_the_exit_code_of_a_failed_line_is_of_its_last_command() -> None:
    failed = shell("cd app && make test", error="Exit code 2\n1 failed")
    assert [(each.line, each.exit_code) for each in commands_of(failed)] == [
        ("cd app", None),
        ("make test", 2),
    ]
    stopped = shell("make test", error="Command timed out after 2m")
    assert [each.exit_code for each in commands_of(stopped)] == [None]


def test_codex_does_not_tell_how_a_command_ended() -> None:
    (command,) = commands_of(shell("make test", response="1 failed\n"))
    assert command.exit_code is None


def test_a_secret_in_a_command_is_masked() -> None:
    (signal,) = signals_of(shell("curl -H 'Authorization: Bearer abcdefghijklmnop0123' x"))
    assert "abcdefghijklmnop0123" not in signal.data["line"]


@pytest.mark.parametrize(
    ("tool", "given", "paths"),
    [
        ("Write", {"file_path": "/srv/app/src/a.py", "content": "x"}, ["src/a.py"]),
        ("Edit", {"file_path": "/srv/app/src/a.py"}, ["src/a.py"]),
        ("NotebookEdit", {"notebook_path": "/srv/app/n.ipynb"}, ["n.ipynb"]),
        (
            "apply_patch",
            {"command": "*** Begin Patch\n*** Add File: src/a.py\n+x\n*** Update File: b.py\n"},
            ["src/a.py", "b.py"],
        ),
        ("Read", {"file_path": "/srv/app/src/a.py"}, []),
        ("Write", {"file_path": 7}, []),
        ("Write", "no object", []),
    ],
)
def test_a_changed_file_is_a_signal(tool: str, given: Any, paths: list[str]) -> None:
    body = {"hook_event_name": "PostToolUse", "cwd": "/srv/app", "tool_name": tool}
    found = signals_of(read_event(body | {"tool_input": given}))
    assert [each.data["path"].removeprefix("/srv/app/") for each in found] == paths
    assert {each.type for each in found} <= {"fs_write"}
    assert all(each.data["tool"] == tool for each in found)


def test_a_call_that_failed_changed_no_file() -> None:
    body = {"hook_event_name": "PostToolUseFailure", "tool_name": "Write", "error": "denied"}
    assert signals_of(read_event(body | {"tool_input": {"file_path": "/a"}})) == []


def test_one_call_sends_a_bounded_number_of_signals() -> None:
    assert len(signals_of(shell(";".join(f"echo {n}" for n in range(500))))) == 20


@pytest.mark.parametrize("value", [None, 7, [], {}, "x"])
def test_a_field_of_another_type_counts_as_empty(value: Any) -> None:
    body = dict.fromkeys(
        ("hook_event_name", "session_id", "cwd", "tool_name", "tool_input", "error"), value
    )
    assert signals_of(read_event(body)) == []
