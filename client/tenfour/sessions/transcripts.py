"""Send a coding agent's transcript: whole lines, without this machine's secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenfour.api.calls import json_object
from tenfour.http.core import Call
from tenfour.redaction.masking import MASK, secrets_of
from tenfour.redaction.secret_forms import BY_FORM

PATH = "/v1/sessions/import"
MEDIA = "application/x-ndjson"
# A part of a file in one request; masking can make it longer, and the server takes 8 MiB.
PART_BYTES = 6 * 1024 * 1024
LINES_SHOWN = 20
# Images and files are not part of the conversation, but most of a large line.
ENCODED = re.compile(
    rb'"(data|image_url|encrypted_content|signature)":\s*"[A-Za-z0-9+/=:;,_-]{512,}"'
)


@dataclass(frozen=True)
class Part:
    """Some lines of a transcript, and where the next part begins."""

    data: bytes
    first_line: int
    # the place and the number of the line behind it
    offset: int
    next_line: int


def read_part(
    path: Path, *, offset: int = 0, line: int = 1, limit: int = PART_BYTES, is_growing: bool = True
) -> Part:
    """Return the lines from a place in the file on, as many as `limit` bytes hold.

    At least one line is returned if there is one. The incomplete last line of a growing file is
    left out: the agent's program is writing it.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(limit)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == limit:
            # one line that is longer than all that
            data += file.readline()
            end = len(data) if data.endswith(b"\n") else 0
        elif len(data) < limit and not is_growing:
            end = len(data)
    data = data[:end]
    return Part(data, line, offset + end, line + data.count(b"\n"))


def read_parts(path: Path) -> Iterator[Part]:
    """Yield a whole file in parts, an incomplete last line included."""
    part = read_part(path, is_growing=False)
    while part.data:
        yield part
        part = read_part(path, offset=part.offset, line=part.next_line, is_growing=False)


def import_part(
    part: Part, environ: Mapping[str, str], **params: str | None
) -> Call[Mapping[str, Any]]:
    """Import some lines of a transcript; secrets are masked before they are sent."""
    text = mask_lines(part.data, environ)
    given = {name: value for name, value in params.items() if value}
    if part.first_line > 1:
        given["first_line"] = str(part.first_line)
    return Call("POST", PATH, json_object, text, given, media=MEDIA)


def describe_skipped(done: Mapping[str, Any]) -> str:
    """Return which lines the server could not read; empty if it read all of them.

    >>> one = {"line": 3, "detail": "it is not JSON."}
    >>> describe_skipped({"skipped": 1, "skipped_lines": [one]})
    "1 line can't be read and was left out. Line 3: it is not JSON."
    >>> describe_skipped({"skipped": 3, "skipped_lines": [one, {**one, "line": 5}]})
    "3 lines can't be read and were left out: 3, 5, and more. Line 3: it is not JSON."
    """
    count, named = done.get("skipped", 0), done.get("skipped_lines", [])
    if not count or not named:
        return ""
    first = f"Line {named[0]['line']}: {named[0]['detail']}"
    if count == 1:
        return f"1 line can't be read and was left out. {first}"
    shown = named[:LINES_SHOWN]
    numbers = ", ".join(str(each["line"]) for each in shown)
    more = ", and more" if count > len(shown) else ""
    return f"{count} lines can't be read and were left out: {numbers}{more}. {first}"


def mask_lines(data: bytes, environ: Mapping[str, str]) -> str:
    """Return JSON lines without secrets: values of the environment, and tokens of services.

    The server also masks what only the name beside a value tells.
    """
    values = sorted(secrets_of(environ), key=len, reverse=True)
    escaped = {form for value in values for form in (_dump(value)[1:-1], json.dumps(value)[1:-1])}
    text = ENCODED.sub(rb'"\1":""', data).decode(errors="replace")
    known = sorted(escaped, key=len, reverse=True)
    return "\n".join(mask_line(line, known, values) for line in text.split("\n"))


def mask_line(line: str, escaped: Sequence[str], values: Sequence[str]) -> str:
    """Return a line with its secrets masked; most lines have none, and are not even parsed."""
    masked = mask_text(line, escaped)
    if masked == line:
        return line
    try:
        # A mask in the line itself could take an escaped quotation mark with it.
        return _dump(mask_deep(json.loads(line), values))
    except (ValueError, RecursionError):
        return masked


def mask_deep(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        return mask_text(value, secrets)
    if isinstance(value, dict):
        return {mask_text(key, secrets): mask_deep(part, secrets) for key, part in value.items()}
    if isinstance(value, list):
        return [mask_deep(part, secrets) for part in value]
    return value


def mask_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    lower = text.lower()
    for form in BY_FORM:
        if any(need in lower for need in form.needs) or (form.gate and form.gate.search(lower)):
            text = form.pattern.sub(partial(_mask_match, form.kind), text)
    return text


def _mask_match(kind: str, found: re.Match[str]) -> str:
    """Return a match with its secret masked, which is a group of it or all of it."""
    secret = found.groupdict().get("bare") or found[0]
    return found[0].replace(secret, f"[redacted:{kind}]")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
