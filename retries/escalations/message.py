"""Render the Markdown message of an escalated task (pure); equal facts give equal bytes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ledger.values.text import truncate

CELL_LENGTH = 200
DETAILS_LENGTH = 4000
NAMES_SHOWN = 10
FILES_SHOWN = 50

# the second sentence of the summary, by reason
SENTENCES = {
    "max_retries_exceeded": "Automated recovery has been exhausted.",
    "permission_denied": "Permission was denied, and a retry cannot change that.",
    "service_unavailable": "A service that it needs is unavailable.",
    "conflicting_requirements": "Its requirements conflict with each other.",
    "impossible": "Its agent reports that it is impossible.",
    "needs_confirmation": "It timed out, and it may or may not have taken effect.",
    "blocked": "Its agent reports that it is blocked.",
    "non_retryable": "Its agent reports that another attempt would not help.",
    "releases_exhausted": "It was released too often.",
    "agent_question": "Its agent asks a question.",
    "questions_exhausted": "Its agent asks again, after several questions without an answer.",
    "needs_quota": "A quota or credit is used up, and a retry cannot change that.",
    "needs_credentials": "Credentials are missing or wrong, and a retry cannot change that.",
    "needs_permission": "A permission is missing, and a retry cannot change that.",
    "no_retry_helps": "A retry cannot change what failed.",
    "same_failure_again": "The same error came back, and no file had changed.",
    "unproven": "Its agent reports that it is done, and nothing has proven it.",
    "permission_request": "Its agent asks for leave to make a call.",
    "budget_used": "It waits for a budget that is used up.",
    "checkpoint": "Its plan asks a question.",
}
# the notes on files whose status does not read as one
NOTES = {"partially_modified": "Modified but incomplete"}

SUGGESTIONS = """### Suggested Actions

1. **Review task definition** - Is <done> criteria achievable?
2. **Check test expectations** - Are tests correct?
3. **Manual intervention** - Fix the specific issue
4. **Skip task** - Mark as skipped and continue
5. **Abort plan** - Stop execution entirely"""
OPTIONS = """---

**Your options:**
{answers}- `retry` - {retry}
- `skip` - Skip this task, continue with next{waiting}
- `abort` - Stop plan execution
- `fix: <instruction>` - Provide specific fix instruction"""

RETRY_AT_LIMIT = "Queue it at the old limit: it waits until the budget has room"
GRANT = "- `grant: <amount>` - Grant more of the budget, such as `grant: 500000 tokens`\n"


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt of the history; `kind` is its failure's type or else its outcome."""

    number: int
    at: datetime
    kind: str
    error: str


@dataclass(frozen=True, slots=True)
class FileStatus:
    path: str
    status: str


@dataclass(frozen=True, slots=True)
class OfferedAnswer:
    """An answer that the asker of a question offers."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of an escalation by a policy: the line of the output and its known error."""

    line: str = ""
    title: str = ""
    same_as: int | None = None


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of the message: `attempts` of `limit`, with `failed` failures.

    `answers` is None where no question is asked.
    """

    name: str
    plan: str
    attempts: int
    limit: int
    failed: int
    reason: str
    rows: Sequence[AttemptRow]
    details: str
    files: Sequence[FileStatus]
    question: str = ""
    evidence: Evidence = NO_EVIDENCE
    answers: Sequence[OfferedAnswer] | None = None
    dependents: Sequence[str] = ()


def render_message(facts: Facts) -> str:
    """Render the message (S1.38 to S1.43)."""
    # A question about a task tells of failures only if there were any, and suggests nothing else.
    asks, is_of_budget = facts.answers is not None, facts.reason == "budget_used"
    parts = [
        "## Task Escalation Required",
        f"**Task:** {inert_line(facts.name)}\n**Plan:** {facts.plan or 'none'}\n"
        f"**Attempts:** {facts.attempts} of {facts.limit}",
        "### Question" if asks else "### Failure Summary",
        render_summary(facts),
    ]
    if facts.failed or not asks:
        parts += [
            "### Attempt History",
            render_table(facts.rows),
            "### Last Error Details",
            code_block(facts.details),
            "### Files Modified (Partial State)",
            render_files(facts.files),
        ]
    options = OPTIONS.format(
        answers=GRANT if is_of_budget else list_answers(facts.answers),
        retry=RETRY_AT_LIMIT if is_of_budget else "Try one more time (resets counter)",
        waiting=describe_dependents(facts.dependents),
    )
    return "\n\n".join([*parts, options] if asks else [*parts, SUGGESTIONS, options])


def render_summary(facts: Facts) -> str:
    times = "1 time" if facts.failed == 1 else f"{facts.failed} times"
    failed = f"This task has failed {times}." if facts.failed else "This task has not failed."
    why = (
        SENTENCES.get(facts.reason)
        or f"The reason is {inert_line(facts.reason).replace('_', ' ')}."
    )
    asked = f"\n\n{block_quote(facts.question)}" if facts.question else ""
    return f"{failed} {why}{describe_evidence(facts.evidence)}{asked}"


def describe_evidence(evidence: Evidence) -> str:
    if not evidence.line:
        return ""
    known = f"known error “{evidence.title}”" if evidence.title else ""
    same = f"same as attempt {evidence.same_as}" if evidence.same_as else ""
    about = ", ".join(part for part in (known, same) if part)
    return f" Evidence{f' ({about})' if about else ''}: {code_span(evidence.line)}"


def render_table(rows: Sequence[AttemptRow]) -> str:
    lines = [
        "| Attempt | Timestamp | Failure Type | Error |",
        "|---------|-----------|--------------|-------|",
    ]
    for row in rows:
        at = row.at.astimezone(UTC)
        lines.append(
            f"| {row.number} | {at:%Y-%m-%d %H:%M} | {row.kind} | {table_cell(row.error)} |"
        )
    return "\n".join(lines)


def render_files(files: Sequence[FileStatus]) -> str:
    if not files:
        return "- None reported"
    lines = [
        f"- {code_span(file.path)} - {describe_status(file.status)}" for file in files[:FILES_SHOWN]
    ]
    more = len(files) - FILES_SHOWN
    return "\n".join([*lines, *([f"- and {more} more"] if more > 0 else [])])


def describe_status(status: str) -> str:
    # `tests_added` reads as "Tests added".
    text = inert_line(status).replace("_", " ")
    return NOTES.get(status) or text[:1].upper() + text[1:] or "Modified"


def list_answers(answers: Sequence[OfferedAnswer] | None) -> str:
    if answers is None:
        return ""
    lines = [
        f"- {code_span(f'answer: {each.name}')} - {inert_line(each.text) or 'Choose this answer'}\n"
        for each in answers
    ]
    return "".join(lines) + "- `answer: <words>` - Answer the question\n"


def describe_dependents(names: Sequence[str]) -> str:
    if not names:
        return ""
    count = "1 task depends" if len(names) == 1 else f"{len(names)} tasks depend"
    shown = ", ".join(inert_line(name) for name in names[:NAMES_SHOWN])
    more = f", and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f" ({count} on it: {shown}{more})"


# ---- program output is untrusted: it stays in its cell, code block or quotation


# the start of a tag or a link, which a page that shows Markdown would render
MARKUP = re.compile(r"(?<!\\)(\\*)(<|(?<=\])\()")


def one_line(text: str) -> str:
    return " ".join(text.split())


def inert_line(text: str) -> str:
    return escape_markup(one_line(text))


def escape_markup(text: str) -> str:
    r"""Return the text with every tag and link escaped, after any number of backslashes.

    >>> print(escape_markup(r"[a](b) <i> \<i>"))
    [a]\(b) \<i> \\\<i>
    """
    return MARKUP.sub(r"\1\1\\\2", text)


def table_cell(text: str) -> str:
    # Program output must not end its cell or row.
    line = one_line(next((each for each in text.splitlines() if each.strip()), ""))
    line = truncate(line, CELL_LENGTH)
    return MARKUP.sub(r"\1\\\2", line.replace("\\", "\\\\").replace("|", "\\|"))


def code_block(text: str) -> str:
    # The fence is longer than any run of backticks in the text, which therefore can't close it.
    text = text.strip("\n")
    if len(text) > DETAILS_LENGTH:
        text = f"{text[:DETAILS_LENGTH]}\n… {len(text) - DETAILS_LENGTH} more characters"
    runs = re.findall(r"`{3,}", text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    return f"{fence}\n{text or 'No output was reported.'}\n{fence}"


def code_span(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(39))}`"


def block_quote(text: str) -> str:
    return "\n".join(f"> {escape_markup(each)}".rstrip() for each in text.strip().splitlines())
