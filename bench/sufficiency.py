"""Measure whether what the next attempt reads is enough to find the bug.

Bugs of one changed expression are seeded into small libraries (`bench/seeded_bugs.py`), and the
failures of the libraries' own tests are reported over the API:

- attempt 1 fails with the bug, and attempt 2 is told of it;
- attempt 2 makes an unrelated edit, so that the same tests fail and the lines move;
- attempt 3 undoes the edit and adds a second bug.

What attempts 2, 3, and 4 are told is compared with the last 4,000 characters of the newest output,
as a harness pastes them: does it name the function that is broken, a line within 3 of the bug, and
the failing tests? Of the coverage of attempt 1 the ten most suspicious lines are counted apart, as
`tenfour run --coverage` sends them; they are in no block here.
"""

import gzip
import html
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2
from tenfour.checks.suspects import list_suspects

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.http import run_web_server
from bench.seeded_bugs import LIBRARIES, PACKAGES, UNRELATED, SeededBug, list_bugs, list_failing
from bench.servers import Sandbox, install_packages, wait_until

BUGS, QUICK_BUGS = 60, 4  # of each library
PASTED = 4_000
LARGE = 10_240  # characters of an output that the block shortens
NEAR = 3
TIMEOUT_S = 60
SHIFT = UNRELATED.count("\n")


@dataclass(frozen=True)
class Reading:
    """The context of the next attempt after a bug's failure, beside the text that a harness pastes."""

    bug: SeededBug
    line: int
    output: str
    block: str

    @property
    def paste(self) -> str:
        return self.output[-PASTED:]


Score = Callable[[Reading, str], float]


def names_function(reading: Reading, text: str) -> float:
    return float(re.search(rf"(?<!\w){re.escape(reading.bug.function)}(?!\w)", text) is not None)


def names_line(reading: Reading, text: str) -> float:
    """Return 1 if the text names a line of the bug's file that is near the bug."""
    file = re.escape(Path(reading.bug.file).name)
    lines = re.findall(rf"(?<![\w]){file}(?:\", line |:)(\d+)", text)
    return float(any(abs(int(line) - reading.line) <= NEAR for line in lines))


def name_tests(reading: Reading, text: str) -> float:
    """Return the share of the failing tests whose names are in the text."""
    tests = list_failing(reading.output)
    found = sum(re.search(rf"(?<!\w){re.escape(test)}(?!\w)", text) is not None for test in tests)
    return found / len(tests)


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    python = install_packages(sandbox, "seeded", list(PACKAGES))
    count = QUICK_BUGS if scale.quick else BUGS
    bugs = [bug for library in LIBRARIES for bug in list_bugs(library, count, python, say)]
    database = sandbox.create_migrated("tenfour_sufficiency")
    secrets = sandbox.seed(database, ("agents", {"count": 1}), ("tokens", {"count": 1}))[1]
    with run_web_server(sandbox, "config.wsgi:application", database) as url:
        headers = {"Authorization": f"Bearer {next(iter(secrets.values()))}"}
        with httpx2.Client(base_url=f"{url}/v1", headers=headers, timeout=TIMEOUT_S) as http:
            readings = [read_blocks(http, bug) for bug in bugs]
    figures = compare([list(each) for each in zip(*readings, strict=True)], say)
    return [*figures, measure_suspects(bugs, sandbox.folder / "coverage.json", say)]


def read_blocks(http: httpx2.Client, bug: SeededBug) -> list[Reading]:
    """Report a bug's failures; return what each next attempt is told."""
    # The three attempts that an agent's own token can grant: what a fourth would be told is read, too.
    body = {"type": "repair", "title": f"Make the tests of {bug.library} pass"}
    task = post(http, "/tasks", body | {"backoff": {"base_delay_ms": 0}})["id"]
    lines = [bug.line, bug.line + SHIFT, bug.line]
    found = []
    for output, line in zip(bug.outputs, lines, strict=True):
        claim = claim_next(http)
        # The server judges the exit code: code that fails its tests opens no breaker.
        report = {
            "status": "success",
            "verification": {"command": "pytest -q", "exit_code": 1, "output": output},
        }
        post(http, f"/attempts/{claim['attempt']['id']}/result", report)
        told = http.get(f"/tasks/{task}/retry-context").raise_for_status()
        found.append(Reading(bug, line, output, html.unescape(told.text)))
    return found


def claim_next(http: httpx2.Client) -> Any:
    """Claim the next attempt as soon as it is due."""
    found: list[Any] = []

    def is_claimed() -> bool:
        found.extend(post(http, "/claims", {})["data"])
        return bool(found)

    wait_until(is_claimed, "the next attempt")
    return found[0]


def post(http: httpx2.Client, path: str, body: Any) -> Any:
    return http.post(path, json=body).raise_for_status().json()


# ---- figures


def compare(attempts: Sequence[Sequence[Reading]], say: Say) -> list[Figure]:
    """Return the figures of the readings of attempts 2, 3, and 4."""
    figures = []
    for number, readings in enumerate(attempts, 2):
        name = f"attempt {number}"
        figures += [
            build_figure(f"{name}: function named", readings, names_function, say),
            build_figure(f"{name}: line near the bug named", readings, names_line, say),
            build_figure(f"{name}: failing tests named", readings, name_tests, say, target=1),
        ]
        chars = [float(len(each.block)) for each in readings]
        figures.append(Figure(f"{name}: characters", [statistics.median(chars)], ""))
    large = [each for each in chain(*attempts) if len(each.output) >= LARGE]
    if large:
        shares = [len(each.block) / len(each.output) for each in large]
        name = "outputs from 10 KB on"
        figures += [
            build_figure(f"{name}: function named", large, names_function, say),
            Figure(f"{name}: share told", [statistics.median(shares)], "", at_most(0.5)),
        ]
    return figures


def build_figure(
    name: str, readings: Sequence[Reading], score: Score, say: Say, *, target: float | None = None
) -> Figure:
    """Return the mean score of the blocks; the target is that of the pasted outputs, or given."""
    scores = [(score(each, each.block), score(each, each.paste)) for each in readings]
    told, pasted = map(statistics.mean, zip(*scores, strict=True))
    poorer = [
        f"{each.bug.library} {each.bug.function}:{each.bug.line}"
        for each, (own, other) in zip(readings, scores, strict=True)
        if own < other
    ]
    say(f"{name}: {told:.3f}, pasted {pasted:.3f}; poorer: {', '.join(poorer[:8]) or 'none'}")
    limit = int(pasted * 10_000) / 10_000 if target is None else target
    return Figure(name, [told], "", at_least(limit), detail={"pasted": round(pasted, 4)})


def measure_suspects(bugs: Sequence[SeededBug], file: Path, say: Say) -> Figure:
    """Return the share of bugs whose line is among the most suspicious ones."""
    missed = []
    for bug in bugs:
        file.write_bytes(gzip.decompress(Path(bug.coverage).read_bytes()))
        try:
            found = [
                (each["path"], each["line"]) for each in list_suspects(str(file), bug.outputs[0])
            ]
        except ValueError:
            found = []
        if (bug.file, bug.line) not in found:
            missed.append(f"{bug.library} {bug.function}:{bug.line}")
    share = 1 - len(missed) / len(bugs)
    say(f"lines by coverage: {share:.3f}; missed: {', '.join(missed[:8]) or 'none'}")
    return Figure("bug's line among ten by coverage", [share], "", at_least(0.75))
