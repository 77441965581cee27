"""Mask secrets and strip invisible characters in text that agents send (pure).

Redact before you cut: half a secret matches no pattern. Redacting does not change text without
secrets; the output of programs is also cleaned.
"""

import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Any, AnyStr, TypeVar, cast

from pydantic_core import to_json

from ledger.database.process_counters import REDACTIONS
from ledger.secrets.forms import LONGEST_SECRET, Form, lower_case
from ledger.secrets.names import NAME_NEEDS, is_secret_name
from ledger.secrets.patterns import FORMS, GATES, GROUPS, NEEDS

T = TypeVar("T")

# the characters of one string that are searched; the rest is dropped, with a mark
LONGEST = 262_144
DEEPEST = 64
MASK = "[redacted:{}]"
CUT = "\n[… cut: {} of {} bytes kept]"


# ---- characters

ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors, cursor
    # titles; they contain no other start, because each start would be read to the end
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,4096}"
    r"(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)
# XML forbids these or no reader sees them: controls, zero width, bidi, tags, surrogates.
UNSEEN_CLASS = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
UNSEEN = re.compile(UNSEEN_CLASS)
# The same except for joiners, without which some words and emoji could not be written.
DECEIVING = re.compile(
    "(?!(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f\u200b-\u200f]))" + UNSEEN_CLASS
)
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def stripped(text: str, *, unseen: re.Pattern[str] = UNSEEN) -> str:
    """Return text with newlines as line ends, without escape sequences and unseen characters."""
    # then it has none of these
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return unseen.sub("", text)


def titled(text: str) -> str:
    # The joiners of words and emoji stay.
    return stripped(text, unseen=DECEIVING)


def clean(text: str, *, limit_bytes: int) -> str:
    """Return text stripped and cut to `limit_bytes` of UTF-8, with a mark at the cut.

    The mark counts toward the limit.
    """
    return cut(stripped(text), limit_bytes=limit_bytes)


def cut(text: str, *, limit_bytes: int) -> str:
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    room = limit_bytes - len(CUT.format(len(data), len(data)).encode())
    if room < 0:
        return data[:limit_bytes].decode(errors="ignore")
    head = data[:room].decode(errors="ignore")
    return head + CUT.format(len(head.encode()), len(data))


# ---- secrets


def any_of(needs: Collection[str]) -> str:
    """Return the pattern of a text that contains any of these.

    >>> any_of(["sshpass", "pass", "://"])
    'pass|://'
    """
    return "|".join(
        re.escape(need)
        for need in dict.fromkeys(needs)
        if not any(other in need for other in needs if other != need)
    )


# Most texts are short and contain nothing that a pattern needs; that is checked first.
SHORT = 256
NAMED_BYTES = tuple(need.encode() for need in (*NEEDS, *NAME_NEEDS))
# In a tiny text, one search for all of them takes a fraction of the time of one for each.
TINY = 96
NEED = re.compile(any_of(NEEDS))
NAMED_NEED_BYTES = re.compile(any_of((*NEEDS, *NAME_NEEDS)).encode())
GATES_BYTES = tuple(re.compile(gate.pattern.encode()) for gate in GATES)
MASKED = re.compile(r"\[redacted:\w{1,32}\]")


def redacted(value: T) -> T:
    return redact(value)[0]


def redact_output(output: str) -> str:
    # A line that a carriage return starts again, such as a progress bar, shows its last state.
    lines = redacted(output).replace("\r\n", "\n").rstrip("\r").split("\n")
    return stripped("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines))


def holds_secret(value: Any) -> bool:
    found: Counter[str] = Counter()
    _deep(value, found, 0)
    return bool(found)


@lru_cache(maxsize=4096)
def had_secret(text: str) -> bool:
    """Return whether a text contains a secret, or the mask of one."""
    return bool(MASKED.search(text)) or holds_secret(text)


def redact(value: T, *, as_json: bytes | None = None) -> tuple[T, Counter[str]]:
    """Return text or JSON with every secret masked, and the number of secrets of each kind.

    Unseen characters cannot hide a secret: a text with a secret comes back stripped, and any other
    text unchanged. `as_json` is the value's JSON in UTF-8 if the caller has it.
    """
    found: Counter[str] = Counter()
    if isinstance(value, (dict, list, tuple)) and _is_plain(as_json or _in_json(value)):
        return value, found
    masked = cast("T", _deep(value, found, 0))
    for kind, count in found.items():
        REDACTIONS.labels(kind).inc(count)
    return masked, found


def _in_json(value: Any) -> bytes:
    """Return the value as JSON in UTF-8, or nothing if it is too deep or has no JSON form."""
    try:
        return to_json(value)
    except ValueError:
        return b""


def _is_plain(text: bytes) -> bool:
    # This is the fast path of most payloads and results.
    return (
        0 < len(text) < SHORT
        and text.isascii()
        and b"\\" not in text  # JSON writes every control character except DEL with one
        and b"\x7f" not in text
        and text.count(b"{") + text.count(b"[") < DEEPEST
        and not _may_hold(text.lower(), NAMED_BYTES, NAMED_NEED_BYTES, GATES_BYTES)
    )


def _deep(value: Any, found: Counter[str], depth: int, hide: bool = False) -> Any:
    if isinstance(value, str):
        return _hidden(value, found) if hide else _text(value, found)
    if isinstance(value, (dict, list, tuple)) and depth >= DEEPEST:
        return _mask("depth", found)
    if isinstance(value, dict):
        return {
            _text(key, found) if isinstance(key, str) else key: _deep(
                part, found, depth + 1, hide or is_secret_name(str(key))
            )
            for key, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_deep(part, found, depth + 1, hide) for part in value]
    return value  # a number with such a name is usually a count of tokens, not a secret


def _hidden(value: str, found: Counter[str]) -> str:
    return _mask("secret", found) if value.strip() and not MASKED.fullmatch(value) else value


def _text(text: str, found: Counter[str]) -> str:
    if len(text) > LONGEST:
        return _long_text(text, found)
    return _masked_text(text, found)


def _masked_text(text: str, found: Counter[str]) -> str:
    masked = plain = stripped(text)
    lower = lower_case(plain)
    if len(lower) < SHORT and not _may_hold(lower, NEEDS, NEED, GATES):
        return UNSTORABLE.sub("", text)
    for form in FORMS:
        if any(need in lower for need in form.needs) or (form.gate and form.gate.search(lower)):
            masked = _mask_form(form, masked, found)
    return masked if masked != plain else UNSTORABLE.sub("", text)


def _long_text(text: str, found: Counter[str]) -> str:
    """Return the masked start of a text, without a part of a secret that the cut divides."""
    # What is searched beyond the cut is dropped, and with it the half of a secret at its end.
    searched = text[: LONGEST + LONGEST_SECRET]
    masked = _masked_text(searched, found)
    room = len(masked) - LONGEST_SECRET if len(searched) < len(text) else len(masked)
    kept = masked[: max(0, min(LONGEST, room))]
    return f"{kept}\n[… cut: {len(kept)} of {len(text)} characters kept]"


def _may_hold(
    text: AnyStr,
    needs: tuple[AnyStr, ...],
    any_need: re.Pattern[AnyStr],
    gates: tuple[re.Pattern[AnyStr], ...],
) -> bool:
    if len(text) < TINY:
        return bool(any_need.search(text)) or any(gate.search(text) for gate in gates)
    for need in needs:  # faster than any()
        if need in text:
            return True
    return any(gate.search(text) for gate in gates)


def _mask_form(form: Form, text: str, found: Counter[str]) -> str:
    pieces, end = [], 0
    for match in form.find(text, lower_case(text)):
        if form.accepts and not form.accepts(match):
            continue
        group = next((name for name in GROUPS if match.groupdict().get(name)), 0)
        pieces += [text[end : match.start(group)], _mask(form.kind, found)]
        end = match.end(group)
    return "".join([*pieces, text[end:]])


def _mask(kind: str, found: Counter[str]) -> str:
    found[kind] += 1
    return MASK.format(kind)
