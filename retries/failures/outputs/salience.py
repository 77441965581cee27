"""Find the lines of a program's output that tell the cause of a failure (pure).

One scorer serves the headline of a failure, its pattern, what is stored of a long output, and the
retry context. The time is bounded for any text: of a long one, the lines that hold a telling stem
are scored, and of the lines that are alike the first few.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ledger.values.text import truncate
from retries.failures.outputs.line_context import Line, clean_start, rank, score_context, scored
from retries.failures.outputs.line_scores import read_line
from retries.failures.outputs.long_lines import break_long_lines
from retries.failures.outputs.salience_rules import LINE_LENGTH, MARGIN, VALUES
from retries.failures.outputs.text_lines import TextLines, choose_possible

# Every line of a text up to this length is scored, and in a longer one those with a stem.
SHORT_TEXT = 4_096
# Up to this length the lines are listed, and compared with each other before a stem is looked for.
MEDIUM_TEXT = 262_144
# The ranked lines of a text up to this length, such as a stored output, are cached.
CACHED_TEXT = 65_536
# the lines that are scored for one stem: this many from the start, and as many from the end
MOST_OF_A_STEM = 400
MOST_TRIES = 20_000
# the lines of each of several texts that are ranked together: more have no room in an excerpt
MOST_OF_A_TEXT = 400
# lines that differ in digits alone count from the third on as repeated
MOST_ALIKE = 2
VALUES_WITHIN = 8

# What telling lines hold, in lower case. A stem within a name does not count, unless it ends with
# a colon or the line: `MemoryError` is one.
STEMS = (
    *("error", "error:", "error\n", "fail", "exception", "exception:", "panic", "fatal", "trace"),
    *("caused", "assert", "expected", "thrown:", "conflict", "refused", "cannot", "could", "***"),
    *("unexpected", "missing", "not", "no", "invalid", "undefined", "denied", "timed", "unbound"),
    *("exceed", "must", "would", "unable", "\ne  "),
)
# In a text longer than LONG_TEXT these are searched at its ends only, which saves half of the time.
RARE_STEMS = (
    *("** (", "undeclared", "oom", "killed", "segmentation", "wrong", "can't", "timeout", "abort"),
    *("reject", "unknown", "unresolved", "illegal", "mismatch", "expired", "unsupported", "crash"),
    *("forbidden", "backoff", "unauthorized", "insufficient", "duplicate", "econn", "locked"),
    *("lock file", "lockfile", "violat", "diverge", "pending", "requires", "mutex", "too "),
    *("permission", "whitespace", "got", "[cause]", "during handling", "above exc"),
    *(".go:", ".py:", ".rb:", ".ts:", ".js:", ".c:", ".rs:"),
)
LONG_TEXT, LONG_START, LONG_END = 1_048_576, 131_072, 524_288
# before a stem they make it a part of a name: `test_error`, `--fail-fast`, `src/errors`
NAME_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_./-")
COUNT_BYTES = frozenset(b"s=_(/-")  # after one: `errors=0`, `error_log`
NEWLINE = 10
BETWEEN_TEXTS = "\n\n"
ECHO_START, ECHO_END = "<retry_context ", "</retry_context>"
NO_DIGITS = str.maketrans("", "", "0123456789")


def rank_lines(text: str, lines: Sequence[str] | None = None) -> list[Line]:
    """Return the lines that may tell the cause, the best first.

    The pieces of a very long line count as lines.
    """
    # Of equal lines the first counts, since later errors often follow from it; of the exceptions of
    # a chain the last one does.
    if len(text) <= CACHED_TEXT:
        return list(rank_stored(text))
    broken = break_long_lines(text)
    return rank_all(broken, (lines if broken is text else None) or split_lines(broken))


def rank_texts(texts: Sequence[str]) -> list[Line]:
    """Return the lines of joined texts that may tell the cause, the best first.

    An empty line separates the texts, and counts.
    """
    # Each text is ranked by itself, because its ranked lines may be cached. A line that is often
    # enough in an earlier text is left out of a later one.
    if len(texts) == 1:
        return rank_lines(texts[0])
    alike: Counter[str] = Counter()
    found: list[Line] = []
    first = 0
    for text in texts:
        ranked = rank_lines(text)[:MOST_OF_A_TEXT]
        shapes = [line.text.translate(NO_DIGITS) for line in ranked]
        found += [
            Line(first + number, said, score)
            for (number, said, score), shape in zip(ranked, shapes, strict=True)
            if alike[shape] < MOST_ALIKE
        ]
        alike.update(shapes)
        first += break_long_lines(text).count("\n") + len(BETWEEN_TEXTS)
    return sorted(found, key=rank)


@lru_cache(maxsize=16)
def rank_stored(text: str) -> tuple[Line, ...]:
    # Each reader of a stored text needs its ranked lines.
    broken = break_long_lines(text)
    return tuple(rank_all(broken, split_lines(broken)))


def rank_all(text: str, lines: Sequence[str]) -> list[Line]:
    found = score_lines(text, lines)
    score_context(lines, found)
    return sorted(found.values(), key=rank)


def split_lines(text: str) -> Sequence[str]:
    return text.split("\n") if len(text) <= MEDIUM_TEXT else TextLines(text)


def score_lines(text: str, lines: Sequence[str]) -> dict[int, Line]:
    # A line like earlier ones has a low score.
    alike: Counter[str] = Counter()
    found = {}
    echoed = find_echoed(text)
    for number in select_lines(text, lines):
        line = lines[number]
        start = line[:LINE_LENGTH].strip()
        if not start or number in echoed:
            continue
        shape = start.translate(NO_DIGITS)
        alike[shape] += 1
        if alike[shape] <= MOST_ALIKE:
            found[number] = scored(number, line)
    return found


def find_echoed(text: str) -> set[int]:
    # Retry contexts that an agent printed tell of earlier failures.
    found: set[int] = set()
    at, number, counted = text.find(ECHO_START), 0, 0
    while at >= 0:
        first = number = number + text.count("\n", counted, at)
        counted = text.find(ECHO_END, text.rfind("\n", 0, at) + 1)
        if counted < 0:
            return set()
        number += text.count("\n", at, counted)
        found.update(range(first, number + 1))
        line_end = text.find("\n", max(at, counted))
        at, counted = text.find(ECHO_START, line_end) if line_end >= 0 else -1, line_end
    return found


def clean_margin(line: str) -> str:
    margin = MARGIN.match(line)
    return clean_start(line[margin.end() : LINE_LENGTH].strip() if margin else read_line(line))


def select_lines(text: str, lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines to score: all of a short text, else those with a stem."""
    # In a text up to MEDIUM_TEXT, only the first of the lines that differ in digits alone are read.
    if len(text) <= SHORT_TEXT:
        return list(range(len(lines)))
    # one byte per character, so that positions stay; letters beyond ASCII are in no stem
    lower = text.encode("ascii", "replace").lower()
    if len(text) > MEDIUM_TEXT:
        known = lines if isinstance(lines, TextLines) else TextLines(text)
        return sorted(find_stems(lower, known))
    numbers = select_different(lower)
    parts = [lines[number] for number in numbers]
    rest = "\n".join(parts)
    if len(rest) <= SHORT_TEXT:
        return numbers
    found = find_stems(rest.encode("ascii", "replace").lower(), TextLines(rest))
    return [numbers[number] for number in sorted(found)]


def select_different(lower: bytes) -> list[int]:
    shapes: list[bytes | None] = [*lower.translate(None, b"0123456789").split(b"\n")]
    found: list[int] = []
    for _ in range(MOST_ALIKE):
        # The last value of a key stays, so that the lines in reverse order leave the first.
        first = dict(zip(reversed(shapes), range(len(shapes) - 1, -1, -1), strict=True))
        first.pop(None, None)
        found += first.values()
        for number in first.values():
            shapes[number] = None
    return sorted(found)


def find_stems(lower: bytes, lines: TextLines) -> set[int]:
    """Return the numbers of the lines that hold a stem, at most 2 * MOST_OF_A_STEM for each."""
    ends = [(0, len(lower))]
    if len(lower) > LONG_TEXT:
        ends = [(0, LONG_START), (len(lower) - LONG_END, len(lower))]
    found: set[int] = set()
    absent: list[bytes] = []
    for stem in choose_possible(map(str.encode, STEMS), lower):
        if any(each in stem for each in absent):
            continue
        first = lower.find(stem)
        if first >= 0:
            found |= find_stem(lower, stem, lines, first, len(lower))
        else:
            absent.append(stem)
    for stem in choose_possible(map(str.encode, RARE_STEMS), lower):
        for first, last in ends:
            found |= find_stem(lower, stem, lines, first, last)
    return found


def find_stem(lower: bytes, stem: bytes, lines: TextLines, first: int, last: int) -> set[int]:
    before = NAME_BYTES if stem[-1:] not in b":\n" else b""
    after = COUNT_BYTES if stem == b"error" else b""
    found: set[int] = set()
    at, tries = lower.find(stem, first, last), 0
    while at >= 0 and len(found) < MOST_OF_A_STEM and tries < MOST_TRIES:
        tries += 1
        if is_name(lower, at, len(stem), before, after):
            at = lower.find(stem, at + 1, last)
            continue
        number = lines.number_at(at + (stem[0] == NEWLINE))
        found.add(number)
        at = lower.find(stem, lines.start_of(number + 1) - 1, last)
    if at < 0:
        return found
    at, tries, most = lower.rfind(stem, first, last), 0, len(found) + MOST_OF_A_STEM
    while at >= 0 and len(found) < most and tries < MOST_TRIES:
        tries += 1
        if is_name(lower, at, len(stem), before, after):
            at = lower.rfind(stem, first, at + len(stem) - 1)
            continue
        number = lines.number_at(at + (stem[0] == NEWLINE))
        found.add(number)
        at = lower.rfind(stem, first, lines.start_of(number))
    return found


def is_name(
    lower: bytes, at: int, length: int, before: Container[int], after: Container[int]
) -> bool:
    end = at + length
    return (at > 0 and lower[at - 1] in before) or (end < len(lower) and lower[end] in after)


# ---- the headline


@dataclass(frozen=True, slots=True)
class Headline:
    """The line that best tells the cause, and the values that were compared, if any."""

    cause: str = ""
    values: tuple[str, ...] = ()
    score: int = 0

    def __str__(self) -> str:
        return truncate("; ".join((self.cause, *self.values)), LINE_LENGTH)


def find_headline(*texts: str) -> Headline:
    """Return the headline of a failure from the best line of all its texts.

    >>> str(find_headline("FAIL a.test.ts\\nError: Cannot find module 'uuid'", "exit code 1"))
    "Error: Cannot find module 'uuid'"
    """
    best = Headline()
    for text in texts:
        ranked = rank_lines(text)
        if ranked and ranked[0].score > best.score:
            best = Headline(ranked[0].text, find_values(ranked), ranked[0].score)
    return best if best.score else Headline(find_last_line(texts))


def split_at_cause(text: str, headline: Headline) -> tuple[str, str, str]:
    """Return the text before the line that a headline comes from, the line, and the text after it.

    If the line is not in the text, all of the text is before it.

    >>> split_at_cause("ok\\nE  boom: no\\nend", Headline("boom: no"))
    ('ok\\n', 'E  boom: no\\n', 'end')
    """
    ranked = rank_lines(text)
    best = next((line for line in ranked if line.text == headline.cause), None)
    if best is None:
        return text, "", ""
    lines = break_long_lines(text).split("\n")  # each newline is in the place of one character
    start = sum(len(line) + 1 for line in lines[: best.number])
    end = start + len(lines[best.number]) + 1
    return text[:start], text[start:end], text[end:]


def find_last_line(texts: Iterable[str]) -> str:
    for text in texts:
        if text.strip():
            return clean_margin(text.rstrip()[-LINE_LENGTH:].rpartition("\n")[2])
    return ""


def find_values(ranked: list[Line]) -> tuple[str, ...]:
    # These lines say what was expected and what was found.
    first = ranked[0].number
    near = (line for line in ranked if first < line.number <= first + VALUES_WITHIN)
    rows = sorted((line for line in near if line.score == VALUES), key=lambda line: line.number)
    return tuple(" ".join(line.text.split()) for line in rows[:2])
