"""Run an agent that executes each task's action and then its verify command.

    TENFOUR_URL=… TENFOUR_TOKEN=… python examples/builder.py --folder /tmp/scratch

A real agent's model reads the task and decides. This agent runs the task's `action` with `sh` in
the folder. The action finds earlier errors in $TENFOUR_RETRY_CONTEXT. If a person answers with a
fix, the agent runs the command in the fix's backticks instead, because a fix overrides the plan.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from agents import exit_with_parent
from tenfour import Client, LiveAttempt, TenfourError
from tenfour.models import Decision

TIMEOUT_S = 60
QUOTED = re.compile(r"`([^`]+)`")


def run_shell(line: str, *, folder: Path, context: str) -> tuple[int, str]:
    """Run a command line; return its exit code and output."""
    here = Path(sys.executable).parent
    env = os.environ | {
        "TENFOUR_RETRY_CONTEXT": context,
        "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    try:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        return 124, (error.output or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def find_fix(context: str) -> str | None:
    """Return the command in a person's fix, or None."""
    if not context:
        return None
    # Tenfour's own block is always well-formed and has no DTD.
    block = ElementTree.fromstring(context)  # noqa: S314
    fix = block.findtext("user_intervention/instruction", "")
    found = QUOTED.search(fix)
    return found[1] if found else None


def perform_task(tenfour: Client, attempt: LiveAttempt, *, folder: Path, renews: bool) -> Decision:
    """Perform the task and report it; return Tenfour's decision."""
    payload, context = attempt.payload, attempt.claim.retry_context
    with attempt.renewed() if renews else contextlib.nullcontext():
        action = find_fix(context) or payload["action"]
        code, output = run_shell(action, folder=folder, context=context)
        if code:
            last = output.strip().splitlines() or [f"It ended with exit code {code}."]
            return attempt.failed(last[-1], code="action_failed", details=output)
        verify = payload.get("verify", {}).get("command")
        if not verify:
            return attempt.done({"output": output[-500:]})
        start = time.monotonic()
        code, output = run_shell(verify, folder=folder, context=context)
    verification = {
        "command": verify,
        "exit_code": code,
        "output": output,
        "duration_s": round(time.monotonic() - start, 1),
    }
    return tenfour.tasks.report(attempt.id, "success", verification=verification)


def work(tenfour: Client, name: str, *, folder: Path, every_s: float, renews: bool) -> None:
    """Claim and perform tasks forever; retry while the server is unavailable."""
    worker = f"{name}-{os.getpid()}"

    def say(text: str) -> None:
        print(f"{name:<7}| {text}", flush=True)

    while True:
        try:
            for claim in (claimed := tenfour.tasks.claim(worker_id=worker)):
                attempt = tenfour.attempt(claim)
                title = f"{attempt.task.title}, attempt {attempt.number}"
                say(f"{title}  →  begins")
                decision = perform_task(tenfour, attempt, folder=folder, renews=renews)
                say(f"{title}  →  {decision.decision}, {decision.reason}")
            wait = 0.0 if claimed else every_s
        except TenfourError as error:
            if error.code != "lease_lost" and not error.retryable:
                raise
            say(error.sentence)
            wait = every_s
        time.sleep(wait)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", nargs="?", default="builder")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument(
        "--every", type=float, default=2, metavar="SECONDS", help="how often to poll"
    )
    parser.add_argument("--no-heartbeats", action="store_true", help="never renew a lease")
    parser.add_argument("--with-parent", action="store_true", help="exit when stdin closes")
    args = parser.parse_args()
    if args.with_parent:
        exit_with_parent()
    try:
        with Client() as tenfour:
            renews = not args.no_heartbeats
            work(tenfour, args.name, folder=args.folder, every_s=args.every, renews=renews)
    except TenfourError as error:
        print(f"{args.name}: {error.sentence} {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
