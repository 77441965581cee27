"""Measure how well Tenfour reads real failures of tools, labeled by hand.

    python -m bench.failures FILE             # each miss, without servers
    FAILURES=FILE python -m bench failures    # the figures and their targets

FILE has one JSON object per line: `id`, `group` (cases of one cause), `output`, `exit_code`,
`command`, `telling` (a regular expression for the line that tells the cause), and `accept` (the known
errors that are right).

- The telling line must survive being stored and being told to the next attempt, wherever it stands
  in outputs of several sizes, in the filler of five tools.
- The characters of a fourth attempt's context, for outputs of three sizes and for attempts that fail
  alike or not. With `BASELINE=DIR`, a checkout of the commit to compare with, it prints the share of
  what that renders for the same failures.
- Pairs: of two failures with one pattern, how many have one cause; of two with one cause, how many
  have one pattern. Each case is read as a verification's report and as an exit with its output; both
  must give the same pattern.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import MissingDependency, Sandbox
from ledger.text import describe_exit
from retries.attempts.report_fields import clean_output
from retries.failures import fingerprints, known_errors
from retries.failures.excerpts import shorten
from retries.failures.salience import find_headline
from retries.failures.signatures import sign
from retries.retry_context.block import History, render_retry_context
from retries.retry_context.failure_elements import FailureRecord

VARIABLE = "FAILURES"
KIB = 1024
SIZES = (6 * KIB, 20 * KIB, 64 * KIB, 240 * KIB, 2048 * KIB)
SHARES = (0.02, 0.25, 0.5, 0.75, 0.9, 0.99)
TOLD = 4_000  # the characters of the newest failure's output that an attempt is told
CASES_PER_PLACE = 4
MESSAGE_LINES = 10  # of an output that is reported as an exit, its message

HISTORIES = 60  # of each kind

# runs in a checkout of another commit, too
RENDER = """
import html, json, re, sys
from datetime import UTC, datetime
sys.path.insert(0, "")
from retries.retry_context.block import FailureRecord, History, render_retry_context
found = []
for rows in json.load(sys.stdin):
    telling = [row.pop("telling") for row in rows]
    at = datetime(2026, 1, 2, tzinfo=UTC)
    past = [FailureRecord(attempt=n, at=at, **row) for n, row in enumerate(rows, 1)]
    block = render_retry_context(History(failures=past), attempt=4, max_attempts=4)
    lost = sum(not re.search(each, html.unescape(block)) for each in telling)
    found.append({"chars": len(block), "lost": lost})
json.dump(found, sys.stdout)
"""

INGEST_ROUNDS = 5
INGEST = """
import json, sys, time
sys.path.insert(0, "")
from retries.attempts.report_fields import clean_output
from retries.failures import fingerprints
outputs = json.load(sys.stdin)
filler = "\\n".join(f"    step {n} of the build copied module_{n * 7 % 997}" for n in range(1100))
sizes = {"short": outputs, "50 KB": [f"{filler}\\n{each}" for each in outputs[:12]]}
found = {}
for name, texts in sizes.items():
    best = 9.0
    for number in range(3):
        start = time.process_time()
        for text in texts:
            # the number keeps caches of equal texts out of the measure
            fingerprints.identify("", clean_output(f"{text}\\nround {number}"))
        best = min(best, time.process_time() - start)
    found[name] = best / len(texts) * 1000
json.dump(found, sys.stdout)
"""

Case = dict[str, Any]

# a name in quotation marks, and the start of JSON, whose keys name nothing
NAMED = re.compile(r"(?<!\w)['\"`‘“]([\w@./:-]*[A-Za-z][\w@./:-]*)['\"`’”](?!\w)")
JSON_TEXT = re.compile(r"[\[{] ?[{'\"]")

WORDS = ("alpha", "order", "config", "loader", "planner", "errors", "retry", "total", "widget")


def pip_lines(pick: random.Random) -> str:
    return f"Collecting {pick.choice(WORDS)}-{pick.choice(WORDS)}==3.{pick.randint(0, 99)}"


def pytest_lines(pick: random.Random) -> str:
    name = pick.choice(WORDS)
    return f"tests/test_{name}.py::test_{name}_{pick.randint(1, 9999)} PASSED [ 7%]"


def cargo_lines(pick: random.Random) -> str:
    return (
        f"   Compiling {pick.choice(('thiserror', 'anyhow', 'serde'))} v1.{pick.randint(0, 99)}.0"
    )


def npm_lines(pick: random.Random) -> str:
    name = pick.choice(WORDS)
    return (
        f"npm warn deprecated {name}@{pick.randint(1, 9)}.0.0: this library is no longer supported"
    )


def webpack_lines(pick: random.Random) -> str:
    return f"  ./src/{pick.choice(WORDS)}/{pick.randint(1, 9999)}.ts 3.2 KiB [built] 0 errors, 1 warning"


FILLERS = (pip_lines, pytest_lines, cargo_lines, npm_lines, webpack_lines)


@dataclass(frozen=True)
class Share:
    """A share of cases, with the ids of those that miss."""

    right: int
    of: int
    misses: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        return self.right / self.of if self.of else 1.0


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    file = os.environ.get(VARIABLE)
    if not file:
        raise MissingDependency(
            f"Set {VARIABLE} to a file of labeled failures; see bench/failures.py."
        )
    return measure(read_cases(Path(file)), say, per_place=1 if scale.quick else CASES_PER_PLACE)


def read_cases(path: Path) -> list[Case]:
    """Return the cases; raise MissingDependency if there are none."""
    if not path.is_file():
        raise MissingDependency(f"There is no file {path}.")
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def measure(cases: list[Case], say: Say, *, per_place: int = CASES_PER_PLACE) -> list[Figure]:
    """Return all figures; `per_place` cases are buried at each place of each filler."""
    shares = {
        "headline has the telling line": (measure_headlines(cases), at_least(0.95)),
        "telling line reaches the next attempt": (
            measure_survival(cases, per_place),
            at_least(0.98),
        ),
        "pairs of one pattern that have one cause": (measure_pairs(cases)[0], at_least(0.95)),
        "pairs of one cause that have one pattern": (measure_pairs(cases)[1], at_least(0.94)),
        "known error, of cases that have one": (measure_known(cases)[0], at_least(0.90)),
        "known error, of those named": (measure_known(cases)[1], at_least(0.97)),
        "one pattern by both verbs": (measure_verbs(cases), at_least(0.99)),
    }
    for name, (share, _) in shares.items():
        say(f"{name}: {share.right} of {share.of} ({', '.join(share.misses[:12]) or 'no miss'})")
    figures = [Figure(name, [share.value], "", target) for name, (share, target) in shares.items()]
    figures += [measure_offers(cases, say), *measure_contexts(cases, say)]
    return [*figures, measure_rendering(cases), *measure_ingest(cases, say), measure_hostile(say)]


def measure_headlines(cases: list[Case]) -> Share:
    misses = [
        each["id"]
        for each in cases
        if not re.search(each["telling"], str(find_headline(each["output"])))
    ]
    return Share(len(cases) - len(misses), len(cases), tuple(misses))


def measure_survival(cases: list[Case], per_place: int) -> Share:
    """Store long outputs, and shorten what is stored to what an attempt is told."""
    pick = random.Random(7)
    cases = [each for each in cases if each["telling"]]
    right, misses = 0, []
    for case, output in bury(cases, per_place, pick):
        told = shorten(clean_output(output), TOLD)
        if re.search(case["telling"], told):
            right += 1
        else:
            misses.append(case["id"])
    return Share(right, right + len(misses), tuple(misses))


def bury(cases: list[Case], per_place: int, pick: random.Random) -> Iterator[tuple[Case, str]]:
    """Yield cases whose output stands within the filler of a tool."""
    for size in SIZES:
        for filler in FILLERS:
            lines = [filler(pick) for _ in range(size // 40)]
            for share in SHARES:
                at = int(len(lines) * share)
                for case in pick.sample(cases, min(per_place, len(cases))):
                    parts = [*lines[:at], case["output"].rstrip("\n"), *lines[at:]]
                    yield case, "\n".join(parts)


def measure_pairs(cases: list[Case]) -> tuple[Share, Share]:
    """Return the precision and the recall of pairs of cases with one pattern."""
    prints = {each["id"]: fingerprints.identify(each["output"]).fingerprint for each in cases}
    both, one_pattern, one_cause = 0, [], []
    for a, b in combinations(cases, 2):
        alike, caused = prints[a["id"]] == prints[b["id"]], a["group"] == b["group"]
        both += alike and caused
        if alike and not caused:
            one_pattern.append(f"{a['id']}={b['id']}")
        if caused and not alike:
            one_cause.append(f"{a['id']}!={b['id']}")
    return (
        Share(both, both + len(one_pattern), tuple(one_pattern)),
        Share(both, both + len(one_cause), tuple(one_cause)),
    )


def measure_offers(cases: list[Case], say: Say) -> Figure:
    """Count the fixes that would be offered to the wrong error, because the signature is the same.

    Wrong are two failures of different causes, and a failure whose telling line names something
    else in quotation marks.
    """
    keys = {each["id"]: sign(each["output"]).key for each in cases}
    wrong = [
        f"{a['id']}={b['id']}"
        for a, b in combinations(cases, 2)
        if keys[a["id"]] == keys[b["id"]] and a["group"] != b["group"]
    ]
    asked = 0
    for each in cases:
        line = str(find_headline(each["output"]))
        for name in [] if JSON_TEXT.search(line) else dict.fromkeys(NAMED.findall(line)):
            asked += 1
            other = each["output"].replace(name, f"{name[:-1]}{'q' if name[-1] != 'q' else 'z'}")
            if sign(other).key == keys[each["id"]]:
                wrong.append(f"{each['id']}: {name}")
    title = "offered fixes with the wrong entity"
    say(f"{title}: {len(wrong)} of {asked} names ({', '.join(wrong[:12]) or 'no miss'})")
    return Figure(title, [float(len(wrong))], "", at_most(0))


def measure_known(cases: list[Case]) -> tuple[Share, Share]:
    """Return how many known errors are right, of the cases that have one and of those named."""
    right, named, known, missed, wrong = 0, 0, 0, [], []
    for each in cases:
        found = known_errors.find(each["output"], exit_code=each["exit_code"])
        is_right = found is not None and found.error.name in each["accept"]
        known, named, right = known + bool(each["accept"]), named + bool(found), right + is_right
        if each["accept"] and not is_right:
            missed.append(each["id"])
        if found and not is_right:
            wrong.append(f"{each['id']}: {found.error.name}")
    return Share(right, known, tuple(missed)), Share(right, named, tuple(wrong))


def measure_verbs(cases: list[Case]) -> Share:
    """Compare a report with a verification's output, and an exit with the same output."""
    misses = []
    for each in cases:
        output = clean_output(each["output"])
        ended = describe_exit(each["command"], each["exit_code"])
        reported = fingerprints.identify(output, "", ended)
        exited = fingerprints.identify("", output, "\n".join(output.splitlines()[-MESSAGE_LINES:]))
        if reported.fingerprint != exited.fingerprint:
            misses.append(each["id"])
    return Share(len(cases) - len(misses), len(cases), tuple(misses))


def measure_contexts(cases: list[Case], say: Say) -> list[Figure]:
    """Measure the context of a fourth attempt, and its share of the baseline's where it is given."""
    rows = build_histories(cases)
    asked = [(name, history) for name, histories in rows.items() for history in histories]
    sizes = render_sizes([history for _, history in asked], Path.cwd())
    baseline = os.environ.get("BASELINE")
    before = render_sizes([history for _, history in asked], Path(baseline)) if baseline else sizes
    figures = []
    for name in rows:
        own = sum(each["chars"] for each, (of, _) in zip(sizes, asked, strict=True) if of == name)
        old = sum(each["chars"] for each, (of, _) in zip(before, asked, strict=True) if of == name)
        lost = sum(each["lost"] for each, (of, _) in zip(sizes, asked, strict=True) if of == name)
        text = f", {own / old:.2f} of the baseline" if baseline else ""
        say(f"context, {name}: {own / HISTORIES:,.0f} characters{text}, {lost} lines lost")
    total, old = (sum(each["chars"] for each in found) for found in (sizes, before))
    lost = sum(each["lost"] for each in sizes)
    figures.append(Figure("telling lines lost in contexts", [lost], "", at_most(0)))
    if baseline:
        figures.append(Figure("context, share of the baseline", [total / old], "", at_most(0.6)))
    return figures


def build_histories(cases: list[Case]) -> dict[str, list[list[dict[str, Any]]]]:
    """Return histories of three failures by name: the size of their outputs, and how they differ."""
    pick, groups = random.Random(3), defaultdict(list)
    for case in cases:
        groups[case["group"]].append(case)
    alike = [each for each in groups.values()]
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for size, lines in (("short", 0), ("6 KB", 100), ("90 KB", 1500)):
        for name in ("alike", "different"):
            found[f"{size}, {name}"] = []
            for number in range(HISTORIES):
                group = pick.choice(alike)
                three = [pick.choice(group if name == "alike" else cases) for _ in range(3)]
                found[f"{size}, {name}"].append(
                    [build_record(each, lines, is_exit=number % 2 == 0) for each in three]
                )
    return found


def build_record(case: Case, lines: int, *, is_exit: bool) -> dict[str, Any]:
    """Return what a failure's record holds after a report as an exit, or with a verification."""
    filler = [f"    step {n} of the build copied module_{n * 7 % 997}" for n in range(lines)]
    parts = [*filler[: lines // 2], case["output"].strip("\n"), *filler[lines // 2 :]]
    output = "\n".join(parts)
    told = [line for line in output.splitlines() if line.strip()]
    record: dict[str, Any] = {"telling": case["telling"], "type": "verification_failed"}
    if is_exit:
        return record | {"message": "\n".join(told[-MESSAGE_LINES:]), "details": output}
    ran = {key: case[key] for key in ("command", "exit_code")} | {"output": output}
    return record | {"message": "\n".join(told)[:2_000], "verification": ran}


def render_sizes(histories: list[list[dict[str, Any]]], folder: Path) -> list[dict[str, int]]:
    """Render the contexts with the code in a folder; return their sizes and what they lost."""
    ran = subprocess.run(
        [sys.executable, "-c", RENDER],
        input=json.dumps(histories),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    result: list[dict[str, int]] = json.loads(ran.stdout)
    return result


def measure_rendering(cases: list[Case]) -> Figure:
    """Measure the rendering of a fourth attempt's context after three outputs of 64 KiB."""
    pick, times = random.Random(9), []
    for _ in range(HISTORIES):
        past = []
        for number in (1, 2, 3):
            filler = pick.choice(FILLERS)
            lines = [filler(pick) for _ in range(64 * KIB // 40)]
            lines.insert(pick.randrange(len(lines)), pick.choice(cases)["output"])
            past.append(
                FailureRecord(
                    attempt=number,
                    at=datetime(2026, 1, 2, tzinfo=UTC),
                    type="verification_failed",
                    verification={"output": clean_output("\n".join(lines))},
                )
            )
        start = time.process_time()
        render_retry_context(History(failures=past), attempt=4, max_attempts=4)
        times.append((time.process_time() - start) * 1000)
    p95 = quantiles(times, n=20)[-1]
    return Figure("rendering after three outputs of 64 KiB, p95", [p95], "ms", at_most(20))


def measure_ingest(cases: list[Case], say: Say) -> list[Figure]:
    """Measure the processor time to clean and identify a failure, and its share of the baseline's.

    Both run in turns, so that other load on the machine is in both.
    """
    outputs = [each["output"] for each in cases]
    own, old, baseline = [], [], os.environ.get("BASELINE")
    for _ in range(INGEST_ROUNDS if baseline else 1):
        own.append(time_ingest(outputs, Path.cwd()))
        if baseline:
            old.append(time_ingest(outputs, Path(baseline)))
    figures = []
    for name in own[0]:
        spent = min(each[name] for each in own)
        text = f", {spent / min(each[name] for each in old):.2f} of the baseline" if old else ""
        say(f"ingest, {name}: {spent:.3f} ms{text}")
    figures.append(
        Figure("ingest of a failure: processor time", [own[0]["short"]], "ms", at_most(5))
    )
    if old:
        shares = [
            sum(map(min, zip(*(each.values() for each in own), strict=True)))
            / sum(map(min, zip(*(each.values() for each in old), strict=True)))
        ]
        figures.append(Figure("ingest, share of the baseline", shares, "", at_most(1.3)))
    return figures


def time_ingest(outputs: list[str], folder: Path) -> dict[str, float]:
    """Return the milliseconds for one output with the code in a folder, by the size of outputs."""
    ran = subprocess.run(
        [sys.executable, "-c", INGEST],
        input=json.dumps(outputs),
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    result: dict[str, float] = json.loads(ran.stdout)
    return result


def measure_hostile(say: Say) -> Figure:
    """Measure the slowest of the outputs that no tool should print."""
    pick, size = random.Random(5), 1024 * KIB
    telling = "src/loader.py:7: error: no rate for currency XTS"
    outputs = {
        "5 MB": "[1/9] copied a module of the tree to its place\n" * (5 * size // 47),
        "one line of 1 MB": "lorem ipsum dolor " * (size // 18),
        "one character": "x" * (3 * size),
        "100,000 different lines": "\n".join(
            f"at {pick.getrandbits(64):x}" for _ in range(100_000)
        ),
        "colors": "\x1b[32mok\x1b[0m 1\n" * 90_000,
        "only escapes": "\x1b[" * size,
    }
    slowest = 0.0
    for name, output in outputs.items():
        start = time.process_time()
        cleaned = clean_output(f"{output}\n{telling}")
        is_kept = telling in str(find_headline(cleaned))
        spent = time.process_time() - start
        slowest = max(slowest, spent)
        say(f"hostile, {name}: {spent:.2f} s, {'telling line kept' if is_kept else 'LOST'}")
    return Figure("hostile output, slowest ingest", [slowest], "s", at_most(3))


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        sys.exit("Specify the file: python -m bench.failures FILE")
    try:
        figures = measure(read_cases(Path(argv[0])), print)
    except MissingDependency as missing:
        sys.exit(str(missing))
    for figure in figures:
        print(
            f"{figure.name:<45} {figure.median:.3f} {figure.unit} {figure.target} {figure.verdict}"
        )
    return int(any(figure.target and not figure.target.is_met(figure.median) for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
