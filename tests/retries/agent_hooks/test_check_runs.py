"""How a check ended in a shell line, and in which folder it ran."""

from typing import Any

import pytest

from retries.agent_hooks.check_runs import find_in_line, find_run
from retries.agent_hooks.events import HookEvent, read_event


@pytest.mark.parametrize(
    ("line", "command", "code", "known"),
    [
        ("cd app && make  test", "make test", 0, 0),
        ("cd app && make test", "cd app && make test", 0, 0),
        # All of a check must have passed.
        ("make lint && make test", "make lint && make test", 0, 0),
        ("make lint; make test", "make lint && make test", 0, None),
        ("make lint; make test", "make lint && make test", 2, 2),
        ("cd app && make lint && make test", "make lint && make test", 0, 0),
        # A check that hides its own exit codes is known only as a whole.
        ("make test | tail", "make test | tail", 0, 0),
        ("cd app && make test | tail", "make test | tail", 0, 0),
        ("make lint || make test", "make lint || make test", 0, 0),
        ("cd app && ! grep -r TODO src", "! grep -r TODO src", 0, 0),
        # Variables of the check belong to it.
        ("DB=x make test", "DB=x make test", 0, 0),
        ("cd app && DB=x make test", "DB=x make test", 0, 0),
        ("DB=y make test", "DB=x make test", 0, None),
        ("cd app && make test", "DB=x make test", 0, None),
        ("CI=1 NO_COLOR=1 make test", "make test", 0, 0),
        # The last run of several counts.
        ("make test; make test", "make test", 0, 0),
        ("make test && make fix && make test", "make test", 0, 0),
        ("make test || true; make test", "make test", 2, 2),
    ],
)
def test_a_check_passed_only_if_all_of_it_did(
    line: str, command: str, code: int, known: int | None
) -> None:
    found = find_in_line(line, command, code)
    assert found is not None and found.exit_code == known


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("make test", "make"),
        ("cd app && make test", "cd app && make test && make lint"),
        ("make\ntest", "make test"),
        ("make lint && make test | tail", "make test | tail"),
        ("echo 'make test'", "make test"),
        ("", "make test"),
    ],
)
def test_another_line_is_no_run_of_the_check(line: str, command: str) -> None:
    assert find_in_line(line, command, 0) is None


def call(line: str, *, cwd: str, program: str = "claude") -> HookEvent:
    body: dict[str, Any] = {
        "hook_event_name": "PostToolUse",
        "cwd": cwd,
        "tool_name": "Bash",
        "tool_input": {"command": line},
        "tool_response": {"stdout": "", "stderr": "", "interrupted": False},
        "program": program,
    }
    return read_event(body, recorded=0)


@pytest.mark.parametrize(
    ("line", "cwd", "program", "folder", "is_known"),
    [
        ("make test", "/srv", "claude", "", True),
        ("make test", "/srv/app", "claude", "", False),
        ("make test", "/srv/app", "claude", "app", True),
        ("make test", "/srv", "claude", "app", False),
        # Claude Code tells the folder behind the call.
        ("cd app && make test", "/srv/app", "claude", "app", True),
        ("(cd app && make test)", "/srv", "claude", "app", True),
        ("cd app && make test", "/srv/app", "claude", "", False),
        ("cd .. && make test", "/srv", "claude", "", False),
        ("cd /srv && make test", "/srv", "claude", "", True),
        # Codex tells the session's own.
        ("cd app && make test", "/srv", "codex", "app", True),
        ("cd app && make test", "/srv/app", "codex", "app", False),
        ("cd app; cd ..; make test", "/srv", "codex", "", True),
        ("cd app && make test && cd ..", "/srv", "codex", "app", True),
        ("sudo -D app make test", "/srv", "codex", "app", True),
        ("bash -c 'cd app && make test'", "/srv", "codex", "app", True),
        ("popd; make test", "/srv", "codex", "", False),
        ("cd ~/srv && make test", "/srv", "codex", "", False),
        ("cd 'a b' && make test", "/srv", "codex", "a b", True),
    ],
)
def test_a_check_counts_in_its_own_folder(
    line: str, cwd: str, program: str, folder: str, is_known: bool
) -> None:
    found = find_run(call(line, cwd=cwd, program=program), "make test", base="/srv", cwd=folder)
    assert found is not None and (found.exit_code == 0) is is_known


def test_without_the_session_s_folder_the_path_s_end_counts() -> None:
    at_app, at_web = call("make test", cwd="/srv/app"), call("make test", cwd="/srv/web")
    known = [find_run(each, "make test", cwd="app") for each in (at_app, at_web)]
    assert [each and each.exit_code for each in known] == [0, None]
