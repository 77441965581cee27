"""Render the failures of a task's attempts as elements of the retry context (pure)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ledger.values.text import describe_exit
from retries.failures import known_errors
from retries.failures.error_sets import ErrorSet, read_errors
from retries.failures.outputs.excerpts import shorten
from retries.failures.outputs.line_context import Line
from retries.failures.outputs.salience import BETWEEN_TEXTS, find_headline, rank_texts
from retries.failures.outputs.salience_rules import WEAK
from retries.failures.signatures import Signature, sign
from retries.retry_context.elements import element, one_line

# characters of each text before it is escaped
SUMMARY_LENGTH, OLDER_DETAILS_LENGTH = 500, 800
FIX_LENGTH, GUESS_LENGTH = 1_000, 1_000
WORD_LENGTH, COMMAND_LENGTH, PATH_LENGTH = 64, 200, 300
MOST_FILES, MOST_SUSPECTS, MOST_TESTS_LENGTH = 50, 10, 8_000
# the lines at the start and at the end of an output that are told beside the telling ones
NEWEST_EDGES, OLDER_EDGES = (4, 12), (0, 0)
# the lines before and after a telling one
NEWEST_AROUND, OLDER_AROUND = (3, 8), (1, 3)
# An output of this length is told as it is.
WHOLE_LENGTH, OLDER_WHOLE_LENGTH = 12_000, 200
# A longer one is told in at most this share of its length.
SHORTENED = 0.4
# the shares of the room that the details of the newest failure may take; the first that fits
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05)


@dataclass(frozen=True, kw_only=True)
class FailureRecord:
    """The failure of one attempt."""

    attempt: int
    at: datetime
    type: str
    code: str = ""
    message: str = ""
    details: str = ""
    verification: Mapping[str, Any] | None = None
    root_cause_guess: str = ""
    suggested_fix: str = ""
    files: Sequence[Mapping[str, Any]] = ()
    learnings: Sequence[str] = ()
    # false under an experiment: its details are cut in the middle, without the telling lines
    has_windows: bool = True

    @property
    def output(self) -> str:
        return str((self.verification or {}).get("output") or "")

    @property
    def suspects(self) -> Sequence[Mapping[str, Any]]:
        """Return the lines that the coverage of each test makes suspicious."""
        return (self.verification or {}).get("suspects") or ()

    @property
    def texts(self) -> tuple[str, str, str]:
        # Each of these may state the cause; a verification's output comes first.
        return self.output, self.details, self.message

    @cached_property
    def told(self) -> tuple[str, ...]:
        """Return the agent's details and the output of its verification, each once."""
        # Without either it is the message, if that is too long for the summary.
        output = self.output
        texts = [self.details] if self.details.strip() else []
        if output.strip() and output not in self.details:
            texts.append(output)
        if not texts and len(self.message) > SUMMARY_LENGTH:
            texts.append(self.message)
        return tuple(texts)

    @cached_property
    def ranked(self) -> list[Line]:
        """Return the lines of `told` that may tell the cause, the best first."""
        return rank_texts(self.told)

    @cached_property
    def signature(self) -> Signature:
        return sign(*self.texts)

    @cached_property
    def known_error(self) -> known_errors.Match | None:
        code = (self.verification or {}).get("exit_code")
        return known_errors.find(*self.texts, exit_code=code if isinstance(code, int) else None)

    @cached_property
    def headline(self) -> str:
        """Return the line that tells the cause, or nothing if none clearly does."""
        found = find_headline(*self.texts)
        return str(found) if found.score >= WEAK else ""

    @cached_property
    def errors(self) -> ErrorSet:
        # These are compared with the errors of other failures.
        return read_errors(self.texts, self.headline, self.signature.key if self.headline else "")


Repeats = Mapping[int, FailureRecord]


def find_repeats(failures: Sequence[FailureRecord]) -> Repeats:
    """Return the attempts whose errors a later one has again, each with the last such failure."""
    last: dict[frozenset[str], FailureRecord] = {}
    repeats = {}
    for each in reversed(failures):
        if each.errors.keys:
            later = last.setdefault(each.errors.keys, each)
            if later is not each:
                repeats[each.attempt] = later
    return repeats


def has_come_back(failures: Sequence[FailureRecord]) -> bool:
    *earlier, last = failures
    return any(each.errors.keys and each.errors.keys <= last.errors.keys for each in earlier)


# ---- all failures, within their room


def failures_element(failures: str) -> str:
    # Agents wrote parts of it, so all of it is marked as untrusted.
    if not failures:
        return ""
    return f'<previous_failures trust="untrusted">\n{failures}</previous_failures>\n'


def omitted_element(count: int) -> str:
    return f'<omitted count="{count}"/>\n' if count else ""


def fit_failures(failures: Sequence[FailureRecord], room: int) -> str | None:
    """Render the failures in at most `room` characters; None if the newest does not fit."""
    # The older ones shrink to type and summary, oldest first; then the oldest are omitted. The
    # newest gets what the older ones leave.
    if room < 0 or not failures:
        return None if room < 0 else ""
    *older, newest = failures
    repeats = find_repeats(failures)
    # A repeated error is told once, where it appeared last.
    rest = sum(len(render_failure(each, OLDER_DETAILS_LENGTH, repeats)) for each in older)
    for last in shrink_newest(newest, repeats, room, max(room - rest, room // 2)):
        if len(omitted_element(len(older))) + len(last) <= room:
            return fit_older(older, repeats, room - len(last)) + last
    return None


def shrink_newest(newest: FailureRecord, repeats: Repeats, most: int, room: int) -> Iterator[str]:
    """Yield the newest failure in full, then in ever shorter forms."""
    # Details that are told whole may take all of the room, `most`, and others only their part of
    # it.
    length = len(BETWEEN_TEXTS.join(newest.told))
    if length <= min(WHOLE_LENGTH, most):
        yield render_failure(newest, most, repeats, is_newest=True)
    if length > WHOLE_LENGTH:
        room = min(room, int(length * SHORTENED))
    for share in SHARES:
        yield render_failure(newest, int(room * share), repeats, share=share, is_newest=True)
    yield render_brief(newest)


def fit_older(older: Sequence[FailureRecord], repeats: Repeats, room: int) -> str:
    full = [render_failure(each, OLDER_DETAILS_LENGTH, repeats) for each in older]
    size = sum(map(len, full))
    if size <= room:
        return "".join(full)
    briefs = [render_brief(each) for each in older]
    shortened = 0
    while shortened < len(older) and size > room:
        size += len(briefs[shortened]) - len(full[shortened])
        shortened += 1
    omitted = 0
    while omitted < len(older) and size + len(omitted_element(omitted)) > room:
        size -= len(briefs[omitted])
        omitted += 1
    rest = briefs[omitted:shortened] + full[max(omitted, shortened) :]
    return omitted_element(omitted) + "".join(rest)


# ---- one failure


def render_brief(failure: FailureRecord) -> str:
    return failure_element(
        failure.attempt,
        element("type", failure.type, WORD_LENGTH),
        element("error_summary", summarize(failure), SUMMARY_LENGTH),
    )


def render_failure(
    failure: FailureRecord,
    details: int,
    repeats: Repeats,
    *,
    share: float = 1.0,
    is_newest: bool = False,
) -> str:
    """Render all parts of a failure; `share` is the share of its longer texts that may stay."""
    tests = ""
    if is_newest and len(BETWEEN_TEXTS.join(failure.told)) > min(WHOLE_LENGTH, details):
        tests = render_failing_tests(failure, int(min(MOST_TESTS_LENGTH * share, details / 2)))
    parts = [
        element("type", failure.type, WORD_LENGTH),
        element("code", failure.code, WORD_LENGTH, trust="agent") if failure.code else "",
        element("timestamp", f"{failure.at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", WORD_LENGTH),
        element("error_summary", summarize(failure, repeats), SUMMARY_LENGTH),
        tests,
        render_details(failure, details - len(tests), repeats, is_newest=is_newest),
        render_suspects(failure, int(MOST_SUSPECTS * share)) if is_newest else "",
        element(
            "files_affected",
            render_files(failure.files, int(MOST_FILES * share)),
            None,
            trust="agent",
        ),
    ]
    if is_newest and failure.root_cause_guess:
        guess = failure.root_cause_guess
        parts.append(element("root_cause_guess", guess, int(GUESS_LENGTH * share), trust="agent"))
    parts.append(
        element("suggested_fix", failure.suggested_fix, int(FIX_LENGTH * share), trust="agent")
    )
    return failure_element(failure.attempt, *parts)


def failure_element(attempt: int, *parts: str) -> str:
    return f'<failure attempt="{attempt}">\n{"".join(parts)}</failure>\n'


def summarize(failure: FailureRecord, repeats: Repeats = MappingProxyType({})) -> str:
    # The headline of a repeated error is told where it appeared last.
    ran = failure.verification or {}
    lines = []
    message = failure.message.strip()
    if ran.get("command") and ran.get("exit_code") is not None:
        command = one_line(str(ran["command"]), COMMAND_LENGTH)
        lines.append(f"{command} returned exit code {ran['exit_code']}")
        if message == describe_exit(str(ran["command"]), ran["exit_code"]):
            message = ""
    if is_part_of(message, failure.output) or is_part_of(message, failure.details):
        message = ""  # the output's own lines; the headline is the best of them
    last = repeats.get(failure.attempt)
    is_told = bool(lines or message) and last and last.headline == failure.headline
    if failure.headline and failure.headline not in message and not is_told:
        lines.append(failure.headline)
    return "\n".join([*lines, message] if message else lines)


def is_part_of(message: str, output: str) -> bool:
    lines = {line.strip() for line in message.splitlines()[:-1] or [message]}
    if not output or not all(line in output for line in lines):
        return False
    return not any(lines) or lines <= {line.strip() for line in output.splitlines()} | {""}


def render_details(failure: FailureRecord, most: int, repeats: Repeats, *, is_newest: bool) -> str:
    text = BETWEEN_TEXTS.join(failure.told)
    if failure.attempt in repeats and not is_newest:
        return element(
            "error_details", f"Same as attempt {repeats[failure.attempt].attempt}.", None
        )
    whole = WHOLE_LENGTH if is_newest else OLDER_WHOLE_LENGTH
    if len(text) <= min(whole, most):
        return element("error_details", text, None)
    edges, around = NEWEST_EDGES, NEWEST_AROUND
    if not is_newest:
        edges, around = OLDER_EDGES, OLDER_AROUND
    short = shorten(
        text, most, edges=edges, around=around, ranked=failure.ranked, has_pasted=is_newest
    )
    if not failure.has_windows:
        short = cut_middle(text, len(short))
    cut = len(text) - len(short)
    more = f' truncated_chars="{cut}"' if cut > 0 else ""
    return element("error_details", short, None, more=more)


def render_failing_tests(failure: FailureRecord, most: int) -> str:
    # A shortened output has the messages of only some of the failing tests.
    by_file: dict[str, dict[str, None]] = {}
    for each in failure.errors.errors.values():
        if each.is_test:
            file, _, name = each.function.rpartition("::")
            by_file.setdefault(file, {})[name] = None
    count = sum(map(len, by_file.values()))
    if count < 2:
        return ""
    lines = [f"{file}: {', '.join(names)}".removeprefix(": ") for file, names in by_file.items()]
    return element("failing_tests", "\n".join(lines), most, more=f' count="{count}"')


def render_suspects(failure: FailureRecord, most: int) -> str:
    lines = [
        f"- {one_line(str(each.get('path') or '?'), PATH_LENGTH)}:{each.get('line')}"
        f" {one_line(str(each.get('function') or ''), WORD_LENGTH)}".rstrip()
        + f" ({each.get('score')})"
        for each in failure.suspects[:most]
    ]
    return element("suspicious_lines", "\n".join(lines), None, trust="agent") if lines else ""


def cut_middle(text: str, most: int) -> str:
    # The note about the characters that are left out is not counted in `most`.
    half = most // 2
    left = len(text) - 2 * half
    return (
        f"{text[:half]}\n[… {left:,} characters left out …]\n{text[-half:]}" if left > 0 else text
    )


def render_files(files: Sequence[Mapping[str, Any]], most: int) -> str:
    lines = [
        f"- {one_line(str(each.get('path') or '?'), PATH_LENGTH)} "
        f"({one_line(str(each.get('status') or 'modified'), WORD_LENGTH).replace('_', ' ')})"
        for each in files[:most]
    ]
    if len(files) > most:
        lines.append(f"- and {len(files) - most} more")
    return "\n".join(lines)
