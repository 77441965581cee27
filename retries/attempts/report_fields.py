"""An agent's report about an attempt: the fields, their limits and how they are cleaned."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from ledger.secrets.redaction import cut, redacted, stripped
from ledger.states import FailureType
from ledger.values.text import truncate
from retries.attempts.checks.reported import Check, Tree, clean_checks
from retries.failures.outputs.excerpts import shorten

# stored lengths, in characters unless the name says bytes
OUTPUT_BYTES = 65_536
READ_BYTES = 4 * 1024 * 1024  # of an output: its start and its end, with a newline between
SUMMARY_LENGTH = 500
CODE_LENGTH = 64
MESSAGE_LENGTH = 2000
ADVICE_LENGTH = 1000
LEARNING_LENGTH = 300
MAX_LEARNINGS = 20
VALUE_LENGTH = 4096
MAX_FILES = 200
MOST_SUSPECTS = 10
MAX_RETRY_AFTER_S = 86_400
MODEL_LENGTH = 128
MOST_TOKENS = 10**12
MOST_USD = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An agent's report of how an attempt ended."""

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
    # tokens and cost: see clean_usage
    usage: dict[str, Any] | None = None
    # how the commands that checked the work ended, and the tree that was left: see `checks`
    checks: Sequence[Check] = ()
    tree: Tree | None = None
    # whether the agent sent files_modified: without it, it is unknown what the attempt changed
    sends_files: bool = False
    # of the report as it was sent; None where Tenfour itself ends the attempt
    digest: bytes | None = None


# What is measured beside an attempt: the same report may bring it only the first time.
NOT_DIGESTED = ("digest", "sends_files", "usage", "checks", "tree")
_NAMES = [name for name in Report.__slots__ if name not in NOT_DIGESTED]
_VALUES = attrgetter(*_NAMES)
_ENCODE = json.JSONEncoder(sort_keys=True).encode
# the fields that most reports leave out, as they are digested
_LEFT_OUT = [(value, _ENCODE(value).encode()) for value in _VALUES(Report())]
# characters of a long text that are encoded at a time
CHUNK = 65_536


def digest_of(report: Report) -> bytes:
    """Return the digest that identifies a repeated report: a hash of its fields as a JSON list.

    >>> as_json = '["success", "", {"ok": 1}' + ", null" * 3 + ', ""' * 5 + ", false, null, [], []]"
    >>> digest_of(Report(result={"ok": 1})) == hashlib.sha256(as_json.encode()).digest()
    True
    """
    digest = hashlib.sha256()
    separator = b"["
    for value, (default, encoded) in zip(_VALUES(report), _LEFT_OUT, strict=True):
        if type(value) is type(default) and value == default:
            digest.update(separator + encoded)
        else:
            digest.update(separator)
            for part in encode_parts(value):
                digest.update(part.encode())
        separator = b", "
    digest.update(b"]")
    return digest.digest()


def encode_parts(value: Any) -> Iterator[str]:
    """Yield a value's JSON, long texts in parts: a whole output would take much memory.

    >>> "".join(encode_parts({"b": "“", "a": [1]})) == json.dumps({"a": [1], "b": "“"})
    True
    """
    if isinstance(value, str):
        yield '"'
        for at in range(0, len(value), CHUNK):
            yield _ENCODE(value[at : at + CHUNK])[1:-1]
        yield '"'
    elif isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
        separator = "{"
        for key in sorted(value):
            yield f"{separator}{_ENCODE(key)}: "
            yield from encode_parts(value[key])
            separator = ", "
        yield "}"
    else:
        yield _ENCODE(value)


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
        usage=clean_usage(report.usage),
        checks=clean_checks(report.checks),
        digest=digest_of(report),
    )


def clean_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the known tokens and cost; None if none is known.

    >>> clean_usage({"input_tokens": 12, "cost_usd": None, "model": ""})
    {'input_tokens': 12}
    >>> clean_usage({"model": "gpt-5"}) is None
    True
    """
    known = {name: value for name, value in (usage or {}).items() if value not in (None, "")}
    if "model" in known:
        known["model"] = clean_text(known["model"], MODEL_LENGTH)
    return known if known.keys() - {"model"} else None


def clean_text(value: str, limit: int) -> str:
    # Redact before cutting: half a secret would not be recognized.
    return truncate(stripped(redacted(value)), limit)


def clean_output(output: str) -> str:
    """Return a program's output as it is stored: without secrets, shortened to telling lines."""
    # A long output is shortened first, since redacting all of it would take seconds.
    text = stripped(redacted(fit_output(output)))
    # Masks may be longer than what they hide.
    return cut(fit_output(text), limit_bytes=OUTPUT_BYTES)


def fit_output(text: str) -> str:
    if len(text) <= OUTPUT_BYTES // 4:  # no character has more than four bytes
        return text
    size = len(text.encode(errors="replace"))
    if size <= OUTPUT_BYTES:
        return text
    return shorten(text, OUTPUT_BYTES * len(text) // size, has_tests=True)


def clean_values(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: [clean_values(each) for each in value]
        if isinstance(value, list)
        else value
        if not isinstance(value, str)
        else clean_output(value)
        if name == "output"
        else clean_text(value, VALUE_LENGTH)
        for name, value in values.items()
    }
