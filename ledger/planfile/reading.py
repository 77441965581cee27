"""Read a plan file's bytes into a canonical plan, according to its media type (pure).

Every format produces the same mapping. To add a format, add a row to `FORMATS`.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ledger.errors import BadRequest, Invalid, PayloadTooLarge, UnsupportedMediaType
from ledger.planfile.canonical import canonical
from ledger.planfile.fences import mask_fences
from ledger.planfile.file_lines import list_lines
from ledger.planfile.front_matter import split_front_matter
from ledger.planfile.markup import read_markdown, read_xml
from ledger.planfile.model import BYTES, MOST_BYTES, PlanFile
from ledger.planfile.outline.lines import looks_like_work
from ledger.planfile.task_master import is_task_master, read_task_master
from ledger.planfile.values import DEEPEST, RawPlan, load_json, normalize_breaks, read_yaml
from ledger.values.text import normalize_newlines

TASK_ELEMENT = re.compile(r"[ \t]*(?:<tasks>[ \t]*)?<task(?:[\s>]|$)", re.I)
MARKUP = re.compile("<(?:plan|task)", re.I)
TASK_LIST = re.compile(r"tasks[ \t]*:[ \t]*(?:[#\[].*)?$")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    """A plan, warnings for its author, and the text that their lines refer to."""

    plan: PlanFile
    warnings: tuple[str, ...] = ()
    text: str = ""


def parse(
    data: bytes,
    *,
    media: str = "",
    agent: str = "",
    ref: str = "",
    tag: str = "",
    allow_missing_needs: bool = False,
) -> ParsedPlan:
    """Return the plan in a file with this media type; an unspecific type is detected from the text.

    `agent` is the default agent for tasks that name none, `ref` the ref of a plan that names none.
    `tag` and `allow_missing_needs` are for Task Master's files, which may be larger than others.

    Raises PayloadTooLarge, UnsupportedMediaType, BadRequest, and the errors of `canonical`.
    """
    check_size(data, MOST_BYTES)
    kind = format_of(media)
    text = decode(data)
    kind = kind or detect_format(text)
    value: Any = load_json(text) if kind == "json" else None
    if is_task_master(value):
        raw = read_task_master(value, tag=tag, allow_missing_needs=allow_missing_needs)
    else:
        check_size(data, BYTES)
        if tag:
            raise Invalid("/tag", "Only the tasks.json of Task Master has tags.")
        raw = RawPlan(value) if kind == "json" else FORMATS[kind](text)
    # The text of an outline has no escapes, so `decode` has seen all its characters.
    is_outline = kind == "markdown" and bool(raw.origins)
    check_values(
        {name: each for name, each in raw.value.items() if name != "tasks"}
        if is_outline
        else raw.value
    )
    value, warnings = raw.value, raw.warnings
    if isinstance(value, dict) and value.get("ref") is None and (ref or raw.suggested_ref):
        value = value | {"ref": ref or raw.suggested_ref}
        if not ref:
            warnings = (*warnings, f"The file names no ref for its plan; it is {value['ref']}.")
    plan = canonical(value, order=raw.order, agent=agent, origins=raw.origins, lines=raw.lines)
    if is_outline:
        plan = replace(plan, lines=list_lines(data, plan, warnings))
    return ParsedPlan(plan, warnings, normalize_breaks(text))


def check_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise PayloadTooLarge(
            f"The plan has {len(data)} bytes; at most {most} are allowed.", limit_bytes=most
        )


def decode(data: bytes) -> str:
    """Return a file's text; raise BadRequest with the first line that is no text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = " It looks like UTF-16." if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise BadRequest(
            f"The plan is not valid UTF-8 at byte {error.start} (line {line}).{hint}",
            hint="Save the file as UTF-8, then import it again.",
        ) from error
    if found := UNSTORABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise BadRequest(
            f"Line {line} contains the character U+{ord(found[0]):04X}, which can't be stored."
        )
    return text


# ---- formats

MEDIA = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "text/x-yaml": "yaml",
    "application/xml": "xml",
    "text/xml": "xml",
    "text/markdown": "markdown",
}
# Types that do not say what the file contains.
UNSPECIFIC = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")


def format_of(media: str) -> str:
    media = media.partition(";")[0].strip().lower()
    if media in MEDIA:
        return MEDIA[media]
    if media not in UNSPECIFIC:
        raise UnsupportedMediaType(
            f"The content type '{media}' is not a plan format.",
            hint=f"Send the plan as one of: {', '.join(MEDIA)}.",
        )
    return ""


def detect_format(text: str) -> str:
    begin = text.lstrip()[:4]
    if begin[:1] == "{":
        return "json"
    if begin[:1] == "<" and (begin != "<!--" or MARKUP.search(text)):
        return "xml"
    _, body = split_front_matter(normalize_newlines(text))
    lines = body.split("\n")
    fenced = mask_fences(lines)
    plain = [line for line, inside in zip(lines, fenced, strict=True) if not inside]
    if any(TASK_LIST.match(line) for line in plain):
        return "yaml"  # its texts may contain checklists, and its comments look like headings
    if any(TASK_ELEMENT.match(line) or looks_like_work(line) for line in plain):
        return "markdown"
    return "yaml"


# ---- values

PLAIN = (str, int, float, bool, type(None))


def check_values(value: Any, at: str = "", depth: int = 0) -> None:
    if depth > DEEPEST:
        raise Invalid(at, f"The plan is nested more than {DEEPEST} levels deep.")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise Invalid(at, f"The key {key!r} is not a string. Put it in quotes.")
            check_values(key, at, depth + 1)
            check_values(inner, f"{at}/{key}", depth + 1)
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            check_values(inner, f"{at}/{n}", depth + 1)
    elif not isinstance(value, PLAIN):
        raise Invalid(at, f"A plan can't contain a value of type {type(value).__name__}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Invalid(at, "NaN and infinity can't be stored.")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise Invalid(at, "This number is too large.")
    elif isinstance(value, str) and (match := UNSTORABLE.search(value)):
        raise Invalid(at, f"The character U+{ord(match[0]):04X} can't be stored.")


FORMATS: dict[str, Callable[[str], RawPlan]] = {
    "yaml": read_yaml,
    "xml": read_xml,
    "markdown": read_markdown,
}
