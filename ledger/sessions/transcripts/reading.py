"""Read a transcript's bytes into messages, whichever program wrote it (pure).

A transcript is JSON lines. The program appends to it while it runs, so the last line may be
incomplete, and the same file is imported again when it has grown. A program that was killed leaves
torn lines and NUL bytes; the lines around them are read.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ledger.errors import Invalid, UnsupportedMediaType
from ledger.sessions.message_parts import parts_as_json
from ledger.sessions.transcripts import claude, codex
from ledger.sessions.transcripts.limits import read_claude_limits, read_codex_limits
from ledger.sessions.transcripts.model import BadLine, LineMessage, Transcript, TranscriptMessage
from ledger.values.account_windows import WindowFact

# Types that do not name the format are accepted, too: the format is detected.
MEDIA = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/json-lines",
    "application/json",
    "text/plain",
    "application/octet-stream",
    "",
)
DEEPEST_ERROR = 120
SESSION_LENGTH = 200
# The most bad lines that a response names; it counts the others.
MOST_NAMED = 100
FOREIGN = "No line of it is a message of Claude Code or Codex."


@dataclass(frozen=True, slots=True)
class Format:
    """A program's format of lines: how they are recognized and read."""

    name: str
    is_line: Callable[[Mapping[str, Any]], bool]
    session_of: Callable[[Mapping[str, Any]], str]
    read_line: Callable[[Mapping[str, Any]], LineMessage | None]
    read_limits: Callable[[Iterable[Mapping[str, Any]]], list[WindowFact]]


FORMATS = {
    module.NAME: Format(module.NAME, module.is_line, module.session_of, module.read_line, limits)
    for module, limits in ((claude, read_claude_limits), (codex, read_codex_limits))
}


def check_media(media: str) -> None:
    kind = media.partition(";")[0].strip().lower()
    if kind not in MEDIA:
        raise UnsupportedMediaType(
            f"The content type '{kind[:80]}' is not one of a transcript.",
            hint="Send the file as it is, with the header 'Content-Type: application/x-ndjson'.",
        )


def read_transcript(data: bytes, *, format: str = "", first_line: int = 1) -> Transcript:
    """Return the conversation in a transcript of Claude Code or Codex.

    `format` is for a part of a file that does not tell by itself, and `first_line` is the number
    of the part's first line in the file. Lines that can't be read are left out and reported, as is
    an incomplete last line. Raises Invalid for a file that neither program wrote.
    """
    whole: list[tuple[int, dict[str, Any]]] = []
    bad: list[BadLine] = []
    cut_line: int | None = None
    is_empty = True
    for number, raw, is_ended in split_lines(data, first_line):
        is_empty = False
        try:
            whole.append((number, read_object(number, raw)))
        except BadLine as error:
            if is_ended:
                bad.append(error)
            else:
                cut_line = number
    if is_empty:
        raise Invalid("", "The file has no lines. Import the agent's transcript file.")
    reader = find_format(whole, format, is_part=first_line > 1)
    if reader is None:
        raise Invalid("", FOREIGN, hint="Import a transcript that one of these programs wrote.")
    messages: list[TranscriptMessage] = []
    seen: Counter[str] = Counter()
    session = ""
    for number, line in whole:
        session = session or reader.session_of(line)[:SESSION_LENGTH]
        try:
            found = reader.read_line(line)
        except ValueError as error:
            bad.append(BadLine(number, str(error)))
            continue
        message = number_message(number, found, seen) if found else None
        if message is not None:
            messages.append(message)
    bad.sort(key=lambda error: error.line)
    return Transcript(
        reader.name,
        session,
        tuple(messages),
        len(whole),
        cut_line,
        len(bad),
        tuple(bad[:MOST_NAMED]),
        tuple(reader.read_limits(line for _, line in whole)),
    )


def split_lines(data: bytes, first_line: int) -> Iterator[tuple[int, bytes, bool]]:
    """Yield each line that is not blank: its number, its bytes, and whether it is ended."""
    rows = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    last = len(rows) - 1
    for at, raw in enumerate(rows):
        if raw.strip():
            yield first_line + at, raw, at < last


def read_object(number: int, raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a line; raise BadLine for anything else.

    NUL bytes in front of it and behind it are left out.
    """
    try:
        value = json.loads(raw.strip(b"\0 \t\r").decode())
    except UnicodeDecodeError as error:
        raise BadLine(number, f"it is not UTF-8 at byte {error.start + 1}.") from error
    except RecursionError as error:
        raise BadLine(number, "its JSON is nested too deep.") from error
    except ValueError as error:
        raise BadLine(number, f"it is not JSON: {str(error)[:DEEPEST_ERROR]}.") from error
    if not isinstance(value, dict):
        raise BadLine(number, "it is not a JSON object.")
    return value


def find_format(
    lines: list[tuple[int, dict[str, Any]]], name: str, *, is_part: bool
) -> Format | None:
    """Return the named format, or the format of the first line that one of the programs wrote.

    Return None if none did; in a later part of a file with a known format, none need be left.
    """
    formats = [FORMATS[name]] if name else [*FORMATS.values()]
    for _, line in lines:
        for format in formats:
            if format.is_line(line):
                return format
    return FORMATS[name] if name and is_part else None


def number_message(number: int, found: LineMessage, seen: Counter[str]) -> TranscriptMessage | None:
    """Return a message with the digest by which a later import knows it.

    A line's identity counts once: return None for its repetition. Lines without one that are equal
    in everything are told apart by their order.
    """
    key = found.identity or describe_content(found)
    seen[key] += 1
    if found.identity and seen[key] > 1:
        return None
    digest = sha256(f"{key}\n{seen[key]}".encode(errors="replace")).digest()
    return TranscriptMessage(number, found.role, found.parts, digest, found.sent_at)


def describe_content(found: LineMessage) -> str:
    at = found.sent_at.isoformat() if found.sent_at else ""
    return json.dumps([at, found.role, parts_as_json(found.parts)], sort_keys=True)
