"""What a tool's result tells about a task's check: no false success and no false failure.

Each row is a result as Claude Code or Codex reports it, and the end of the check `make test` in it.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tenfour.hooks.hook_events import reduce_event

from ledger.models import Agent, Attempt, Task
from retries.agent_hooks.shell_results import READINGS
from retries.attempts.endings import Unknown
from tests.conftest import Api
from tests.retries.agent_hooks.test_api import make_task

pytestmark = pytest.mark.django_db

ENDED = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False}
TREE = {"commit": "9c1f44a2d5", "diff": "0" * 64, "files": 1}
BACKGROUND, MOVED = Unknown.BACKGROUND, Unknown.MOVED_TO_BACKGROUND
INTERRUPTED, SILENT, HIDDEN = Unknown.INTERRUPTED, Unknown.NOT_REPORTED, Unknown.HIDDEN
NOT_RUN = None


@dataclass(frozen=True)
class Row:
    """A shell call's result, and the check's exit code, or why it is not known."""

    program: str
    line: str
    # the check's exit code, why it is unknown, or None where the line does not run the check
    end: int | Unknown | None
    # what the program reports: an error, or the fields of a response
    error: str = ""
    response: Any = field(default_factory=dict)
    is_interrupt: bool = False
    asked: bool = False
    recorded: int | None = None

    def event(self) -> dict[str, Any]:
        given: dict[str, Any] = {"command": self.line}
        if self.asked:
            given["run_in_background"] = True
        call = {"tool_name": "Bash", "tool_input": given, "tool_use_id": "t1"}
        if self.error:
            more = {"error": self.error, "is_interrupt": self.is_interrupt}
            return call | more | {"hook_event_name": "PostToolUseFailure"}
        response = ENDED | self.response if isinstance(self.response, dict) else self.response
        return call | {"hook_event_name": "PostToolUse", "tool_response": response}


def claude(line: str, end: int | Unknown | None, **more: Any) -> Row:
    return Row("claude", line, end, **more)


def failed(line: str, end: int | Unknown | None, code: int = 2, text: str = "1 failed") -> Row:
    """Return the result of a line that Claude Code reports with this exit code."""
    return Row("claude", line, end, error=f"Exit code {code}\n{text}")


def codex(line: str, end: int | Unknown | None, recorded: int | None, text: Any = "ok\n") -> Row:
    """Return a result of Codex, with the exit code in its rollout."""
    return Row("codex", line, end, response=text, recorded=recorded)


NO_FILE = "bash: line 1: venv/bin/activate: No such file or directory"
NO_FOLDER = "bash: line 1: cd: app: No such file or directory"
ROWS = [
    # Claude Code: an exit code of 0, by itself and in a line
    claude("make test", 0),
    claude("make  test", 0),
    claude("make test", 0, response={"stdout": "FAIL: 1 failed"}),
    claude("cd app && make test", 0),
    claude("cd app && CI=1 make test 2>&1", 0),
    claude("make test > out.txt 2>&1", 0),
    claude("make test && echo ok", 0),
    claude("timeout 300 make test", 0),
    claude("time make test", 0),
    claude('bash -lc "make test"', 0),
    claude("setsid --wait make test", 0),
    claude("set -o pipefail; make test | tail -3", 0),
    claude("make lint\nmake test", 0),
    # … and another one
    failed("make test", 2),
    failed("cd app && make test", 2),
    failed("make lint; make test", 2),
    failed("make test > out.txt 2>&1", 2, text=""),
    failed("make test", 1, code=1, text="waited: Command timed out after 5 s"),
    failed("make test", 137, code=137, text="Killed"),
    failed('bash -c "make test"', 2),
    # … of something else in the line
    claude("make test || true", HIDDEN),
    claude("make test; true", HIDDEN),
    claude("make test; echo $?", HIDDEN),
    claude("make test | tail -3", HIDDEN),
    claude("make test |& tee log", HIDDEN),
    claude("make test &", HIDDEN),
    claude("make test & wait", HIDDEN),
    claude("nohup make test > log 2>&1 &", HIDDEN),
    claude("! make test", HIDDEN),
    claude("if make test; then echo ok; fi", HIDDEN),
    claude("while ! make test; do sleep 1; done", HIDDEN),
    claude("make lint || make test", HIDDEN),
    claude("out=$(make test); echo $out", HIDDEN),
    claude("(make test) | cat", HIDDEN),
    claude("setsid make test", HIDDEN),
    claude("sudo -b make test", HIDDEN),
    claude('bash -c "make test || true"', HIDDEN),
    failed("make lint && make test", HIDDEN),
    failed("make test && make lint", HIDDEN),
    failed("make test; make lint", HIDDEN),
    failed("make test | grep passed", HIDDEN, code=1, text=""),
    failed("timeout 5 make test", HIDDEN, code=124, text=""),
    failed("timeout -k 1 5 make test", HIDDEN, code=137, text="Killed"),
    failed("cd app && make test", SILENT, code=1, text=NO_FOLDER),
    failed("cd app; make test", SILENT, code=2, text=NO_FOLDER),
    failed("cd app && make test", SILENT, code=1, text="cd: no such file or directory: app"),
    # … in another folder, with other variables, or before files may have changed
    claude("cd ../other && make test", HIDDEN),
    claude("cd /srv/other && make test", HIDDEN),
    claude("cd $DIR && make test", HIDDEN),
    claude("cd a || cd b; make test", HIDDEN),
    claude("pushd ../other; make test", HIDDEN),
    claude("env -C ../other make test", HIDDEN),
    claude("(cd ../other) && make test", 0),
    claude("(cd ../other && make test)", HIDDEN),
    claude("SKIP=1 make test", HIDDEN),
    claude("env SKIP=1 make test", HIDDEN),
    claude("git stash && make test && git stash pop", HIDDEN),
    claude("make test && git checkout .", HIDDEN),
    claude("make test && sed -i s/a/b/ src/a.py", HIDDEN),
    claude("make test && echo x > src/a.py", HIDDEN),
    claude("make test && cat > src/a.py <<'EOF'\nx\nEOF", HIDDEN),
    claude("make test && git commit -am done && git push", 0),
    claude("make test 2>&1 >/dev/null && tail -3 log 2>/dev/null", 0),
    # … of a shell that may have ended before, or that runs something else under this name
    claude("make lint && exit 0; make test", HIDDEN),
    claude("make lint && exit 0 && make test", HIDDEN),
    claude("make lint || exit 1; make test", 0),
    claude("trap 'exit 0' EXIT; make test", HIDDEN),
    claude("make() { :; }; make test", HIDDEN),
    claude("alias make=true; make test", HIDDEN),
    claude("(set -o pipefail); make test | tail -3", HIDDEN),
    claude("make lint && set -o pipefail; make test | tail -3", HIDDEN),
    claude("set -o pipefail && make test | tail -3", 0),
    claude("set -o pipefail; set +o pipefail; make test | tail -3", HIDDEN),
    claude("set -e; make test; echo done", 0),
    failed("set -e; make lint; make test", HIDDEN),
    failed("set -e; cd /app; make test", 2),
    claude("exit 0; make test", NOT_RUN),
    claude("exec true; make test", NOT_RUN),
    claude('bash -n -c "make test"', NOT_RUN),
    claude("set -n; make test", NOT_RUN),
    failed(". venv/bin/activate && make test", SILENT, code=1, text=NO_FILE),
    failed(
        "source nowhere && make test", SILENT, code=1, text="source: no such file or directory: x"
    ),
    failed(
        "cd a.txt && make test", SILENT, code=1, text="bash: line 1: cd: a.txt: Not a directory"
    ),
    failed("cd a && make test", SILENT, code=1, text="bash: line 1: cd: a: Permission denied"),
    failed("cd a && make test", SILENT, code=2, text="sh: 1: cd: can't cd to a"),
    failed(
        "make test > no/out", SILENT, code=1, text="bash: line 1: no/out: No such file or directory"
    ),
    # what the check itself prints
    failed(
        "make test", 1, code=1, text="sh: 1: x: No such file or directory\nmake: *** [test] Error 1"
    ),
    failed("make test", 127, code=127, text=NO_FILE),
    # … of no check at all
    claude("make testing", NOT_RUN),
    claude("echo make test", NOT_RUN),
    claude("make -n test", NOT_RUN),
    claude("cat > GUIDE.md <<'EOF'\nmake test\nEOF", NOT_RUN),
    claude("# make test", NOT_RUN),
    claude("make test () { :; }", NOT_RUN),
    # Claude Code: without an exit code
    claude("make test", BACKGROUND, asked=True, response={"backgroundTaskId": "b1"}),
    claude("make test", BACKGROUND, asked=True),
    claude("make test", MOVED, response={"backgroundTaskId": "b1"}),
    claude("make test", INTERRUPTED, response={"interrupted": True}),
    claude("make test", SILENT, response={"returnCodeInterpretation": "No matches found"}),
    claude("make test", SILENT, response="passed"),
    claude("make test", SILENT, response=None),
    claude("make test", SILENT, response=["passed"]),
    claude("make test", INTERRUPTED, error="Exit code 137\n", is_interrupt=True),
    claude("make test", INTERRUPTED, error="Exit code 143\nCommand timed out after 2m 0s"),
    claude("make test", INTERRUPTED, error="The user doesn't want to proceed"),
    # Codex: the rollout has the code
    codex("make test", 0, 0),
    codex("make test", 2, 2),
    codex("cd /app && make test", 0, 0),
    codex("cd ../app && make test", 2, 2),
    codex("make test || true", HIDDEN, 0),
    codex("make test | tail -3", HIDDEN, 0),
    codex("make test; echo done", HIDDEN, 0),
    codex("make test > out.txt 2>&1", 0, 0),
    codex("make test > out.txt 2>&1", 2, 2),
    codex("timeout 5 make test", HIDDEN, 124),
    codex("nohup make test &", HIDDEN, 0),
    codex("cat > GUIDE.md <<'EOF'\nmake test\nEOF", NOT_RUN, 0),
    # … or it does not
    codex("make test", SILENT, None),
    codex("make test", SILENT, None, text="Process exited with code 0\n"),
    codex("make test", SILENT, None, text={"stdout": "passed", "interrupted": False}),
    codex("make test", SILENT, None, text={}),
    # a program that is not known
    Row("other", "make test", SILENT),
]
WAYS = [("http", row) for row in ROWS if row.program == "claude"]
WAYS += [("command", row) for row in ROWS]


def name_of(value: Any) -> str:
    return f"{value.program} {value.line[:30]!r}" if isinstance(value, Row) else str(value)


def test_the_rows_cover_the_table() -> None:
    assert len(ROWS) >= 60
    assert {row.program for row in ROWS} >= {reading.program for reading in READINGS}


@pytest.mark.parametrize(("way", "row"), WAYS, ids=name_of)
def test_a_result_proves_what_it_tells(agent: Agent, coder: Api, way: str, row: Row) -> None:
    """F02, AGT-1: over HTTP, and through `tenfour hook`."""

    def send(body: dict[str, Any], **local: Any) -> dict[str, Any]:
        body = {"session_id": "s-1", "cwd": "/app", **body}
        if way == "command":
            local = {"folder": "/app", "tree": TREE, **local}
            body = reduce_event(body, {}) | {"program": row.program, "tenfour": local}
        response = coder("POST", "/hooks/agent", body)
        assert response.status_code == 200, response.body
        return dict(response.body)

    make_task(agent)
    send({"hook_event_name": "UserPromptSubmit", "prompt": "go"})
    local = {} if row.recorded is None else {"exit_code": row.recorded}
    send(row.event(), **local)
    check = (Attempt.objects.get().progress or {}).get("check")
    if row.end is NOT_RUN:
        assert check is None
    else:
        known = row.end if isinstance(row.end, int) else None
        assert (check["exit_code"], check["unknown"]) == (
            known,
            None if known is not None else row.end,
        )
    answer = send({"hook_event_name": "Stop", "last_assistant_message": "All tests pass."})
    task = Task.objects.get()
    first = Attempt.objects.order_by("number").first()
    assert first is not None
    # A success only where the check passed, and over HTTP a failure only where it failed.
    assert (task.state == "done") == (row.end == 0)
    if task.state == "done":
        assert task.proof == "proven"
    has_failed = way == "http" and row.end not in (0, NOT_RUN) and isinstance(row.end, int)
    assert (first.outcome == "failure") == has_failed
    if first.outcome is None:
        is_asked = answer.get("tenfour", {}).get("verify") if way == "command" else answer["reason"]
        assert "make test" in str(is_asked)
