"""Measure how well Tenfour reads real failures of tools, labeled by hand.

    python -m bench.failures FILE             # each miss, without servers
    FAILURES=FILE python -m bench failures    # the figures and their targets

FILE has one JSON object per line: `id`, `group` (cases of one cause), `output`, `exit_code`,
`command`, `telling` (a regular expression for the line that tells the cause), and `accept` (the known
errors that are right).

- The telling line must survive being stored and being shown to the next attempt, wherever it stands
  in outputs of several sizes, in the filler of five tools.
- The characters of a fourth attempt's context, for outputs of three sizes and for attempts that fail
  alike or not. With `BASELINE=DIR`, a checkout of the commit to compare with, it prints the share of
  what that renders for the same failures.
- Pairs: of two failures with one pattern, how many have one cause; of two with one cause, how many
  have one pattern. Each case is read as a verification's report and as an exit with its output; both
  must give the same pattern.
- Look-alikes (`bench/look_alikes.py`): generated pairs with the same words for another cause, and
  with other lines, durations or folders for the same cause.
"""

import json
import os
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from bench.failure_costs import measure_contexts, measure_hostile, measure_ingest, measure_rendering
from bench.failure_outputs import FILLERS, KIB, MESSAGE_LINES, Case
from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.look_alikes import build_pairs
from bench.servers import MissingDependency, Sandbox
from ledger.values.text import describe_exit
from retries.attempts.report_fields import clean_output
from retries.failures import fingerprints, known_errors
from retries.failures.outputs.excerpts import shorten
from retries.failures.outputs.salience import find_headline
from retries.failures.signatures import sign

VARIABLE = "FAILURES"
SIZES = (6 * KIB, 20 * KIB, 64 * KIB, 240 * KIB, 2048 * KIB)
SHARES = (0.02, 0.25, 0.5, 0.75, 0.9, 0.99)
EXCERPT_LENGTH = 4_000  # the characters of the newest failure's output that the next attempt gets
CASES_PER_PLACE = 4

# a name in quotation marks, and the start of JSON, whose keys name nothing
NAMED = re.compile(r"(?<!\w)['\"`‘“]([\w@./:-]*[A-Za-z][\w@./:-]*)['\"`’”](?!\w)")
# the file that imports what is missing: another one has the same cause
IMPORTER = re.compile(r" from [\"'`][\w@./-]{1,200}\.\w{1,5}[\"'`]")
JSON_TEXT = re.compile(r"[\[{] ?[{'\"]")


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
        "look-alikes kept apart by signature": (measure_look_alikes(alike=False), at_least(0.99)),
        "equal causes found by signature": (measure_look_alikes(alike=True), at_least(0.90)),
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
    """Store long outputs, and shorten what is stored to an attempt's excerpt."""
    pick = random.Random(7)
    cases = [each for each in cases if each["telling"]]
    right, misses = 0, []
    for case, output in place_in_filler(cases, per_place, pick):
        excerpt = shorten(clean_output(output), EXCERPT_LENGTH)
        if re.search(case["telling"], excerpt):
            right += 1
        else:
            misses.append(case["id"])
    return Share(right, right + len(misses), tuple(misses))


def place_in_filler(
    cases: list[Case], per_place: int, pick: random.Random
) -> Iterator[tuple[Case, str]]:
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
        line = IMPORTER.sub("", str(find_headline(each["output"])))
        for name in [] if JSON_TEXT.search(line) else dict.fromkeys(NAMED.findall(line)):
            asked += 1
            other = each["output"].replace(name, f"{name[:-1]}{'q' if name[-1] != 'q' else 'z'}")
            if sign(other).key == keys[each["id"]]:
                wrong.append(f"{each['id']}: {name}")
    title = "offered fixes with the wrong entity"
    say(f"{title}: {len(wrong)} of {asked} names ({', '.join(wrong[:12]) or 'no miss'})")
    return Figure(title, [float(len(wrong))], "", at_most(0))


def measure_look_alikes(*, alike: bool) -> Share:
    """Return the share of generated pairs that are read right: of one cause, or of two."""
    pairs = [each for each in build_pairs() if each.is_alike == alike]
    misses = [
        f"{each.slot}: {each.one!r} / {each.other!r}"
        for each in pairs
        if is_offered(each.one, each.other) != alike
    ]
    return Share(len(pairs) - len(misses), len(pairs), tuple(misses))


def is_offered(one: str, other: str) -> bool:
    """Return whether a fix for a failure is offered for another one."""
    a, b = sign(one), sign(other)
    return bool(a.entities) and a.key == b.key


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
