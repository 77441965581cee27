"""How well failures are grouped: the fingerprints of log lines against the templates they came from.

    python -m bench.patterns DIR          # every set and the means, without starting anything
    LOGHUB=DIR python -m bench patterns   # the means, beside their targets

DIR holds sets of lines as CSV files with the columns `Content` and `EventTemplate`, such as the six
2,000-line sets of LogHub-2.0 that the targets are for: Apache, Hadoop, HealthApp, OpenSSH, OpenStack
and Zookeeper (github.com/logpai/loghub-2.0, `2k_dataset`, corrected templates). They may be used for
research with a citation, so they are not part of Tenfour.

The measures are those of Jiang et al., "A Large-scale Evaluation for Log Parsing Techniques: How Far
are We?", ISSTA 2024. A group is a set of lines with one fingerprint; it is right when it is exactly
the set of all lines of one template.

- GA, grouping accuracy: the share of lines that are in a right group;
- FGA: the F1 score over groups, of precision = right groups / groups made and recall = right groups
  / templates. Rare templates count as much as frequent ones.
"""

import csv
import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import Ground, Missing
from retries.failures.fingerprints import compute_fingerprint, make_template

VARIABLE = "LOGHUB"
GA, FGA, MICROSECONDS = 0.9, 0.8, 50

Lines = list[tuple[str, str]]  # what was printed, and the template it was printed from


@dataclass(frozen=True)
class Grouped:
    """What came of one set."""

    lines: int
    templates: int
    groups: int
    ga: float
    fga: float
    us_a_line: float


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise Missing(
            f"Set {VARIABLE} to a folder with the LogHub-2.0 sets; see bench/patterns.py."
        )
    sets = sets_in(Path(folder))
    rounds = [{name: grouped(lines) for name, lines in sets.items()} for _ in range(scale.rounds)]
    for name, found in rounds[-1].items():
        say(said(name, found))
    last = list(rounds[-1].values())
    times = [mean(each.us_a_line for each in found.values()) for found in rounds]
    return [
        Figure("grouping accuracy, mean", [mean(e.ga for e in last)], "", at_least(GA)),
        Figure("F1 of groups, mean", [mean(e.fga for e in last)], "", at_least(FGA)),
        Figure("fingerprint of a line, mean", times, "µs", at_most(MICROSECONDS)),
    ]


def sets_in(folder: Path) -> dict[str, Lines]:
    """The sets by name; raises Missing where there are none."""
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise Missing(f"There is no CSV file in {folder}.")
    return {path.stem: lines_of(path) for path in files}


def lines_of(path: Path) -> Lines:
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if not {"Content", "EventTemplate"} <= set(rows.fieldnames or ()):
            raise Missing(f"{path} lacks the columns Content and EventTemplate.")
        return [(row["Content"], row["EventTemplate"]) for row in rows]


def grouped(lines: Lines) -> Grouped:
    """Fingerprint every line by itself, and compare the groups with the templates."""
    start = time.process_time()  # of this process alone: others take none of it
    prints = [compute_fingerprint(make_template(content)) for content, _ in lines]
    took = time.process_time() - start
    made, true = defaultdict(set), defaultdict(set)
    for number, (mark, (_, origin)) in enumerate(zip(prints, lines, strict=True)):
        made[mark].add(number)
        true[origin].add(number)
    origins = {frozenset(each) for each in true.values()}
    right = [each for each in made.values() if frozenset(each) in origins]
    return Grouped(
        lines=len(lines),
        templates=len(true),
        groups=len(made),
        ga=sum(map(len, right)) / len(lines),
        # 2PR / (P + R) with P = right / made, R = right / true
        fga=2 * len(right) / (len(made) + len(true)),
        us_a_line=took / len(lines) * 1e6,
    )


def said(name: str, found: Grouped) -> str:
    return (
        f"{name:<12} GA {found.ga:.3f}  FGA {found.fga:.3f}  {found.us_a_line:5.1f} µs a line,"
        f" {found.groups} groups of {found.templates} templates, {found.lines} lines"
    )


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        sys.exit("Name the folder with the sets: python -m bench.patterns DIR")
    try:
        found = {name: grouped(lines) for name, lines in sets_in(Path(argv[0])).items()}
    except Missing as missing:
        sys.exit(str(missing))
    ga, fga, us = (
        mean(getattr(each, name) for each in found.values()) for name in ("ga", "fga", "us_a_line")
    )
    print(*(said(name, each) for name, each in found.items()), sep="\n")
    print(f"{'mean':<12} GA {ga:.3f}  FGA {fga:.3f}  {us:5.1f} µs a line")
    return int(ga < GA or fga < FGA or us > MICROSECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
