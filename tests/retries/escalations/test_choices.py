"""Parse an answer from one line of text."""

import pytest

from ledger.errors import Invalid
from retries.escalations.choices import Choice, parse
from retries.states import Answer


@pytest.mark.parametrize(
    ("line", "choice"),
    [
        ("retry", Choice(Answer.RETRY)),
        (" skip\n", Choice(Answer.SKIP)),
        ("abort", Choice(Answer.ABORT)),
        ("fix: trim first", Choice(Answer.FIX, fix="trim first")),
        ("fix:trim and test ", Choice(Answer.FIX, fix="trim and test")),
        ("answer: b, please", Choice(Answer.ANSWER, fix="b, please")),
    ],
)
def test_a_line_is_parsed_strictly(line: str, choice: Choice) -> None:
    """S1.47"""
    assert parse(line) == choice


@pytest.mark.parametrize(
    "line",
    [
        *("", "answer", "answer: ", "Retry", "retry please", "fix", "fix:", "fix: \n", "ok", "yes"),
        *("\nretry", "skip\n\n", "fix:\ntrim", "fix: trim\nand test", "fix: trim\r\nskip"),
    ],
)
def test_any_other_text_is_refused(line: str) -> None:
    with pytest.raises(Invalid, match="retry"):
        parse(line)
