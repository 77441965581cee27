"""Measure how well fingerprints group log lines, compared with the lines' known templates.

    python -m bench.patterns DIR          # each set and the means, without servers
    LOGHUB=DIR python -m bench patterns   # the means and their targets

DIR holds CSV files with the columns `Content` and `EventTemplate`. The targets are for six 2,000-line
sets of LogHub-2.0 (github.com/logpai/loghub-2.0, `2k_dataset`, corrected templates): Apache, Hadoop,
HealthApp, OpenSSH, OpenStack, and Zookeeper. Their license allows research use with a citation, so
Tenfour does not include them.

Jiang et al. define the metrics in "A Large-scale Evaluation for Log Parsing Techniques: How Far are
We?", ISSTA 2024. A group is the set of lines with one fingerprint. A group is correct if it equals
the set of lines of one template.

- GA, grouping accuracy: the share of lines in correct groups;
- FGA: the F1 score over groups, with precision = correct groups / groups and recall = correct
  groups / templates. Rare templates count as much as frequent ones.
"""

import csv
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import MissingDependency, Sandbox
from retries.failures.fingerprints import compute_fingerprint, make_template
from retries.failures.masks import RULES, build_make_template
from retries.failures.template_merging import TemplateTable

VARIABLE = "LOGHUB"
GA, FGA, MICROSECONDS = 0.98, 0.95, 40
# of each set, without the rules that change its lines alone
LEAST_GA, LEAST_FGA = 0.88, 0.83

Lines = list[tuple[str, str]]  # content and template
MakeTemplate = Callable[[str], str]


@dataclass(frozen=True)
class GroupingResult:
    """The metrics of one set."""

    lines: int
    templates: int
    groups: int
    ga: float
    fga: float
    us_per_line: float


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise MissingDependency(
            f"Set {VARIABLE} to a folder with the LogHub-2.0 sets; see bench/patterns.py."
        )
    sets = read_sets(Path(folder))
    rounds = [
        {name: measure_grouping(lines) for name, lines in sets.items()} for _ in range(scale.rounds)
    ]
    for name, found in rounds[-1].items():
        say(format_result(name, found))
    last = list(rounds[-1].values())
    without = measure_without_own_rules(sets)
    for name, found in without.items():
        say(f"without its own rules: {format_result(name, found)}")
    times = [mean(each.us_per_line for each in found.values()) for found in rounds]
    return [
        Figure("grouping accuracy, mean", [mean(e.ga for e in last)], "", at_least(GA)),
        Figure("group F1 score, mean", [mean(e.fga for e in last)], "", at_least(FGA)),
        Figure(
            "grouping accuracy without own rules, least",
            [min(e.ga for e in without.values())],
            "",
            at_least(LEAST_GA),
        ),
        Figure(
            "group F1 score without own rules, least",
            [min(e.fga for e in without.values())],
            "",
            at_least(LEAST_FGA),
        ),
        Figure("fingerprint time per line, mean", times, "µs", at_most(MICROSECONDS)),
    ]


def read_sets(folder: Path) -> dict[str, Lines]:
    """Return the sets by name; raise MissingDependency if there are none."""
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise MissingDependency(f"There is no CSV file in {folder}.")
    return {path.stem: read_lines(path) for path in files}


def read_lines(path: Path) -> Lines:
    # A line may have any bytes and any length.
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.DictReader(file)
        if not {"Content", "EventTemplate"} <= set(rows.fieldnames or ()):
            raise MissingDependency(f"{path} lacks the columns Content and EventTemplate.")
        return [(row["Content"] or "", row["EventTemplate"] or "") for row in rows]


def measure_grouping(lines: Lines, make_template: MakeTemplate = make_template) -> GroupingResult:
    """Fingerprint each line, merge templates as they arrive, and compare the groups."""
    start = time.process_time()  # excludes other processes
    table, first = TemplateTable(), {}
    fingerprints = []
    for content, _ in lines:
        template = make_template(content)
        fingerprint = compute_fingerprint(template)
        if fingerprint not in first:
            first[fingerprint] = template
            table.add(template)
        fingerprints.append(fingerprint)
    merged = {fingerprint: table.find(template) for fingerprint, template in first.items()}
    seconds = time.process_time() - start
    groups, templates = defaultdict(set), defaultdict(set)
    for number, (fingerprint, (_, template)) in enumerate(zip(fingerprints, lines, strict=True)):
        groups[merged[fingerprint]].add(number)
        templates[template].add(number)
    template_sets = {frozenset(each) for each in templates.values()}
    correct = [each for each in groups.values() if frozenset(each) in template_sets]
    return GroupingResult(
        lines=len(lines),
        templates=len(templates),
        groups=len(groups),
        ga=sum(map(len, correct)) / len(lines),
        # 2PR / (P + R) with P = correct / groups, R = correct / templates
        fga=2 * len(correct) / (len(groups) + len(templates)),
        us_per_line=seconds / len(lines) * 1e6,
    )


def measure_without_own_rules(sets: dict[str, Lines]) -> dict[str, GroupingResult]:
    """Measure each set without the rules that change its lines and no other set's."""
    plain = {name: make_templates(lines, ()) for name, lines in sets.items()}
    own: dict[str, list[str]] = {name: [] for name in sets}
    for rule in RULES:
        changed = [
            name for name, lines in sets.items() if make_templates(lines, (rule,)) != plain[name]
        ]
        if len(changed) == 1:
            own[changed[0]].append(rule)
    return {
        name: measure_grouping(lines, build_make_template(own[name]))
        for name, lines in sets.items()
    }


def make_templates(lines: Lines, dropped: Sequence[str]) -> list[str]:
    make_template = build_make_template(dropped)
    return [make_template(content) for content, _ in lines]


def format_result(name: str, found: GroupingResult) -> str:
    return (
        f"{name:<12} GA {found.ga:.3f}  FGA {found.fga:.3f}  {found.us_per_line:5.1f} µs per line,"
        f" {found.groups} groups of {found.templates} templates, {found.lines} lines"
    )


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        sys.exit("Specify the folder with the sets: python -m bench.patterns DIR")
    try:
        sets = read_sets(Path(argv[0]))
    except MissingDependency as missing:
        sys.exit(str(missing))
    found = {name: measure_grouping(lines) for name, lines in sets.items()}
    without = measure_without_own_rules(sets)
    ga, fga, us = (
        mean(getattr(each, name) for each in found.values())
        for name in ("ga", "fga", "us_per_line")
    )
    print(*(format_result(name, each) for name, each in found.items()), sep="\n")
    print(f"{'mean':<12} GA {ga:.3f}  FGA {fga:.3f}  {us:5.1f} µs per line")
    print("without the rules that change its lines alone:")
    print(*(format_result(name, each) for name, each in without.items()), sep="\n")
    is_weak = any(each.ga < LEAST_GA or each.fga < LEAST_FGA for each in without.values())
    return int(ga < GA or fga < FGA or us > MICROSECONDS or is_weak)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
