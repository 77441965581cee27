"""Set a task's attempts side by side (pure): error, files, what each was told, what changed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.wording.badges import outcome_label
from dashboard.wording.formatting import count_tokens, counted, dollars, duration
from ledger.models import Attempt, Failure
from retries.decisions import VERIFIED
from retries.failures.fingerprints import make_template
from retries.failures.grouping import headline_of

SHOWN = 6  # the last ones
FILES_SHOWN = 6
HEADLINE = 400
# not part of a name, a version, or an address
NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?![\w.]*\w)")


@dataclass(frozen=True, slots=True)
class ComparedAttempt:
    """A column of the comparison; `changes` say how it differs from the one before."""

    attempt: Attempt
    took: timedelta
    failure: Failure | None
    headline: str
    error_change: str
    files: list[str]
    more_files: int
    files_change: str
    told: str

    @property
    def is_live(self) -> bool:
        return self.attempt.outcome is None

    @property
    def ended(self) -> str:
        return outcome_label(self.attempt.outcome)

    @property
    def check(self) -> Mapping[str, Any]:
        """The result of the verify command, if it failed; empty if none ran."""
        found = self.failure.verification if self.failure else None
        return found if isinstance(found, Mapping) else {}

    @property
    def check_text(self) -> str:
        reason = (self.attempt.decision or {}).get("reason")
        return "Passed" if reason == VERIFIED else "Not run"

    @property
    def check_shown(self) -> object:
        if self.check:
            return self.check.get("command"), self.check.get("exit_code")
        if self.is_live:
            return "Not run yet"
        return "Not run" if self.failure else self.check_text

    @property
    def used(self) -> list[str]:
        usage = self.attempt.usage or {}
        counts = [usage[name] for name in ("input_tokens", "output_tokens") if name in usage]
        found = [f"{count_tokens(sum(counts))} tokens"] if counts else []
        return [*found, dollars(usage["cost_usd"])] if "cost_usd" in usage else found


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """The rows of the comparison that are shown, and the labels of those that are hidden because
    they are equal."""

    shown: list[str]
    equal: list[str]
    only_differences: bool


# how people read the elements of a context
TOLD = {
    "user_intervention": "your fix",
    "failure": "earlier failures",
    "known": "known cause",
    "accumulated_learnings": "learnings",
    "environment": "its environment",
    "diff": "its change",
    "last_progress": "last progress",
}
# what each row shows of an attempt, by the row's label
ROWS: Mapping[str, Callable[[ComparedAttempt], object]] = {
    "Duration": lambda each: (duration(each.took), each.is_live),
    "Error": lambda each: (each.failure and each.failure.type, each.headline, each.is_live),
    "Files": lambda each: (each.files, each.more_files),
    "Told": lambda each: each.told,
    "Check": lambda each: each.check_shown,
    "Cost": lambda each: (each.used, bool(each.used) or each.is_live),
}


def list_rows(columns: Sequence[ComparedAttempt], *, only_differences: bool) -> ComparedRows:
    shown = [name for name in ROWS if has_row(columns, name)]
    # A single attempt has no equal rows.
    if not only_differences or len(columns) < 2:
        return ComparedRows(shown, [], only_differences)
    equal = [name for name in shown if is_equal(columns, ROWS[name])]
    return ComparedRows([name for name in shown if name not in equal], equal, only_differences)


def has_row(columns: Sequence[ComparedAttempt], name: str) -> bool:
    if name == "Check":
        return any(each.check or each.check_text == "Passed" for each in columns)
    return name != "Cost" or any(each.used for each in columns)


def is_equal(
    columns: Sequence[ComparedAttempt], shown: Callable[[ComparedAttempt], object]
) -> bool:
    first, *others = map(shown, columns)
    return all(each == first for each in others)


def compare_attempts(attempts: Sequence[Attempt], *, now: datetime) -> list[ComparedAttempt]:
    columns: list[ComparedAttempt] = []
    for attempt in attempts[-SHOWN:]:
        columns.append(compare(attempt, columns[-1] if columns else None, now=now))
    return columns


def compare(attempt: Attempt, before: ComparedAttempt | None, *, now: datetime) -> ComparedAttempt:
    failure: Failure | None = getattr(attempt, "failure", None)
    headline = ""
    if failure:
        headline = (headline_of(failure) or failure.message.strip().partition("\n")[0])[:HEADLINE]
    files = [path_of(each) for each in failure.files_modified] if failure else []
    return ComparedAttempt(
        attempt,
        (attempt.ended_at or now) - attempt.started_at,
        failure,
        headline,
        describe_error_change(headline, before.headline if before else ""),
        files[:FILES_SHOWN],
        max(0, len(files) - FILES_SHOWN),
        describe_files_change(files, before) if failure else "",
        describe_told(attempt),
    )


def path_of(file: Any) -> str:
    return str(file.get("path", "?")) if isinstance(file, Mapping) else str(file)


def describe_error_change(headline: str, before: str) -> str:
    """Return how an error differs from the previous one, or an empty string."""
    if not headline or not before:
        return ""
    if headline == before:
        return "same error"
    if make_template(headline) == make_template(before):
        return describe_progress(headline, before) or "same error, other values"
    return "another error"


def describe_progress(headline: str, before: str) -> str:
    """Return a text if the only number that differs became smaller, else an empty string.

    >>> describe_progress("3 of 9318 differ", "41 of 9318 differ")
    'closer: 3, not 41'
    >>> describe_progress("5 of 7 differ", "3 of 9 differ")
    ''
    """
    numbers, earlier = NUMBER.findall(headline), NUMBER.findall(before)
    if len(numbers) != len(earlier) or NUMBER.split(headline) != NUMBER.split(before):
        return ""
    pairs = [(now, then) for now, then in zip(numbers, earlier, strict=True) if now != then]
    if len(pairs) != 1:
        return ""
    [(now, then)] = pairs
    return f"closer: {now}, not {then}" if int(now) < int(then) else ""


def describe_files_change(files: Sequence[str], before: ComparedAttempt | None) -> str:
    if before is None or not before.failure:
        return ""
    new = [file for file in files if file not in before.files]
    if not files:
        return "" if not before.files else "no file changed"
    return f"{counted(len(new), 'other file')}" if new else "same files"


def describe_told(attempt: Attempt) -> str:
    """Return a short text about the attempt's context, or an empty string without one."""
    if not attempt.context_chars:
        return ""
    found = attempt.context_elements or {}
    words = {**TOLD, "failure": counted(found.get("failure", 0), "earlier failure")}
    text = ", ".join(words[name] for name in TOLD if found.get(name))
    return text[:1].upper() + text[1:] or counted(attempt.context_chars, "character")
