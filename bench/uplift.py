"""Measure whether an element of the retry context helps an agent to find bugs.

    python -m bench uplift --agent 'claude -p' --element windows

The agent is a command of your own: it runs in the folder of a library with a seeded bug, with the
prompt of the second attempt on stdin. The server leaves the element out for half of the bugs, by an
experiment. An attempt is a success if the library's own tests pass when the command has ended.

How the bugs are split, when the run stops, and how the interval is computed is printed before the
first bug. A run that is stopped early, or repeated until it shows a difference, shows nothing.
"""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from bench.figures import Say
from bench.http import run_web_server
from bench.seeded_bugs import (
    LIBRARIES,
    PACKAGES,
    PYTEST,
    TESTS_S,
    Library,
    SeededBug,
    apply,
    list_bugs,
    prepare_library,
    tests_env,
)
from bench.servers import MissingDependency, Sandbox, install_packages, run_sandbox
from bench.sufficiency import TIMEOUT_S, claim_next, post
from retries.insight.intervals import count_needed, newcombe_difference
from retries.states import ContextElement

SHARE = 50
AGENT_S = 900
POINTS = (40, 30, 20, 10)
VARIANTS = "select context_variant from ledger_attempt where id = %s"


@dataclass(frozen=True)
class Trial:
    """The agent's command, its time in seconds, and the Python that runs the libraries' tests."""

    agent: Sequence[str]
    agent_s: float
    python: Path


def describe_plan(bugs: int, element: str) -> list[str]:
    """Return the rules of a run with this many bugs."""
    needed = [(points, count_needed(points / 100, SHARE / 100)) for points in POINTS]
    found = [points for points, number in needed if number <= bugs]
    missed = next(((points, number) for points, number in needed if number > bugs), None)
    least = f"{found[-1]} points or more" if found else f"only more than {POINTS[0]} points"
    more = f"; {missed[0]} need {missed[1]} bugs" if missed else ""
    return [
        f"Split: {SHARE}% of {bugs} bugs without '{element}', by SHA-256 of experiment and task. "
        "A bug whose context has no such element counts on neither side.",
        f"Stop: after all {bugs} bugs, one attempt of the agent each, whatever the figures are.",
        f"Difference: {least} are found in four of five such runs{more}.",
        "Interval: 95% of the difference, by Newcombe (1998, method 10).",
    ]


def run(
    sandbox: Sandbox,
    cases: Sequence[tuple[Library, Path, SeededBug]],
    trial: Trial,
    element: str,
    say: Say,
) -> Counter[tuple[str, bool]]:
    """Run the agent once for each bug; return how often each variant ended with passing tests."""
    database = sandbox.create_migrated("tenfour_uplift")
    _, secrets, operator = sandbox.seed(
        database,
        ("agents", {"count": 1}),
        ("tokens", {"count": 1}),
        ("project_token", {"kind": "operator"}),
    )
    counts: Counter[tuple[str, bool]] = Counter()
    with run_web_server(sandbox, "config.wsgi:application", database) as url:
        person = httpx2.Client(base_url=f"{url}/v1", headers=bearer(operator), timeout=TIMEOUT_S)
        token = next(iter(secrets.values()))
        agent = httpx2.Client(base_url=f"{url}/v1", headers=bearer(token), timeout=TIMEOUT_S)
        with person, agent, psycopg.connect(database, autocommit=True) as connection:
            body = {"element": element, "share": SHARE, "reason": "bench uplift"}
            post(person, "/experiments", body)
            for number, (library, folder, bug) in enumerate(cases, 1):
                attempt, has_passed = try_agent(agent, library, folder, bug, trial, sandbox)
                [(variant,)] = connection.execute(VARIANTS, [attempt]).fetchall()
                counts[variant.partition(":")[0], has_passed] += 1
                say(f"bug {number} of {len(cases)}: {variant}, {'fixed' if has_passed else 'not'}")
    return counts


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def try_agent(
    http: httpx2.Client,
    library: Library,
    folder: Path,
    bug: SeededBug,
    trial: Trial,
    sandbox: Sandbox,
) -> tuple[str, bool]:
    """Give the agent a bug's second attempt; return the attempt's id, and whether the tests pass."""
    work = sandbox.folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work)
    for path, source in apply(work, [bug.mutation]).items():
        path.write_bytes(source)
    command = shlex.join([*PYTEST, library.tests])
    payload = {"action": "Make the tests pass. Do not change the tests."}
    payload |= {"verify": {"command": command}}
    title = f"Make the tests of {library.title} pass"
    limits = {"backoff": {"base_delay_ms": 0}, "max_attempts": 2}
    post(http, "/tasks", {"type": "repair", "title": title, "payload": payload} | limits)
    ran = {"command": command, "exit_code": 1, "output": bug.outputs[0]}
    first = claim_next(http)["attempt"]["id"]
    report_result(http, first, ran)
    claim = claim_next(http)
    id = claim["attempt"]["id"]
    run_agent(trial, claim["prompt"], work)
    checked = check(library, work, trial.python)
    report_result(http, id, {"command": command, **checked})
    return id, checked["exit_code"] == 0


def report_result(http: httpx2.Client, attempt: str, ran: dict[str, Any]) -> None:
    """Report an attempt, whose tests decide whether it is a success."""
    post(http, f"/attempts/{attempt}/result", {"status": "success", "verification": ran})


def run_agent(trial: Trial, prompt: str, work: Path) -> None:
    """Run the agent's command; what it has done when its time is over counts."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen(trial.agent, cwd=work, start_new_session=True, **pipes)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(prompt, timeout=trial.agent_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def check(library: Library, work: Path, python: Path) -> dict[str, Any]:
    """Return the exit code and the output of a library's tests; 124 is a timeout."""
    argv = [str(python), "-m", *PYTEST, library.tests]
    try:
        ran = subprocess.run(
            argv, cwd=work, env=tests_env(), capture_output=True, text=True, timeout=TESTS_S
        )
    except subprocess.TimeoutExpired:
        return {"exit_code": 124, "output": ""}
    return {"exit_code": ran.returncode, "output": ran.stdout}


def describe_result(counts: Mapping[tuple[str, bool], int]) -> list[str]:
    """Return the shares of both sides, and their difference if both have bugs."""
    lines, sides = [], []
    for side in ("with", "without"):
        fixed = counts.get((side, True), 0)
        number = fixed + counts.get((side, False), 0)
        sides.append((fixed, number))
        lines.append(f"{side}: {fixed} of {number} fixed")
    if others := sum(counts.values()) - sum(number for _, number in sides):
        lines.append(f"neither: {others} whose contexts have no such element")
    if all(number for _, number in sides):
        found = newcombe_difference(*sides[0], *sides[1])
        value, low, high = (f"{100 * each:.1f}" for each in (found.value, found.low, found.high))
        lines.append(f"with minus without: {value} points, 95% from {low} to {high}")
    return lines


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench uplift", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--agent", required=True, help="a command that reads the prompt from stdin")
    parser.add_argument(
        "--element", required=True, choices=ContextElement.values, help="what half of them lack"
    )
    parser.add_argument("--bugs", type=int, default=60, help="number of bugs of each library")
    parser.add_argument("--agent-seconds", type=float, default=AGENT_S, help="the agent's time")
    args = parser.parse_args(argv)
    try:
        with run_sandbox() as sandbox:
            python = install_packages(sandbox, "seeded", list(PACKAGES))
            cases = [
                (library, prepare_library(library, python), bug)
                for library in LIBRARIES
                for bug in list_bugs(library, args.bugs, python, print)
            ]
            print(*describe_plan(len(cases), args.element), sep="\n", flush=True)
            trial = Trial(shlex.split(args.agent), args.agent_seconds, python)
            print(*describe_result(run(sandbox, cases, trial, args.element, print)), sep="\n")
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 1
    return 0
