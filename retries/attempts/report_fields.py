"""What an agent reports about an attempt: the fields, their limits and how they are cleaned."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from ledger.redaction import CUT, LONGEST, clean, redacted, stripped
from ledger.secret_forms import LONGEST_SECRET
from ledger.states import FailureType
from ledger.text import truncate

# stored lengths, in characters unless the name says bytes
OUTPUT_BYTES = 65_536
OUTPUT_TAIL = 0.75
READ_BYTES = LONGEST - 1  # of an output: its start and its end, with a newline between
SUMMARY_LENGTH = 500
CODE_LENGTH = 64
MESSAGE_LENGTH = 2000
ADVICE_LENGTH = 1000
LEARNING_LENGTH = 300
MAX_LEARNINGS = 20
VALUE_LENGTH = 4096
MAX_FILES = 200
MAX_RETRY_AFTER_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an attempt ended, as its agent reports it."""

    status: str = "success"
    summary: str = ""
    result: Any = None
    exit_code: int | None = None
    verification: dict[str, Any] | None = None
    type: FailureType | None = None
    code: str = ""
    message: str = ""
    details: str = ""
    root_cause_guess: str = ""
    suggested_fix: str = ""
    non_retryable: bool = False
    retry_after_s: int | None = None
    files_modified: Sequence[dict[str, Any]] = ()
    learnings: Sequence[str] = ()
    # of the report as it was sent; None where Tenfour itself ends the attempt
    digest: bytes | None = None


_VALUES = attrgetter(*(name for name in Report.__slots__ if name != "digest"))
_ENCODE = json.JSONEncoder(sort_keys=True).encode


def digest_of(report: Report) -> bytes:
    """Return the digest by which a repeated report is recognized."""
    return hashlib.sha256(_ENCODE(_VALUES(report)).encode()).digest()


def clean_report(report: Report) -> Report:
    """Return the report as it is stored: without secrets, cut to the limits, with its digest."""
    learnings = dict.fromkeys(
        clean_text(each, LEARNING_LENGTH).strip() for each in report.learnings
    )
    return replace(
        report,
        summary=clean_text(report.summary, SUMMARY_LENGTH),
        result=redacted(report.result),
        verification=clean_values(report.verification) if report.verification else None,
        code=clean_text(report.code, CODE_LENGTH),
        message=clean_text(report.message, MESSAGE_LENGTH),
        details=clean_output(report.details),
        root_cause_guess=clean_text(report.root_cause_guess, ADVICE_LENGTH),
        suggested_fix=clean_text(report.suggested_fix, ADVICE_LENGTH),
        files_modified=[clean_values(each) for each in report.files_modified[:MAX_FILES]],
        learnings=[each for each in learnings if each][:MAX_LEARNINGS],
        digest=digest_of(report),
    )


def clean_text(value: str, limit: int) -> str:
    """Return a text without secrets, of at most `limit` characters."""
    # Redact before cutting: half a secret would not be recognized.
    return truncate(stripped(redacted(value)), limit)


def clean_output(output: str, *, of: int = 0) -> str:
    """Return a program's output as it is stored, cut in the middle where it is too long."""
    if len(output) <= 2 * (OUTPUT_BYTES + LONGEST_SECRET):
        # The end gets most of the room: it usually says what went wrong.
        return clean(redacted(output), limit_bytes=OUTPUT_BYTES, tail=OUTPUT_TAIL, of=of)
    return clean_ends(output, of=of or len(output.encode(errors="replace")))


def clean_ends(output: str, *, of: int) -> str:
    """Return the start and the end of a long output, without secrets and cut at line ends."""
    room = OUTPUT_BYTES - len(CUT.format(of, of).encode()) - 1
    last = int(room * OUTPUT_TAIL)
    first = room - last
    # Half a secret at the inner edges would not be recognized, so a margin is redacted and dropped.
    # Masks are shorter than most secrets: twice the text fills the room even so.
    start = stripped(redacted(output[: 2 * first + LONGEST_SECRET]))[:-LONGEST_SECRET]
    end = stripped(redacted(output[-2 * last - LONGEST_SECRET :]))[LONGEST_SECRET:]
    start = start.encode()[:first].decode(errors="ignore")
    end = end.encode()[-last:].decode(errors="ignore")
    start, end = start.rpartition("\n")[0] or start, end.partition("\n")[2] or end
    mark = CUT.format(len(start.encode()) + len(end.encode()), of)
    return f"{start}{mark}\n{end}"


def clean_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return named values cleaned: `output` as a program's output, other strings as texts."""
    return {
        name: value
        if not isinstance(value, str)
        else clean_output(value)
        if name == "output"
        else clean_text(value, VALUE_LENGTH)
        for name, value in values.items()
    }
