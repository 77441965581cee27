"""Score the lines of a program's output by what stands around them (pure)."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ledger.secrets.redaction import ESCAPES
from retries.failures.outputs.chains import CAUSE, CONSEQUENCE, MOST_SEARCHED, find_chains
from retries.failures.outputs.line_scores import (
    is_cause_header,
    read_line,
    score_margin,
    score_text,
)
from retries.failures.outputs.salience_rules import (
    ANNOUNCED,
    BARE_CODE,
    BARE_EXCEPTION,
    DIAGNOSED,
    FINAL,
    HEADING,
    LINE_LENGTH,
    MARGIN,
    NAMED,
    PLAIN,
    RAISED,
    STATED,
    SUMMARY,
    WEAK,
    WORDED,
)

TRACEBACK = "Traceback (most recent call last)"
CAUSED_BY = re.compile(r"^(?:Caused by:? |\[cause\]: )(?=\S)")
CHAINED = re.compile(r"\s*(?:During handling of the above|The above exception was the)\b")
MOST_TRACE_LINES = 500


class Line(NamedTuple):
    """A line that was scored: its number from 0, what was read of it, and its score."""

    number: int
    text: str
    score: int


def rank(line: Line) -> tuple[int, int]:
    return -line.score, -line.number if line.score == FINAL else line.number


def score_context(lines: Sequence[str], found: dict[int, Line]) -> None:
    for number in find_trace_ends(lines, found):
        found[number] = found[number]._replace(score=max(FINAL, found[number].score))
    demote_chained(lines, found)
    demote_announcing(lines, found)
    promote_announced(lines, found)
    join_messages(lines, found)
    rank_causes(found)


def find_trace_ends(lines: Sequence[str], found: dict[int, Line]) -> list[int]:
    # The line that ends a trace names the exception.
    ends = []
    for number in [n for n, line in found.items() if TRACEBACK in line.text]:
        indent = len(lines[number]) - len(lines[number].lstrip())
        if not lines[number].startswith(TRACEBACK, indent):
            continue  # a log's prefix stands before it
        for at in range(number + 1, min(number + MOST_TRACE_LINES, len(lines))):
            line = lines[at]
            if line.strip() and not line[indent : indent + 1].isspace():
                found.setdefault(at, scored(at, line))
                ends.append(at)
                break
    return ends


def demote_chained(lines: Sequence[str], found: dict[int, Line]) -> None:
    raised = sorted(n for n, line in found.items() if line.score >= RAISED)
    for number in [n for n, line in found.items() if CHAINED.match(lines[n])]:
        before = bisect_right(raised, number) - 1
        if before >= 0:
            earlier = raised[before]
            found[earlier] = found[earlier]._replace(score=WORDED)


def demote_announcing(lines: Sequence[str], found: dict[int, Line]) -> None:
    # A line such as `Unable to compile:` only announces the diagnostic that follows it.
    for number in [n for n, line in found.items() if line.score >= WORDED]:
        if found[number].text.endswith(":"):
            after = next(next_lines(lines, number), None)
            if after in found and found[after].score >= DIAGNOSED:
                found[number] = found[number]._replace(score=HEADING)


def promote_announced(lines: Sequence[str], found: dict[int, Line]) -> None:
    # A header such as `error during build:` announces the lines that tell the cause.
    for number in [n for n, line in found.items() if line.score == HEADING]:
        always, promoted = is_cause_header(found[number].text), False
        for after in next_lines(lines, number):
            line = found.get(after) or scored(after, lines[after])
            if line.score in (SUMMARY, HEADING):
                continue
            if line.score >= (PLAIN if always else WEAK) and line.score != NAMED:
                found[after] = line._replace(score=max(ANNOUNCED, line.score))
                promoted = True
            break
        # `error: These files would be overwritten:` tells the cause if what follows does not
        score = 0 if promoted else score_text(found[number].text[:-1])
        if score >= STATED:
            found[number] = found[number]._replace(score=score)


def rank_causes(found: dict[int, Line]) -> None:
    telling = sorted((line for line in found.values() if line.score >= WEAK), key=rank)
    best = [line.number for line in telling[:MOST_SEARCHED]]
    causes, consequences = find_chains({n: line.text for n, line in found.items()}, best)
    for number in causes:
        found[number] = found[number]._replace(score=max(CAUSE, found[number].score))
    for number in consequences:
        found[number] = found[number]._replace(score=min(CONSEQUENCE, found[number].score))


def join_messages(lines: Sequence[str], found: dict[int, Line]) -> None:
    # An exception's class or an error's code may stand alone, with the message in the next line.
    for number in [n for n, line in found.items() if line.score >= RAISED or line.text[-1:] == "]"]:
        said = found[number].text.removeprefix("# ")
        has_code = BARE_CODE.match(said)
        if not (has_code or BARE_EXCEPTION.match(said)):
            continue
        after = next(next_lines(lines, number), None)
        line = lines[number]
        if after is None or not (has_code or said.endswith(":") or line[:1].isspace()):
            continue
        message = found.get(after) or scored(after, lines[after])
        if lines[after][:1] in " \t#" and message.score >= PLAIN:
            text = f"{said.rstrip(':')}: {message.text.lstrip('# ')}"[:LINE_LENGTH]
            found[number] = found[number]._replace(text=text)


def next_lines(lines: Sequence[str], number: int) -> Iterator[int]:
    # Of nested headers, the innermost one counts.
    after = number + 1
    for _ in range(3):
        while after < len(lines) and not lines[after].strip():
            after += 1
        while after + 1 < len(lines) and is_nested(lines[after], lines[after + 1]):
            after += 1
        if after >= len(lines) or after > number + 8:
            return
        yield after
        after += 1


def is_nested(line: str, after: str) -> bool:
    outer, inner = line[:LINE_LENGTH].lstrip(), after[:LINE_LENGTH].lstrip()
    deeper = len(after) - len(after.lstrip()) > len(line) - len(line.lstrip())
    return inner.startswith("> ") and (deeper or not outer.startswith("> "))


def scored(number: int, line: str) -> Line:
    line = line[: 2 * LINE_LENGTH]
    if "\x1b" in line:
        line = ESCAPES.sub("", line)
    if margin := MARGIN.match(line):
        text = line[margin.end() : LINE_LENGTH]
        return Line(number, clean_start(text.strip()), score_margin(text))
    text = read_line(line)
    return Line(number, clean_start(text), score_text(text))


def clean_start(text: str) -> str:
    return CAUSED_BY.sub("", text, count=1)
