"""Find the failing tests in the output of a test runner (pure)."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from retries.failures.outputs.line_scores import score_text
from retries.failures.outputs.own_frames import shorten_path
from retries.failures.outputs.salience_rules import LINE_LENGTH, SUMMARY
from retries.failures.outputs.text_lines import choose_possible, number_lines

# what the lines below start with; others are not searched
MARKS = (
    "FAIL",
    "ERROR",
    "\u25cf ",
    "not ok ",
    " stdout ----",
    "\u2715",
    "\u2716",
    "\u2717",
    "\u2718",
    "Failed ",
    "rspec ",
    "___ ",
    "1) ",
    "\u00d7 ",
)
# pytest's own list, with file, parameters, and message; reads at most 400 characters
LISTED_TEST = re.compile(
    r"^(?:FAILED|ERROR) ([^\s:]{1,300}(?:::[^\s:\[]{1,300}){1,9}(?:\[[^\n]{0,300}?\])?)"
    r"(?: - ([^\n]{1,400}))?$"
)
# The most specific forms come first. Each has one group, the name.
FORMS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # pytest: its summary, else its header
        r"^(?:FAILED|ERROR) \S{1,300}?::(\S{1,300}?)(?:\[[^\n]{0,300}\])?(?: - |$)",
        r"^_{3,} (?!ERROR)([\w.]{1,200})(?:\[[^\n]{0,300}\])? _{3,}$",
        r"^(?:FAIL|ERROR): (\w{1,200}) \(",  # unittest
        r"^ *--- FAIL: (\S{1,300}) \(",  # go
        r"^---- (\S{1,300}) stdout ----$",  # cargo
        r"^test (\S{1,300}) \.\.\. FAILED$",
        r"^ *\u25cf (?!Console|Test suite)(\S[^\n]{0,300})$",  # jest
        r"^ FAIL +\S+ > ([^\n]{1,300})$",  # vitest
        r"^\[ERROR\] +([\w.$]{1,300})(?::\d+| -- | +Time elapsed)",  # maven
        r"^(\w[\w.$]{0,200} > [\w.$()]{1,200}) FAILED$",  # gradle
        r"^ *Failed ([\w.]{1,300})(?:\([^\n]{0,200}\))? \[",  # dotnet
        r"^rspec \S{1,300} # ([^\n]{1,300})$",
        r"^\[ +FAILED +\] ([\w./]{1,300})",  # googletest
        r"^not ok \d+ (?:- )?([^\n#]{1,300})",  # TAP
        r"^ *[\u2715-\u2718\u00d7] +(?:\d+ )?(\S[^\n]{0,200}?)(?: \([\d.]+ ?m?s\))?$",
        r"^ *1\) (\w[\w\\]{0,200}::\w{1,200})",  # phpunit
    )
)
# the file of a failing test, the most specific forms first
FILES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:FAILED|ERROR) (\S{1,300}?)::",
        r"^(?:FAIL|ERROR): \w{1,200} \(([\w.]{1,300})\)",  # unittest
        r"^ ?FAIL {1,4}([\w@./\\-]{1,300}\.\w{1,5})(?: |$)",  # jest, vitest
        r"^rspec (\S{1,300}?):\d",
        r"^ *[\u2715-\u2718\u00d7] [^\n]{0,100}?([\w@./\\-]{1,200}\.(?:spec|test)\.\w{1,4})",
        r"^ {4,12}([\w./-]{1,200}_test\.go):\d",
        r"^FAIL\t(\S{1,300})\t",  # go's package
        r"panicked at (?:'[^\n]{0,300}', )?([\w./\\-]{1,300}\.rs):\d",
        r"^\[ERROR\] +([\w.$]{1,300})(?::\d+| -- | +Time elapsed)",
        r"^([\w./\\-]{1,200}\.(?:cc|cpp|cxx)):\d+: Failure",  # googletest
        r"^([\w./\\-]{1,200}\.py):\d+: [A-Z]\w{1,80}$",
        r"(?<![\w@./\\-])([\w@./\\-]{1,200}\.(?:spec|test)\.\w{1,4}):\d",
    )
)
# the line and the column in a test's title, and the time that the test took
MOVING = re.compile(r":\d{1,6}(?::\d{1,6})?(?=\s|$)| \(\d[\d.]{0,10} ?\w{1,7}\)$")


def find_failing_test(*texts: str) -> str:
    """Return the name of the first failing test, without parameters, or an empty string.

    >>> find_failing_test("FAILED tests/test_a.py::TestA::test_b[1-2] - assert 1 == 2")
    'TestA.test_b'
    """
    for text in texts:
        if marked := find_marked(text):
            lines = text.split("\n")
            told = "\n".join(lines[number] for number in marked)
            for form in FORMS:
                if found := form.search(told):
                    return MOVING.sub("", found[1]).strip().replace("::", ".")
    return ""


class FailingTest(NamedTuple):
    """A failing test as its line names it, and the message there, or None for a bare name."""

    name: str
    message: str | None

    @property
    def function(self) -> str:
        return self.name.partition("[")[0]


def read_failing_tests(
    lines: Sequence[str], marked: Sequence[int]
) -> Iterator[tuple[int, FailingTest]]:
    """Yield the failing tests that a runner lists, with the numbers of their lines.

    Only the `marked` lines are read, and the first form that has any counts.

    >>> lines = ["FAILED test_a.py::test_b[1] - assert 0", "FAILED (failures=1)"]
    >>> list(read_failing_tests(lines, (0, 1)))
    [(0, FailingTest(name='test_a.py::test_b[1]', message='assert 0'))]
    """
    score = cache(score_text)  # for lines that are repeated
    read = [(number, lines[number][:LINE_LENGTH]) for number in marked]
    for form in (LISTED_TEST, *FORMS):
        has_found = False
        for number, line in read:
            match = form.match(line)
            if match and score(match[0].strip()) != SUMMARY:
                message = match[2] or "" if form is LISTED_TEST else None
                yield number, FailingTest(match[1].strip(), message)
                has_found = True
        if has_found:
            return


def list_marked(text: str) -> tuple[int, ...]:
    """Return the numbers of the lines that hold a mark: the forms match in no others.

    >>> list_marked("ok\\nFAILED a.py::test_b\\nFAILED, ERROR")
    (1, 2)
    """
    found = []
    for mark in choose_possible(MARKS, text):
        at = text.find(mark)
        while at >= 0:
            found.append(at)
            end = text.find("\n", at)
            at = text.find(mark, end) if end >= 0 else -1
    return tuple(number_lines(text, sorted(found)))


# for stored outputs, which several readers search
find_marked = lru_cache(maxsize=16)(list_marked)


def find_test_file(*texts: str) -> str:
    """Return the last two parts of the first failing test's file, or an empty string.

    >>> find_test_file("FAILED tests/test_a.py::TestA::test_b[1-2] - assert 1 == 2")
    'tests/test_a.py'
    """
    for text in texts:
        for form in FILES:
            if found := form.search(text):
                return shorten_path(found[1])
    return ""
