"""Mask secrets and strip invisible characters in text that agents send (pure).

Redact before you cut: half a secret matches no pattern. Redacting does not change text without
secrets; the output of programs is also cleaned.
"""

import re
from collections import Counter
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from pydantic_core import to_json

T = TypeVar("T")

# the characters of one string that are searched; the rest is dropped, with a mark
LONGEST = 262_144
DEEPEST = 64
MASK = "[redacted:{}]"
CUT = "\n[… cut: {} of {} bytes kept]"


# ---- characters

ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"  # titles
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
    if text.isprintable():  # then it has none of these
        return text
    text = ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return unseen.sub("", text)


def titled(text: str) -> str:
    """Return a title for storage: stripped, but with the joiners of words and emoji."""
    return stripped(text, unseen=DECEIVING)


def clean(text: str, *, limit_bytes: int, tail: float = 0.0, of: int = 0) -> str:
    """Return text stripped and cut to `limit_bytes` of UTF-8, with a mark at the cut.

    `tail` is the share of the result that comes from the end. The mark counts toward the limit.
    `of` is the original number of bytes if `text` is only a part.
    """
    text = stripped(text)
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    whole = of or len(data)
    room = limit_bytes - len(CUT.format(whole, whole).encode()) - bool(tail)
    if room < 0:
        return data[:limit_bytes].decode(errors="ignore")
    last = int(room * tail)
    head = data[: room - last].decode(errors="ignore")
    end = data[len(data) - last :].decode(errors="ignore")
    mark = CUT.format(len(head.encode()) + len(end.encode()), whole)
    return f"{head}{mark}\n{end}" if end else head + mark


# ---- secrets

START = r"(?<![A-Za-z0-9_])"
# a value after a name: in quotes, or up to the end of a word in shell, URLs, JSON and code
QUOTED = r"""(?P<quote>\\?["'`])(?!\[redacted:)(?P<quoted>[^"'`\\\n]{{{least},4096}})"""
BARE = r"""(?P<bare>[^\s"'`,;<>(){{}}\[\]&|\\]{{{least},4096}})"""
# types, literals and expressions of a program are not values
NOT_CODE = (
    r"(?!=|(?:none|null|nil|true|false|undefined|str|string|int|bool|bytes|optional|required"
    r"""|missing|invalid|empty)(?=[\s"'`,;:)\]}]|$)|[A-Za-z_][\w.]{0,64}[(\[])"""
)
NAME_ENDS = r"""(?:[_-][A-Za-z0-9_-]{0,32})?\\?["']?"""
SETS = r"[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}"
SAFE = r"(?:passw(?:or)?d|passphrase|(?<![a-z])pwd|(?<![a-z])pgpass|secret)"
TOKEN = r"(?:token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|sessionid)"
# "unexpected token: something" is not a token: tokens are long or have a digit
LIKE_A_TOKEN = r"""(?=["'`\\]{0,2}(?:[\w.+/=~:-]{0,64}\d|[\w.+/=~:-]{20}))(?!\d{1,9}(?!\w))"""


SCHEME = r"(?:basic|bearer|token|digest|negotiate|apikey)[ \t]{1,4}"


def _value(least: int) -> str:
    return f"(?:{QUOTED.format(least=least)}|{BARE.format(least=least)})"


# Kind, the lowercase words of which a text must contain one, pattern. The groups `bare` and
# `quoted` are masked, or else the whole match. Every quantifier is bounded and most patterns start
# with a fixed word, so that the time stays proportional to the length.
PATTERNS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (kind, needs, re.compile(pattern))
    for kind, needs, pattern in (
        (
            "private_key",
            ("private key",),
            r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:(?!-----)[\s\S]){0,16384}-----END [A-Z0-9 ]{0,48}-----"
            r"|(?:(?!-----)[A-Za-z0-9+/=\s\\,:|>-]){0,16384})",
        ),
        (
            "tenfour",
            ("tenfour_",),
            START + r"tenfour_(?:agt|orc|opr|ro)_[0-9A-Za-z]{16,64}(?:_[0-9A-Za-z]{1,16})?",
        ),
        (
            "jwt",
            ("eyj",),
            START + r"eyJ[A-Za-z0-9_-]{8,512}\.[A-Za-z0-9_-]{8,16384}(?:\.[A-Za-z0-9_-]{0,4096})?",
        ),
        (
            "aws",
            ("akia", "asia", "abia", "acca"),
            START + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])",
        ),
        (
            "github",
            ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
            START + r"(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255})",
        ),
        ("gitlab", ("gl",), START + r"gl[a-z]{2,6}-[A-Za-z0-9_.-]{20,300}"),
        (
            "slack",
            ("xox", "xapp-", "hooks.slack.com"),
            START + r"(?:xox[a-z](?:\.xox[a-z])?-|xapp-)[A-Za-z0-9-]{10,400}"
            r"|hooks\.slack\.com/[a-z]{1,16}/[A-Za-z0-9/]{20,200}",
        ),
        (
            "stripe",
            ("k_live_", "k_test_", "whsec_"),
            START + r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{24,128})",
        ),
        (
            "google",
            ("aiza", "ya29.", "gocspx-"),
            START + r"(?:AIza[\w-]{35}|ya29\.[\w-]{20,1024}|GOCSPX-[\w-]{20,64})",
        ),
        ("npm", ("npm_",), START + r"npm_[A-Za-z0-9]{36,64}"),
        ("pypi", ("pypi-",), START + r"pypi-[\w-]{50,1024}"),
        (
            "llm",
            ("sk-", "gsk_", "hf_", "xai-", "pplx-", "r8_"),
            START + r"(?:sk-(?=[A-Za-z_-]{0,64}\d)[\w-]{20,300}|(?:gsk_|hf_|xai-|pplx-|r8_)"
            r"[A-Za-z0-9]{30,128})",
        ),
        (
            "url",
            ("://",),
            r"""://[^\s/?#:@"'<>]{0,128}:(?!\[redacted:)(?P<bare>[^\s/?#@"'<>]{1,256})(?=@)""",
        ),
        (
            "authorization",
            ("authorization",),
            r"""(?i)authorization\\?["']?"""
            + SETS
            + rf"""\\?["']?(?:{SCHEME})?(?!{SCHEME})"""
            + r"(?P<bare>[A-Za-z0-9._~+/=:-]{6,8192})",
        ),
        (
            "bearer",
            ("bearer",),
            r"(?i)\bbearer[ \t]{1,4}(?=[a-z._~+/=-]{0,64}\d|[a-z._~+/=-]{20})"
            r"(?P<bare>[a-z0-9._~+/=-]{8,8192})",
        ),
        (
            "cookie",
            ("cookie",),
            r"""(?i)\b(?:set-)?cookie\\?["']?[ \t]{0,4}:[ \t]{0,4}\\?["']?(?!\[redacted:)"""
            r"""(?P<bare>[\w.-]{1,128}=[^\n"']{1,8192})""",
        ),
        (
            "secret",
            ("passw", "passphrase", "pwd", "pgpass", "secret"),
            "(?i)" + SAFE + NAME_ENDS + SETS + NOT_CODE + _value(4),
        ),
        (
            "secret",
            ("token", "key", "credential", "sessionid"),
            "(?i)" + TOKEN + NAME_ENDS + SETS + NOT_CODE + LIKE_A_TOKEN + _value(8),
        ),
        (
            "secret",
            ("--",),
            r"(?i)--(?:[a-z0-9]{1,16}-){0,3}(?:password|passphrase|secret|token|api-key)[ \t]{1,4}"
            r"(?!-)" + _value(4),
        ),
    )
)

# Most texts are short and contain nothing that a pattern needs; one search shows that.
SHORT = 256
NEEDED = re.compile("|".join(sorted(re.escape(need) for _, needs, _ in PATTERNS for need in needs)))

# Values with such names are masked whatever they look like; words are separated by `_` first.
SECRET_NAME = re.compile(
    r"passw(?:or)?d|passphrase|secret|api_?key|access_?key(?!_id)|private_?key|signing_?key"
    r"|authorization|credential|cookie|csrf|xsrf|sessionid|tokens?(?:_|$)"
    r"|(?:^|_)(?:pass|pwd|auth)$"
)
# Every such name contains one of these, or a word that a pattern needs.
NEEDED_OR_NAMED = re.compile(rf"{NEEDED.pattern}|csrf|xsrf|pass|auth".encode())
# These endings name a property of a secret, not the secret.
ABOUT = re.compile(r"_(?:type|count|url|uri|name|path|file|limit|usage|budget|expires|at|length)$")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
MASKED = re.compile(r"\[redacted:\w{1,32}\]")


def is_secret_name(name: str) -> bool:
    """Return whether values with this name are masked.

    >>> [is_secret_name(name) for name in ("dbPassword", "X-Api-Key", "tokenizer", "token_count")]
    [True, True, False, False]
    """
    return _is_secret_name(name[:200])


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    words = re.sub(r"[^a-z0-9]", "_", HUMP.sub("_", name).lower())
    return bool(SECRET_NAME.search(words)) and not ABOUT.search(words)


def redacted(value: T) -> T:
    """Return text or JSON with every secret masked."""
    return redact(value)[0]


def redact(value: T, *, as_json: bytes | None = None) -> tuple[T, Counter[str]]:
    """Return text or JSON with every secret masked, and the number of secrets of each kind.

    Unseen characters cannot hide a secret: a text with a secret comes back stripped, and any other
    text unchanged. `as_json` is the value's JSON in UTF-8 if the caller has it.
    """
    found: Counter[str] = Counter()
    if isinstance(value, (dict, list, tuple)) and _is_plain(as_json or _in_json(value)):
        return value, found
    return cast("T", _deep(value, found, 0)), found


def _in_json(value: Any) -> bytes:
    """Return the value as JSON in UTF-8, or nothing if it is too deep or has no JSON form."""
    try:
        return to_json(value)
    except ValueError:
        return b""


def _is_plain(text: bytes) -> bool:
    """Return whether short JSON clearly has nothing to mask or strip.

    This is the fast path of most payloads and results.
    """
    return (
        0 < len(text) < SHORT
        and text.isascii()
        and b"\\" not in text  # JSON writes every control character except DEL with one
        and b"\x7f" not in text
        and text.count(b"{") + text.count(b"[") < DEEPEST
        and not NEEDED_OR_NAMED.search(text.lower())
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
        text = text[:LONGEST] + f"\n[… cut: {LONGEST} of {len(text)} characters kept]"
    masked = plain = stripped(text)
    lower = plain.lower()
    if len(lower) < SHORT and not NEEDED.search(lower):
        return UNSTORABLE.sub("", text)
    for kind, needs, pattern in PATTERNS:
        if any(need in lower for need in needs):
            masked = pattern.sub(partial(_masked, kind=kind, found=found), masked)
    return masked if masked != plain else UNSTORABLE.sub("", text)


def _masked(match: re.Match[str], kind: str, found: Counter[str]) -> str:
    groups = match.groupdict()
    group = next((name for name in ("bare", "quoted") if groups.get(name)), 0)
    start, end = (at - match.start() for at in match.span(group))
    whole = match[0]
    return whole[:start] + _mask(kind, found) + whole[end:]


def _mask(kind: str, found: Counter[str]) -> str:
    found[kind] += 1
    return MASK.format(kind)
