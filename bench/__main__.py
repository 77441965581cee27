"""Measures Tenfour and prints every figure beside its target: `python -m bench [--quick] [NAME …]`."""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from bench import (
    answered,
    buried,
    churn,
    context,
    due,
    http,
    idle_check,
    pages,
    patterns,
    send,
    stress,
    tasks,
)
from bench.figures import QUICK, Figure, Say, Scale
from bench.servers import Ground, Missing, ground
from config.local.places import PROJECT, Refused

SUITES: dict[str, Callable[[Ground, Scale, Say], list[Figure]]] = {
    "http": http.run,
    "idle_check": idle_check.run,
    "send": send.run,
    "pages": pages.run,
    "tasks": tasks.run,
    "churn": churn.run,
    "stress": stress.run,
    "buried": buried.run,
    "answered": answered.run,
    "due": due.run,
    "context": context.run,
    "patterns": patterns.run,
}
KEPT = PROJECT / "docs" / "performance.md"
BEGIN, END = "<!-- the last figures -->\n", "<!-- until here -->\n"


def main(argv: list[str]) -> int:
    asked = arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything started is stopped
    names = asked.suite or list(SUITES)
    try:
        with ground() as here:
            machine = describe(here)
            found = measured(here, names, QUICK if asked.quick else Scale())
    except Refused as refusal:
        sys.exit(str(refusal))
    lines = table(found)
    print("\n" + "\n".join(lines))
    # without the file, whose place is nobody else's
    command = " ".join(["python -m bench --quick" if asked.quick else "python -m bench", *names])
    if asked.json:
        asked.json.write_text(json.dumps(as_json(machine, command, found), indent=1) + "\n")
    if asked.keep:
        keep([*said(machine, command), "", *lines])
    return int(any(figure.verdict == "MISSED" for figure in found))


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("suite", nargs="*", help=f"what to measure: {', '.join(SUITES)}; else all")
    parser.add_argument("--quick", action="store_true", help="short rounds: a look, not a figure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round into a file")
    parser.add_argument(
        "--keep", action="store_true", help="put the table into docs/performance.md"
    )
    asked = parser.parse_args(argv)
    if unknown := set(asked.suite) - set(SUITES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(SUITES)}")
    return asked


def measured(here: Ground, names: list[str], scale: Scale) -> list[Figure]:
    found: list[Figure] = []
    for name in names:
        try:
            found += SUITES[name](here, scale, partial(say, name))
        except Missing as missing:
            say(name, f"left out. {missing}")
    return found


def say(suite: str, text: str) -> None:
    print(f"{suite}: {text}", file=sys.stderr, flush=True)


# ---- what came of it


def table(figures: list[Figure]) -> list[str]:
    """The figures as a Markdown table, which reads well on a terminal too."""
    rows = [["figure", "median", "min – max", "target", ""]]
    for each in figures:
        low, high = min(each.values), max(each.values)
        spread = f"{low:.2f} – {high:.2f}" if len(each.values) > 1 else ""
        target = str(each.target or "for the record")
        rows.append([each.name, f"{each.median:.2f} {each.unit}", spread, target, each.verdict])
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return [f"| {line} |" for line in lines]


def describe(here: Ground) -> dict[str, Any]:
    """The machine that the figures are for."""
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in lines_of("/proc/cpuinfo")
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = next(int(line.split()[1]) for line in lines_of("/proc/meminfo") if "MemTotal" in line)
    with psycopg.connect(here.urls["DATABASE_URL"]) as conn:
        postgres = conn.info.parameter_status("server_version")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "processor": processor,
        "processors": os.cpu_count(),
        "memory_gb": round(memory / 1024**2),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "postgres": postgres,
    }


def lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def said(machine: dict[str, Any], command: str) -> list[str]:
    """The machine in words."""
    return [
        f"Measured on {machine['date']} with `{command}`: {machine['processors']} ×"
        f" {machine['processor']}, {machine['memory_gb']} GB, Python {machine['python']},"
        f" PostgreSQL {machine['postgres']}, load {machine['load_before']} before it began.",
    ]


def as_json(machine: dict[str, Any], command: str, figures: list[Figure]) -> dict[str, Any]:
    return {"machine": machine, "command": command, "figures": [each.as_json() for each in figures]}


def keep(lines: list[str]) -> None:
    """Replace what docs/performance.md holds between its two marks."""
    before, _, rest = KEPT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    KEPT.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
