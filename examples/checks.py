"""Run three tasks that ask an agent a question and use its answer.

    TENFOUR_URL=… TENFOUR_TOKEN=<an orchestrator's> python examples/checks.py --agent steady

Each check sends an instruction with the signal it expects and stores the pending instruction's ID,
which the agent never sees. When the agent reports a signal, Tenfour matches its type and content
with the expected signal. The check then reads the data from its instruction, clears the ID, and
uses the data. A failed instruction also clears the ID, so no task waits forever.

Tenfour may deliver an instruction more than once, so these instructions only read.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tenfour import Client, TenfourError

Data = Mapping[str, Any]


class Check:
    """A question to an agent, with the ID of its pending instruction."""

    def __init__(self, content: str, *, expect: Data, use: Callable[[Data], None]) -> None:
        self.content = content
        self.expect = expect
        self.use = use
        self.pending_id: str | None = None
        self.ignored = False

    def request(self, tenfour: Client, agent: str, *, max_retries: int | None = None) -> None:
        """Send the instruction; sending it again while it is pending has no effect."""
        sent = tenfour.instructions.send(
            agent, self.content, expect=self.expect, max_retries=max_retries
        )
        self.pending_id, self.ignored = sent.id, False

    def poll(self, tenfour: Client) -> None:
        """If the instruction is closed, clear its ID and use the signal's data."""
        if self.pending_id is None:
            return
        instruction = tenfour.instructions.get(self.pending_id)
        if instruction.is_open:
            return
        self.pending_id = None
        self.ignored = not instruction.is_acknowledged
        if instruction.is_acknowledged:
            self.use(instruction.data)


class OpenSpecTask:
    """Check whether the OpenSpec CLI is available and this is an OpenSpec project."""

    def __init__(self) -> None:
        self.available: bool | None = None
        self.is_project: bool | None = None
        self.cli_check = Check(
            "Check whether the OpenSpec CLI is available: run `openspec --version`.",
            expect={"type": "fs_command", "match": {"command": "openspec"}},
            use=self._use_command,
        )
        self.project_check = Check(
            "List the contents of the `openspec/` directory.",
            expect={"type": "fs_directory", "match": {"path": "openspec"}},
            use=self._use_directory,
        )
        self.checks = (self.cli_check, self.project_check)

    def _use_command(self, data: Data) -> None:
        self.available = bool(data.get("found", False))

    def _use_directory(self, data: Data) -> None:
        self.is_project = "project.md" in data.get("entries", ())

    def __str__(self) -> str:
        available, is_project = format_answer(self.available), format_answer(self.is_project)
        return f"OpenSpec: available {available}, a project {is_project}"


class ClientContextTask:
    """Ask which operating system the agent runs on."""

    def __init__(self) -> None:
        self.system: str | None = None
        self.checks = (
            Check(
                "Tell which operating system you run on.",
                expect={"type": "client_context"},
                use=self._use_context,
            ),
        )

    def _use_context(self, data: Data) -> None:
        self.system = data.get("os")

    def __str__(self) -> str:
        return f"System: {format_answer(self.system)}"


class WorkflowTask:
    """Ask for the phase in the agent's workflow file."""

    def __init__(self) -> None:
        self.phase: str | None = None
        self.checks = (
            Check(
                "Read the file `.workflow.yaml` and report what it says.",
                expect={"type": "fs_file", "match": {"path": ".workflow.yaml"}},
                use=self._use_file,
            ),
        )

    def _use_file(self, data: Data) -> None:
        found = re.search(r"^phase:\s*(\S+)", data.get("content", ""), re.MULTILINE)
        self.phase = found[1] if found else "none"

    def __str__(self) -> str:
        return f"Workflow: phase {format_answer(self.phase)}"


Task = OpenSpecTask | ClientContextTask | WorkflowTask


def format_answer(answer: bool | str | None) -> str:
    return {None: "not known", True: "yes", False: "no"}.get(answer, str(answer))  # type: ignore[arg-type]


def list_pending(tasks: tuple[Task, ...]) -> list[Check]:
    return [check for task in tasks for check in task.checks if check.pending_id]


def run(tenfour: Client, agent: str, *, wait_s: float) -> tuple[Task, ...]:
    """Send all questions, then poll until every answer arrives or the time is up."""
    tasks: tuple[Task, ...] = (OpenSpecTask(), ClientContextTask(), WorkflowTask())
    for task in tasks:
        for check in task.checks:
            check.request(tenfour, agent)
    until = time.monotonic() + wait_s
    while list_pending(tasks) and time.monotonic() < until:
        for check in list_pending(tasks):
            check.poll(tenfour)
        time.sleep(0.5 if list_pending(tasks) else 0)
    return tasks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agent", required=True, help="the agent to ask")
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS")
    args = parser.parse_args()
    try:
        with Client() as tenfour:
            tasks = run(tenfour, args.agent, wait_s=args.wait)
    except TenfourError as error:
        print(f"{error.sentence} {error.hint}", file=sys.stderr)
        return 1
    print(*tasks, sep="\n")
    for check in list_pending(tasks):
        print(f"Still waiting for: {check.content} ({check.pending_id})")
    return 1 if list_pending(tasks) else 0


if __name__ == "__main__":
    sys.exit(main())
