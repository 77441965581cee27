"""Find the most suspicious lines of a failing check in the coverage of each of its tests."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_SUSPECTS = 10
MOST_BYTES = 200_000_000  # of a coverage file
PATH_LENGTH, NAME_LENGTH = 300, 120
# the failing tests that runners list: pytest, unittest, Go
FAILING = (
    re.compile(r"^(?:FAILED|ERROR) (\S{1,300}?::\S{1,300})", re.M),
    re.compile(r"^(?:FAIL|ERROR): \w{1,200} \(([\w.]{1,300})\)", re.M),
    re.compile(r"^ *--- FAIL: (\S{1,300})", re.M),
)
PARAMETERS = re.compile(r"\[.*|\|.*")
# the lines of the project that a runner's traces name
PLACES = re.compile(r"(?<![\w./\\-])([\w./\\-]{1,300}\.\w{1,5})(?:\", line |:)(\d{1,6})")
TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)(?:test_|conftest\.)|[._-](?:test|spec)\.\w+$"
)

Place = tuple[str, int]


@dataclass
class Spectrum:
    """The lines that each test ran, and the function of each line, where the file tells it."""

    tests: dict[str, set[Place]] = field(default_factory=dict)
    functions: dict[Place, str] = field(default_factory=dict)

    def add(self, test: str, place: Place) -> None:
        self.tests.setdefault(test, set()).add(place)


def list_suspects(path: str, output: str) -> list[dict[str, Any]]:
    """Return the most suspicious lines: those that failing tests ran and passing ones did not.

    `path` is a coverage file with the lines of each test, `output` what the check printed. Raises
    OSError, and ValueError with a sentence that says what the file lacks.
    """
    if os.path.getsize(path) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES // 1_000_000} MB")
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    spectrum = read_json(text) if text.lstrip()[:1] == "{" else read_lcov(text)
    if len(spectrum.tests) < 2:
        raise ValueError("it does not say which test ran which line")
    failing = [read_words(name) for form in FAILING for name in form.findall(output)]
    failed = {name for name in spectrum.tests if is_among(read_words(name), failing)}
    if not failed:
        raise ValueError("it has none of the failing tests that the output names")
    return [
        {
            "path": file[-PATH_LENGTH:],
            "line": line,
            "function": spectrum.functions.get((file, line), "")[:NAME_LENGTH],
            "score": round(score, 2),
        }
        for score, (file, line) in rank_lines(spectrum, failed, output)[:MOST_SUSPECTS]
    ]


def rank_lines(spectrum: Spectrum, failed: set[str], output: str) -> list[tuple[float, Place]]:
    """Return the lines that failing tests ran, by Ochiai's measure, the most suspicious first.

    Of lines with the same score, those that a trace names come first.
    """
    by_failing: Counter[Place] = Counter()
    by_passing: Counter[Place] = Counter()
    for test, places in spectrum.tests.items():
        (by_failing if test in failed else by_passing).update(places)
    traced = find_traced(spectrum, output)
    ranked = [
        (count / math.sqrt(len(failed) * (count + by_passing[place])), place)
        for place, count in by_failing.items()
        if not TEST_FILE.search(place[0].replace("\\", "/"))
    ]
    return sorted(
        ranked, key=lambda each: (-each[0], each[1] not in traced, each[1][0], each[1][1])
    )


def find_traced(spectrum: Spectrum, output: str) -> set[Place]:
    """Return the lines that a trace names."""
    named = {(path.replace("\\", "/"), int(line)) for path, line in PLACES.findall(output)}
    known = {place for places in spectrum.tests.values() for place in places}
    by_end = {(os.path.basename(path), line) for path, line in named}
    return {place for place in known if (os.path.basename(place[0]), place[1]) in by_end}


# ---- files


def read_json(text: str) -> Spectrum:
    """Read what `coverage json --show-contexts` writes."""
    found = Spectrum()
    files = json.loads(text).get("files")
    for path, each in files.items() if isinstance(files, Mapping) else ():
        for name, region in (each.get("functions") or {}).items():
            for line in region.get("executed_lines") or () if name else ():
                found.functions[path, line] = name
        for line, tests in (each.get("contexts") or {}).items():
            for test in tests:
                if test:  # what ran before the first test
                    found.add(test, (path, int(line)))
    return found


def read_lcov(text: str) -> Spectrum:
    """Read an lcov tracefile, whose records name their tests."""
    found = Spectrum()
    test = path = ""
    for row in text.splitlines():
        key, _, value = row.partition(":")
        if key == "TN":
            test = value.partition(",")[0]
        elif key == "SF":
            path = value
        elif key == "DA" and test:
            line, _, count = value.partition(",")
            if line.isdigit() and count.partition(",")[0] not in ("", "0"):
                found.add(test, (path, int(line)))
    return found


# ---- names of tests


def read_words(name: str) -> tuple[str, ...]:
    """Return the words of a test's name, in which runners and coverage files agree.

    >>> read_words("tests/test_a.py::TestA::test_b[1-2]|run")
    ('tests', 'test_a', 'TestA', 'test_b')
    >>> read_words("tests.test_a.test_b")
    ('tests', 'test_a', 'test_b')
    """
    bare = PARAMETERS.sub("", name).replace(".py::", "::")
    return tuple(word for word in re.split(r"::|[./\\]", bare) if word)


def is_among(words: tuple[str, ...], names: Iterable[tuple[str, ...]]) -> bool:
    """Return whether one of some names ends like this one, or this one like it."""
    return any(
        words[-least:] == name[-least:] for name in names if (least := min(len(words), len(name)))
    )
