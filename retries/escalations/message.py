"""The Markdown message of an escalated task (pure): the same facts give the same bytes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ledger.text import truncate

CELL_LENGTH = 200
DETAILS_LENGTH = 4000
NAMES_SHOWN = 10
FILES_SHOWN = 50

# the second sentence of the summary, by the reason
SENTENCES = {
    "max_retries_exceeded": "Automated recovery has been exhausted.",
    "permission_denied": "Permission was denied, which no retry can change.",
    "service_unavailable": "A service that it needs is not available.",
    "conflicting_requirements": "Its requirements conflict with each other.",
    "impossible": "Its agent reports that it is impossible.",
    "needs_confirmation": "It timed out, and nobody knows whether it took effect.",
    "blocked": "Its agent reports that it is blocked.",
    "non_retryable": "Its agent reports that another attempt would not help.",
    "releases_exhausted": "It was given back too often.",
    "agent_question": "Its agent asks a question.",
    "checkpoint": "Its plan asks a question.",
}
# what is said of a file where the agent's word for its state is no sentence
NOTES = {"partially_modified": "Modified but incomplete"}

OPTIONS = """### Suggested Actions

1. **Review task definition** - Is <done> criteria achievable?
2. **Check test expectations** - Are tests correct?
3. **Manual intervention** - Fix the specific issue
4. **Skip task** - Mark as skipped and continue
5. **Abort plan** - Stop execution entirely

---

**Your options:**
- `retry` - Try one more time (resets counter)
- `skip` - Skip this task, continue with next{waiting}
- `abort` - Stop plan execution
- `fix: <instruction>` - Provide specific fix instruction"""


@dataclass(frozen=True, slots=True)
class Row:
    """An attempt of the history; `kind` is its failure's type, or how else it ended."""

    number: int
    at: datetime
    kind: str
    error: str


@dataclass(frozen=True, slots=True)
class File:
    path: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What the message tells: `attempts` of `limit`, `failed` of them failures."""

    name: str
    plan: str
    attempts: int
    limit: int
    failed: int
    reason: str
    rows: Sequence[Row]
    details: str
    files: Sequence[File]
    question: str = ""
    dependents: Sequence[str] = ()


def message(story: Story) -> str:
    """The message of S1.38 to S1.43; `dependents` are the names of what waits for the task."""
    parts = [
        "## Task Escalation Required",
        f"**Task:** {line(story.name)}\n**Plan:** {story.plan or 'none'}\n"
        f"**Attempts:** {story.attempts} of {story.limit}",
        "### Failure Summary",
        summary(story),
        "### Attempt History",
        table(story.rows),
        "### Last Error Details",
        fenced(story.details),
        "### Files Modified (Partial State)",
        files(story.files),
        OPTIONS.format(waiting=waiting(story.dependents)),
    ]
    return "\n\n".join(parts)


def summary(story: Story) -> str:
    times = "1 time" if story.failed == 1 else f"{story.failed} times"
    failed = f"This task has failed {times}." if story.failed else "This task has not failed."
    why = SENTENCES.get(story.reason) or f"The reason is {line(story.reason).replace('_', ' ')}."
    asked = f"\n\n{quoted(story.question)}" if story.question else ""
    return f"{failed} {why}{asked}"


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| Attempt | Timestamp | Failure Type | Error |",
        "|---------|-----------|--------------|-------|",
    ]
    for row in rows:
        at = row.at.astimezone(UTC)
        lines.append(f"| {row.number} | {at:%Y-%m-%d %H:%M} | {row.kind} | {cell(row.error)} |")
    return "\n".join(lines)


def files(found: Sequence[File]) -> str:
    if not found:
        return "- None reported"
    lines = [f"- {code(file.path)} - {note(file.status)}" for file in found[:FILES_SHOWN]]
    more = len(found) - FILES_SHOWN
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])


def note(status: str) -> str:
    """What is said of a file: `tests_added` reads as "Tests added"."""
    words = line(status).replace("_", " ")
    return NOTES.get(status) or words[:1].upper() + words[1:] or "Modified"


def waiting(names: Sequence[str]) -> str:
    """The tasks that depend on it, named behind `skip`."""
    if not names:
        return ""
    count = "1 task depends" if len(names) == 1 else f"{len(names)} tasks depend"
    shown = ", ".join(line(name) for name in names[:NAMES_SHOWN])
    more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f" ({count} on it: {shown}{more})"


# ---- program output is hostile text: it stays in its cell, its fence, its quote


# a tag or a link of a program's making: a page that shows Markdown would make it real
MARKUP = re.compile(r"(\\*)(<|(?<=\])\()")


def plain(text: str) -> str:
    return " ".join(text.split())


def line(text: str) -> str:
    return inert(plain(text))


def inert(text: str) -> str:
    r"""Text in which no tag and no link is left, whatever stands before them.

    >>> print(inert(r"[a](b) <i> \<i>"))
    [a]\(b) \<i> \\\<i>
    """
    return MARKUP.sub(r"\1\1\\\2", text)


def cell(text: str) -> str:
    """The first line of an error, so that it can neither end its cell nor its row."""
    said = plain(next((each for each in text.splitlines() if each.strip()), ""))
    said = truncate(said, CELL_LENGTH)
    return MARKUP.sub(r"\1\\\2", said.replace("\\", "\\\\").replace("|", "\\|"))


def fenced(text: str) -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    text = text.strip("\n")
    if len(text) > DETAILS_LENGTH:
        text = f"{text[:DETAILS_LENGTH]}\n… {len(text) - DETAILS_LENGTH} more characters"
    runs = re.findall(r"`{3,}", text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    return f"{fence}\n{text or 'No output was reported.'}\n{fence}"


def code(text: str) -> str:
    return f"`{plain(text).replace('`', chr(39))}`"


def quoted(text: str) -> str:
    return "\n".join(f"> {inert(each)}".rstrip() for each in text.strip().splitlines())
