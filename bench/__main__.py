"""Measure Tenfour and print each figure with its target: `python -m bench [--quick] [NAME …]`."""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from bench import (
    budgets,
    chaos,
    churn,
    client,
    context,
    costs,
    deadletters,
    escalations,
    exclusive,
    failures,
    fleets,
    forecast,
    frames,
    hooks,
    house,
    http,
    idle,
    idle_check,
    nights,
    notifications,
    pages,
    partitions,
    patterns,
    payload_search,
    permissions,
    plans,
    pools,
    retention,
    retry_timing,
    rolling,
    sending,
    sessions,
    slow_bodies,
    steering,
    stress,
    sufficiency,
    tabs,
    tasks,
    traces,
    transcripts,
    uplift,
    volume,
)
from bench.figures import QUICK, Figure, Say, Scale
from bench.servers import MissingDependency, Sandbox, run_sandbox
from config.local.places import PROJECT, Refused

SUITES: dict[str, Callable[[Sandbox, Scale, Say], list[Figure]]] = {
    "http": http.run,
    "costs": costs.run,
    "hooks": hooks.run,
    "steering": steering.run,
    "permissions": permissions.run,
    "idle_check": idle_check.run,
    "sending": sending.run,
    "pages": pages.run,
    "volume": volume.run,
    "words": volume.run_words,
    "frames": frames.run,
    "tabs": tabs.run,
    "idle": idle.run,
    "partitions": partitions.run,
    "tasks": tasks.run,
    "churn": churn.run,
    "retention": retention.run,
    "slow_bodies": slow_bodies.run,
    "stress": stress.run,
    "exclusive": exclusive.run,
    "pools": pools.run,
    "budgets": budgets.run,
    "payload_search": payload_search.run,
    "traces": traces.run,
    "chaos": chaos.run,
    "rolling": rolling.run,
    "deadletters": deadletters.run,
    "escalations": escalations.run,
    "retry_timing": retry_timing.run,
    "context": context.run,
    "patterns": patterns.run,
    "plans": plans.run,
    "failures": failures.run,
    "sufficiency": sufficiency.run,
    "forecast": forecast.run,
    "nights": nights.run,
    "fleets": fleets.run,
    "client": client.run,
    "sessions": sessions.run,
    "transcripts": transcripts.run,
    "notifications": notifications.run,
    "house": house.run,
}
REPORT = PROJECT / "docs" / "performance.md"
BEGIN, END = "<!-- begin figures -->\n", "<!-- end figures -->\n"


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stop all child processes
    if argv[:1] == ["uplift"]:
        return uplift.main(argv[1:])
    options = parse_arguments(argv)
    names = options.suite or list(SUITES)
    run = Run(names, replace(QUICK if options.quick else Scale(), against=options.against))
    try:
        run.measure()
    except Refused as refusal:
        sys.exit(str(refusal))
    finally:  # a run that is ended reports the suites that it has finished
        if run.figures:
            run.report(options.json, update_docs=options.update_docs)
    return int(any(figure.verdict == "MISSED" for figure in run.figures))


@dataclass
class Run:
    """The suites to run, and the figures of those that have ended."""

    names: list[str]
    scale: Scale
    machine: dict[str, Any] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def measure(self) -> None:
        """Run each suite with servers of its own: no data of an earlier one is in its way."""
        for name in self.names:
            with run_sandbox() as sandbox:
                self.machine = self.machine or describe_machine(sandbox)
                try:
                    self.figures += SUITES[name](sandbox, self.scale, partial(say, name))
                except MissingDependency as missing:
                    say(name, f"skipped. {missing}")
            self.ended.append(name)

    @property
    def command(self) -> str:
        """Return what measures the same, without `--json FILE`, whose path is of this machine."""
        words = ["python -m bench"]
        words += ["--quick"] if self.scale.quick else []
        words += [] if self.ended == list(SUITES) else self.ended
        words += [f"--against {self.scale.against}"] if self.scale.against else []
        return " ".join(words)

    def report(self, file: Path | None, *, update_docs: bool) -> None:
        """Print the table; write it to the file and to the page where that was asked for."""
        lines = format_table(self.figures)
        print("\n" + "\n".join(lines))
        if file:
            found = as_json(self.machine, self.command, self.figures)
            file.write_text(json.dumps(found, indent=1) + "\n")
        if update_docs:
            update_report([format_machine(self.machine, self.command), "", *lines])


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument(
        "suite", nargs="*", help=f"suites to run (default: all): {', '.join(SUITES)}"
    )
    parser.add_argument(
        "--quick", action="store_true", help="run short rounds; results are not reliable figures"
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="REV",
        help="compare pages, http, and steering with a revision",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every round to a file")
    parser.add_argument(
        "--update-docs",
        action="store_true",
        help="write the table to docs/performance.md; figures of other suites stay",
    )
    options = parser.parse_args(argv)
    if unknown := set(options.suite) - set(SUITES):
        parser.error(
            f"unknown suite: {', '.join(sorted(unknown))}. Choose from: {', '.join(SUITES)}"
        )
    return options


def say(suite: str, text: str) -> None:
    print(f"{suite}: {text}", file=sys.stderr, flush=True)


# ---- the report


def format_table(figures: list[Figure]) -> list[str]:
    """Format the figures as a Markdown table that also reads well in a terminal."""
    rows = [["figure", "median", "min – max", "same code twice", "target", ""]]
    for each in figures:
        rows.append(
            [
                each.name,
                f"{each.median:.2f} {each.unit}",
                format_range(each.values) if len(each.values) > 1 else "",
                f"{format_range(each.scatter)} ×" if each.scatter else "",
                str(each.target or "no target"),
                each.verdict,
            ]
        )
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return [f"| {line} |" for line in lines]


def format_range(values: list[float]) -> str:
    return f"{min(values):.2f} – {max(values):.2f}"


def describe_machine(sandbox: Sandbox) -> dict[str, Any]:
    """Describe the hardware, its load, and the software versions."""
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in read_lines("/proc/cpuinfo")
            if "model name" in line
        ),
        platform.machine(),
    )
    memory = next(
        int(line.split()[1]) for line in read_lines("/proc/meminfo") if "MemTotal" in line
    )
    with psycopg.connect(sandbox.urls["DATABASE_URL"]) as conn:
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


def read_lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def format_machine(machine: dict[str, Any], command: str) -> str:
    """Format the machine description as a sentence."""
    return (
        f"Measured on {machine['date']} with `{command}`: {machine['processors']} ×"
        f" {machine['processor']}, {machine['memory_gb']} GB, Python {machine['python']},"
        f" PostgreSQL {machine['postgres']}, load {machine['load_before']} at the start."
    )


def as_json(machine: dict[str, Any], command: str, figures: list[Figure]) -> dict[str, Any]:
    return {"machine": machine, "command": command, "figures": [each.as_json() for each in figures]}


def update_report(lines: list[str]) -> None:
    """Write the figures between the two markers in docs/performance.md, beside earlier ones."""
    before, _, rest = REPORT.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    text = "\n".join(merge_figures(old.splitlines(), lines))
    REPORT.write_text(before + BEGIN + text + "\n" + END + after)


def merge_figures(old: list[str], new: list[str]) -> list[str]:
    """Return the tables of earlier runs without the figures that are in the new one, and that one.

    Each table follows the sentence that says when and how it was measured.
    """
    # the sentence, an empty line, the heading and its rule come first
    measured = {name_of_row(line) for line in new[4:]} - {""}
    kept: list[list[str]] = []
    for line in old:
        if line.startswith("Measured on "):
            kept.append([])
        if kept and name_of_row(line) not in measured:
            kept[-1].append(line)
    tables = [table for table in kept if sum(line.startswith("|") for line in table) > 2]
    merged: list[str] = []
    for table in [*tables, new]:
        merged += ["", *trim(table)] if merged else trim(table)
    return merged


def name_of_row(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("|") else ""


def trim(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
