"""Measure the cost of storing failures and of rendering them: characters and processor time."""

import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.failure_outputs import FILLERS, KIB, MESSAGE_LINES, Case
from bench.figures import Figure, Say, at_most
from retries.attempts.report_fields import clean_output
from retries.failures.outputs.salience import find_headline
from retries.retry_context.block import History, render_retry_context
from retries.retry_context.failure_elements import FailureRecord

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
from retries.failures.signatures import sign
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
            sign("", clean_output(f"{text}\\nround {number}"))
        best = min(best, time.process_time() - start)
    found[name] = best / len(texts) * 1000
json.dump(found, sys.stdout)
"""


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
        # without a target: an output up to 12,000 characters has no cut by rule
        figures.append(Figure("context, share of the baseline", [total / old], ""))
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
