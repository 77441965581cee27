"""Read the set of errors that a failure's texts tell, each with its place (pure).

Two failures are compared by these sets rather than by their headlines: of three errors one may be
gone while the headline stays. Line numbers are no part of a place, because a change moves them.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from retries.failures.outputs.failing_tests import FORMS, find_marked, read_failing_tests
from retries.failures.outputs.line_scores import read_line, score_text
from retries.failures.outputs.salience import find_echoed, rank_texts
from retries.failures.outputs.salience_rules import CODED, DIAGNOSED, LINE_LENGTH, STATED, WORDED
from retries.failures.outputs.text_lines import number_lines
from retries.failures.signatures import sign

MOST_ERRORS = 200
# With more failing tests than MOST_ERRORS, each function counts once, up to this many.
MOST_TESTS = 1_000
# the lines after an error that may say where it is, or which symbol it means
PLACE_WITHIN, SYMBOL_WITHIN, MESSAGE_WITHIN = 2, 4, 6
# the most lines without a place that are read, all equally good
MOST_UNPLACED = 10
KEPT_FOLDERS = 3
# the characters at the end of an output that may sum up its tests
SUMMED_UP_WITHIN = 4_000

LEVEL = re.compile(r"\[(?:ERROR|error|FATAL)\]\s{1,4}")  # reads at most 400 characters
# `src/a.ts(10,5): …`, `src/a.c:3:5: …`, `Tax.java:[27,16] …`, `src/a.ts:10:5 - …`;
# reads at most 400 characters
PLACED = re.compile(
    r"((?:[A-Za-z]:)?[\w@~./\\+$()-]{0,299}\w\.[A-Za-z]\w{0,9})"
    r"[:(]\[?\d{1,7}(?:[:,]\d{1,6})?[\])]{0,2}:?\s{1,3}(?:-\s{1,3})?(\S.*)"
)
# a linter's line below its file's name; reads at most 400 characters
LISTED = re.compile(r"\s{0,8}\d{1,7}:\d{1,6}\s{1,9}error\s{1,9}(\S.*)")
# what such lines hold, each found faster in a whole text than by trying every line
AT_PLACE = re.compile(r"\.[A-Za-z]\w{0,9}[:(]\[?\d")
LISTED_LINE = re.compile(r"\n[^\S\n]{0,8}\d{1,7}:\d{1,6}[^\S\n]{1,9}error[^\S\n]")
POINTED_LINE = re.compile(r"\n[^\S\n]{0,9}(?:-->|at)[^\S\n]")
# reads at most 400 characters
FILE_NAME = re.compile(r"(?:[A-Za-z]:)?[\w@~./\\+$-]{1,300}\.\w{1,10}$")
# reads at most 400 characters
POINTED = re.compile(r"\s{0,9}(?:-->|at)\s{1,3}([^\s:]{1,300}):\d{1,7}(?::\d{1,6})?$")
# reads at most 400 characters
SYMBOL = re.compile(r"(?:\[ERROR\])?\s{0,9}symbol:\s{1,9}(\S.*)")
# reads at most 400 characters
COMPILED = re.compile(r"(?:error|fatal error)\b", re.I)
# Numbers, addresses, and durations differ between two runs of one error, and so does a folder;
# reads at most 400 characters
MOVING = re.compile(r"0x[0-9a-fA-F]+|(?<![\w.])\d[\d.,:]*(?:[mnuµ]?s)?(?![\w])|(?:/[\w.+-]+){2,}/")
# They read at most 4,000 characters.
COUNTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^ {0,8}Tests:? +(\d{1,6}) failed\b",
        r"Tests run: \d{1,6}, Failures: (\d{1,6}), Errors: (\d{1,6})",
        r"\bFAILED \(failures=(\d{1,6})(?:, errors=(\d{1,6}))?",
        r"(?<![\w.])(\d{1,6}) (?:tests? )?failed\b",
        r"(?<![\w.])(\d{1,6}) failures?\b",
    )
)


@dataclass(frozen=True, slots=True)
class PlacedError:
    """An error, and where it is: a file or a failing test, or nothing where none is named."""

    place: str
    text: str
    key: str
    is_test: bool = False

    @property
    def function(self) -> str:
        """Return a failing test's name without its parameters."""
        return self.place.partition("[")[0]

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place and self.text else self.place or self.text


@dataclass(frozen=True, slots=True)
class ErrorSet:
    """The errors of a failure by their keys, in order, and the number of failing tests."""

    errors: dict[str, PlacedError]
    failing_tests: int = 0

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.errors)


@lru_cache(maxsize=16)
def read_errors(texts: tuple[str, ...], headline: str, key: str) -> ErrorSet:
    """Return the errors in some texts.

    If none has a place and no test is named, the headline counts, by its signature's key.

    >>> found = read_errors(("a.ts(10,5): error TS2304: Cannot find name 'x'.",), "", "")
    >>> [str(each) for each in found.errors.values()]
    ["a.ts: error TS2304: Cannot find name 'x'."]
    """
    tests: dict[str, PlacedError] = {}
    placed: dict[str, PlacedError] = {}
    for text in texts:
        lines = list_lines(text)
        # The end of an output has the tests that the whole names, some without their files.
        listed = {each.function.rpartition("::")[2] for each in tests.values()}
        for error in find_tests(lines, find_marked(text)):
            if error.function not in listed:
                tests.setdefault(error.key, error)
        for error in find_placed(lines):
            if len(placed) < MOST_ERRORS:
                placed.setdefault(error.key, error)
    if tests:
        # A line such as `test_a.py:7: AssertionError` belongs to a test that is listed already.
        compiled = {k: each for k, each in placed.items() if COMPILED.match(each.text)}
        return ErrorSet(tests | compiled, max(count_failed(texts), len(tests)))
    errors = placed or find_unplaced(texts, headline, key)
    return ErrorSet(errors, count_failed(texts) if headline else 0)


def list_lines(text: str) -> list[str]:
    # The lines of a retry context that the text repeats become empty.
    lines = [line[:LINE_LENGTH] for line in text.split("\n")]
    for number in find_echoed("\n".join(lines)):
        lines[number] = ""
    return lines


# ---- failing tests


def find_tests(lines: Sequence[str], marked: Sequence[int]) -> Iterator[PlacedError]:
    functions: set[str] = set()
    for position, (number, test) in enumerate(read_failing_tests(lines, marked)):
        if len(functions) == MOST_TESTS:
            return
        if position < MOST_ERRORS or test.function not in functions:
            message = find_message(lines, number) if test.message is None else test.message
            yield make_test(test.name, message)
        functions.add(test.function)


def make_test(name: str, message: str) -> PlacedError:
    message = message.strip()
    return PlacedError(name, message, f"{name}\n{mask_moving(message)}", is_test=True)


def find_message(lines: Sequence[str], number: int) -> str:
    for line in lines[number + 1 : number + 1 + MESSAGE_WITHIN]:
        if any(form.match(line) for form in FORMS):
            break
        text = read_line(line)
        if score_text(text) >= WORDED:
            return text
    return ""


def count_failed(texts: Iterable[str]) -> int:
    # The runner's last summary counts.
    for text in texts:
        end = text[-SUMMED_UP_WITHIN:]
        if "fail" in end or "Fail" in end or "FAIL" in end:
            for form in COUNTS:
                if found := form.findall(end):
                    last = found[-1]
                    return sum(map(int, filter(None, [last] if isinstance(last, str) else last)))
    return 0


# ---- errors at a place


def find_placed(lines: Sequence[str]) -> Iterator[PlacedError]:
    """Yield the errors whose own line, or one of the next lines, says where they are."""
    text = "\n" + "\n".join(lines)
    listed = {n: match for n in find_lines(text, LISTED_LINE) if (match := LISTED.match(lines[n]))}
    files = [n for n, line in enumerate(lines) if FILE_NAME.match(line)] if listed else []
    pointed = [n for n in find_lines(text, POINTED_LINE) if POINTED.match(lines[n])]
    before = {n - back for n in pointed for back in range(1, PLACE_WITHIN + 1) if n >= back}
    for number in sorted(before.union(listed, find_lines(text, AT_PLACE))):
        if number in listed:
            at = bisect_left(files, number)
            yield make_placed(lines[files[at - 1]].strip() if at else "", listed[number][1])
        elif not FILE_NAME.match(lines[number]):
            yield from read_placed(lines, number)


def find_lines(text: str, pattern: re.Pattern[str]) -> list[int]:
    # `text` begins with an empty line.
    return [n - 1 for n in number_lines(text, (each.end() for each in pattern.finditer(text)))]


def read_placed(lines: Sequence[str], number: int) -> Iterator[PlacedError]:
    text = read_line(lines[number])
    level = LEVEL.match(text)
    bare = text[level.end() :] if level else text
    if match := PLACED.match(bare):
        if level or score_text(text) >= CODED:
            yield make_placed(match[1], match[2] + find_symbol(lines, number))
    elif COMPILED.match(bare) and DIAGNOSED > score_text(text) >= STATED:
        for after in lines[number + 1 : number + 1 + PLACE_WITHIN]:
            if match := POINTED.match(after):
                yield make_placed(match[1], bare)
                break


def find_symbol(lines: Sequence[str], number: int) -> str:
    if "symbol" not in lines[number]:
        return ""
    for line in lines[number + 1 : number + 1 + SYMBOL_WITHIN]:
        if match := SYMBOL.match(line):
            return f": {' '.join(match[1].split())}"
    return ""


def make_placed(place: str, text: str) -> PlacedError:
    text = " ".join(text.split())
    parts = re.split(r"[/\\]", place.removeprefix("./"))
    # An absolute path differs between two checkouts of one project.
    is_absolute = place.startswith(("/", "~")) or place[1:2] == ":"
    known = "/".join(parts[-KEPT_FOLDERS:] if is_absolute else parts)
    return PlacedError(place, text, f"{known}\n{mask_moving(text)}")


def mask_moving(text: str) -> str:
    """Return a message without the parts that differ between two runs.

    >>> mask_moving("E501 line 12 in /tmp/a1/b.py took 3.2ms")
    'E501 line # in #b.py took #'
    """
    return MOVING.sub("#", text)


def find_unplaced(texts: tuple[str, ...], headline: str, key: str) -> dict[str, PlacedError]:
    if not headline:
        return {}
    errors = {key: PlacedError("", headline, key)}
    ranked = rank_texts(texts) if texts else []
    # Of exceptions the best line alone counts: the others of a trace lead to it.
    if ranked and CODED <= ranked[0].score <= STATED:
        best = [line for line in ranked if line.score == ranked[0].score]
        for line in best[1:MOST_UNPLACED]:
            if (other := sign(line.text).key) not in errors:
                errors[other] = PlacedError("", line.text, other)
    return errors
