"""Score one line of a program's output (pure): how well it tells the cause."""

import re
from collections.abc import Callable
from typing import Any

from retries.failures.outputs.salience_rules import (
    ASSERTED,
    CAUSE_HEADER,
    FORMS,
    FRAME,
    HEADER,
    HEADING,
    HINT,
    HINTS,
    LINE_LENGTH,
    LOWER,
    MARGIN,
    NAMED,
    NOISE,
    NPM,
    PASSED,
    PASSED_END,
    PASSED_ENDS,
    PASSED_WORD,
    PLAIN,
    PREFIX,
    PROGRESS,
    RAISED_IN_TEST,
    RULER,
    SETTING,
    SOURCE,
    STATED,
    STRONG,
    STRONGLY,
    SUMMARIES,
    SUMMARY,
    SUMMARY_WITHIN,
    SUMMARY_WORDS,
    SYSTEM,
    SYSTEM_SAYS,
    SYSTEM_WORDS,
    TELLING_WORDS,
    TEST,
    VALUE,
    VALUES,
    WEAK,
    WEAKLY,
)


def read_rules(
    *rules: tuple[int, re.Pattern[str]],
) -> tuple[tuple[int, Callable[[str], Any], bool], ...]:
    """Return the rules to apply: score, match, and whether the match reads text in lower case."""
    return tuple((score, pattern.match, pattern in LOWER) for score, pattern in rules)


FIRST = read_rules((NOISE, RULER), (NOISE, FRAME), (NOISE, PASSED))
NOT_TELLING = read_rules((HINT, HINTS), (NOISE, SOURCE), (NOISE, SETTING), (NOISE, PROGRESS))
MATCHED = read_rules(*FORMS)


def read_line(line: str) -> str:
    # Only a line's start is read, without the margins that tools write.
    line = line[:LINE_LENGTH]
    prefix = PREFIX.match(line)
    return line[prefix.end() if prefix else 0 :].strip()


def score_line(line: str) -> int:
    """Return the score of a line by itself.

    >>> score_line("E   assert 3 == 4"), score_line("src/a.c:3:5: error: no"), score_line("ok 12")
    (97, 92, 5)
    """
    if margin := MARGIN.match(line):
        return score_margin(line[margin.end() : LINE_LENGTH])
    return score_text(read_line(line))


def score_text(text: str) -> int:
    lower = text.lower()
    texts = (text, lower)
    for score, match, is_lower in FIRST:
        if match(texts[is_lower]):
            return score
    if is_passed(text):
        return NOISE
    if is_summary(lower):
        return SUMMARY
    for score, match, is_lower in NOT_TELLING:
        if match(texts[is_lower]):
            return score
    if is_header(text):
        return HEADING
    for score, match, is_lower in MATCHED:
        if match(texts[is_lower]):
            return score
    if npm := NPM.match(text):
        return max(WEAK, score_line(text[npm.end() :]))
    if TEST.match(text):
        return NAMED
    if VALUE.match(lower):
        return VALUES
    for word in TELLING_WORDS:
        if word in lower:
            break
    else:
        return PLAIN
    for word in SYSTEM_WORDS:  # faster than any()
        if word in lower:
            if SYSTEM_SAYS.search(lower):
                return SYSTEM
            break
    if STRONGLY.search(lower):
        return STRONG
    return WEAK if WEAKLY.search(lower) else PLAIN


def score_margin(text: str) -> int:
    # pytest marks the line with an E, which `text` does not have.
    if RAISED_IN_TEST.match(text):
        return ASSERTED
    return STATED if WEAKLY.search(text.lower()) else VALUES


def is_header(text: str) -> bool:
    if not text.endswith(":"):
        return text.startswith(("ERROR in ", "Problem ")) and HEADER.match(text.lower()) is not None
    return is_cause_header(text) or HEADER.match(text.lower()) is not None


def is_cause_header(text: str) -> bool:
    return CAUSE_HEADER.match(text.lower()) is not None


def is_passed(text: str) -> bool:
    if ("PASS" in text or "SKIPPED" in text or "XFAIL" in text) and PASSED_WORD.search(text):
        return True
    return text[-1:] in PASSED_ENDS and PASSED_END.search(text) is not None


def is_summary(lower: str) -> bool:
    # Only a line with a summary's word is searched.
    if SUMMARIES.match(lower):
        return True
    for word in SUMMARY_WORDS:
        if word in lower:
            return SUMMARY_WITHIN.search(lower) is not None
    return False
