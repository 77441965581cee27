"""Three tasks that ask an agent something and go on with its answer.

    TENFOUR_URL=… TENFOUR_TOKEN=<an orchestrator's> python examples/checks.py --agent steady

Each check sends an instruction and says which signal it expects. It keeps the id of what is
pending; the agent never sees that id. When the agent reports a signal, Tenfour matches it
with what is expected, by its type and its content. The check then finds the data with its
instruction, clears the id and uses the data. An instruction that was given up also clears it: no
task waits for ever.

Every instruction here may be delivered more than once, so each of them only looks and changes
nothing.
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
    """One question to an agent, with the id of its instruction while it is pending."""

    def __init__(self, content: str, *, expect: Data, use: Callable[[Data], None]) -> None:
        self.content = content
        self.expect = expect
        self.use = use
        self.pending_id: str | None = None
        self.ignored = False

    def request(self, tenfour: Client, agent: str, *, max_retries: int | None = None) -> None:
        """Sends the instruction; the same one again while it is pending changes nothing."""
        sent = tenfour.instructions.send(
            agent, self.content, expect=self.expect, max_retries=max_retries
        )
        self.pending_id, self.ignored = sent.id, False

    def look(self, tenfour: Client) -> None:
        """Once the expected signal has come: clears the id and uses its data."""
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
    """Whether the OpenSpec command is there, and whether this is a project of it."""

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
        return f"OpenSpec: available {said(self.available)}, a project {said(self.is_project)}"


class ClientContextTask:
    """On which system the agent works."""

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
        return f"System: {said(self.system)}"


class WorkflowTask:
    """In which phase the agent's workflow is, according to its file."""

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
        return f"Workflow: phase {said(self.phase)}"


Task = OpenSpecTask | ClientContextTask | WorkflowTask


def said(answer: bool | str | None) -> str:
    return {None: "not known", True: "yes", False: "no"}.get(answer, str(answer))  # type: ignore[arg-type]


def pending(tasks: tuple[Task, ...]) -> list[Check]:
    return [check for task in tasks for check in task.checks if check.pending_id]


def run(tenfour: Client, agent: str, *, wait_s: float) -> tuple[Task, ...]:
    """Asks everything, then looks for the answers until all are there or the time is over."""
    tasks: tuple[Task, ...] = (OpenSpecTask(), ClientContextTask(), WorkflowTask())
    for task in tasks:
        for check in task.checks:
            check.request(tenfour, agent)
    until = time.monotonic() + wait_s
    while pending(tasks) and time.monotonic() < until:
        for check in pending(tasks):
            check.look(tenfour)
        time.sleep(0.5 if pending(tasks) else 0)
    return tasks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agent", required=True, help="whom to ask")
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS")
    args = parser.parse_args()
    try:
        with Client() as tenfour:
            tasks = run(tenfour, args.agent, wait_s=args.wait)
    except TenfourError as error:
        print(f"{error.sentence} {error.hint}", file=sys.stderr)
        return 1
    print(*tasks, sep="\n")
    for check in pending(tasks):
        print(f"Still waiting for: {check.content} ({check.pending_id})")
    return 1 if pending(tasks) else 0


if __name__ == "__main__":
    sys.exit(main())
