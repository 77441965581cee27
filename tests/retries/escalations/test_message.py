"""The message of an escalated task, byte for byte."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retries.escalations.message import SENTENCES, AttemptRow, Facts, FileStatus, render_message
from retries.states import Reason


def at(minute: int) -> datetime:
    return datetime(2026, 1, 26, 14, minute, 51, tzinfo=UTC)


SAMPLE = """## Task Escalation Required

**Task:** Task 3: Create InvalidPlannerIdError class
**Plan:** 03-01
**Attempts:** 3 of 3

### Failure Summary

This task has failed 3 times. Automated recovery has been exhausted.

### Attempt History

| Attempt | Timestamp | Failure Type | Error |
|---------|-----------|--------------|-------|
| 1 | 2026-01-26 14:30 | verification_failed | 2 tests failed |
| 2 | 2026-01-26 14:32 | verification_failed | 1 test failed |
| 3 | 2026-01-26 14:35 | verification_failed | Edge case not handled |

### Last Error Details

```
FAIL tests/PlannerId.test.ts
  - Expected InvalidPlannerIdError to be thrown for whitespace-only input
  - Received: undefined
```

### Files Modified (Partial State)

- `src/domain/PlannerId.ts` - Modified but incomplete
- `tests/PlannerId.test.ts` - Tests added

### Suggested Actions

1. **Review task definition** - Is <done> criteria achievable?
2. **Check test expectations** - Are tests correct?
3. **Manual intervention** - Fix the specific issue
4. **Skip task** - Mark as skipped and continue
5. **Abort plan** - Stop execution entirely

---

**Your options:**
- `retry` - Try one more time (resets counter)
- `skip` - Skip this task, continue with next
- `abort` - Stop plan execution
- `fix: <instruction>` - Provide specific fix instruction"""

STORY = Facts(
    name="Task 3: Create InvalidPlannerIdError class",
    plan="03-01",
    attempts=3,
    limit=3,
    failed=3,
    reason="max_retries_exceeded",
    rows=[
        AttemptRow(1, at(30), "verification_failed", "2 tests failed"),
        AttemptRow(2, at(32), "verification_failed", "1 test failed"),
        AttemptRow(3, at(35), "verification_failed", "Edge case not handled"),
    ],
    details="FAIL tests/PlannerId.test.ts\n"
    "  - Expected InvalidPlannerIdError to be thrown for whitespace-only input\n"
    "  - Received: undefined\n",
    files=[
        FileStatus("src/domain/PlannerId.ts", "partially_modified"),
        FileStatus("tests/PlannerId.test.ts", "tests_added"),
    ],
)


def test_the_message_equals_the_sample() -> None:
    """S1.38 to S1.43"""
    assert render_message(STORY) == SAMPLE


@pytest.mark.parametrize("reason", [each for each in Reason if each != Reason.INSTRUCTION_IGNORED])
def test_the_second_sentence_names_the_reason(reason: Reason) -> None:
    """S1.36, S1.39"""
    said = render_message(replace(STORY, reason=str(reason), failed=1))
    assert f"\n\nThis task has failed 1 time. {SENTENCES[reason]}\n\n" in said
    assert len(set(SENTENCES.values())) == len(SENTENCES)


def test_an_unknown_reason_is_shown_unchanged() -> None:
    assert "has not failed. The reason is too hot.\n" in render_message(
        replace(STORY, reason="too_hot", failed=0)
    )


def test_skip_names_the_dependents() -> None:
    """S1.51"""
    one = render_message(replace(STORY, dependents=["Write the docs"]))
    assert "continue with next (1 task depends on it: Write the docs)\n" in one
    many = render_message(replace(STORY, dependents=[f"No {n}" for n in range(12)]))
    assert "(12 tasks depend on it: No 0, " in many and "No 9, and 2 more)\n" in many


def test_a_question_is_quoted() -> None:
    asked = render_message(
        replace(STORY, reason="agent_question", failed=0, question="Which?\n## a or b")
    )
    assert (
        "This task has not failed. Its agent asks a question.\n\n> Which?\n> ## a or b\n" in asked
    )


def test_a_question_tells_of_failures_only_if_there_were_any() -> None:
    """RTY-12: it has its own heading and options, and no advice about failures."""
    asks = replace(STORY, reason="agent_question", question="Which?", answers=[], rows=[])
    first = render_message(replace(asks, failed=0))
    headings = [line for line in first.splitlines() if line.startswith("#")]
    assert headings == ["## Task Escalation Required", "### Question"]
    assert "> Which?\n\n---\n\n**Your options:**\n- `answer: <words>` - " in first
    later = render_message(replace(asks, rows=STORY.rows))
    assert "This task has failed 3 times. Its agent asks a question." in later
    assert "### Last Error Details" in later and "Suggested Actions" not in later


def test_hostile_output_stays_in_its_place() -> None:
    """An error can't end its cell, its row, its fence or its line."""
    hostile = "a | b \\| c\n| 9 | forged | row |"
    said = render_message(
        replace(
            STORY,
            name="x\n\n## Forged",
            rows=[
                AttemptRow(1, at(1), "timeout", hostile),
                AttemptRow(2, at(2), "timeout", "y" * 9000),
            ],
            details="before\n```\n````\n## out",
            files=[FileStatus("a`b\n- `c`", "moved\n# x")],
        )
    )
    assert "| 1 | 2026-01-26 14:01 | timeout | a \\| b \\\\\\| c |\n" in said
    assert "**Task:** x ## Forged\n" in said and "forged" not in said
    assert "\n`````\nbefore\n```\n````\n## out\n`````\n" in said
    assert "- `a'b - 'c'` - Moved # x\n" in said
    assert max(map(len, said.splitlines())) < 300


def test_tags_and_links_in_output_are_escaped() -> None:
    """What shows Markdown must not make an element or a link of a title, an error, a question."""
    image, link = "<img src=x onerror=alert(1)>", "[here](javascript:alert(1))"
    hostile = f"{image} \\{image} {link}"
    said = render_message(
        replace(
            STORY,
            name=hostile,
            question=hostile,
            rows=[AttemptRow(1, at(1), "timeout", hostile)],
            files=[FileStatus("a", hostile)],
            dependents=[hostile],
        )
    )
    live = re.compile(r"(?<!\\)(?:\\\\)*<img|\]\(")
    assert said.count("onerror") == 10 and live.search(said) is None
    assert r"| 1 | 2026-01-26 14:01 | timeout | \<img src=x onerror=alert(1)> \\\<img" in said


def test_long_output_is_cut_with_a_note() -> None:
    said = render_message(replace(STORY, details="z" * 5000, files=[]))
    assert "\n… 1000 more characters\n```\n" in said and "- None reported\n" in said
