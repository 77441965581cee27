"""Read a plan file's bytes into a canonical plan, according to its media type (pure).

Every format produces the same mapping. To add a format, add a row to `FORMATS`.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ledger.errors import BadRequest, Invalid, PayloadTooLarge, UnsupportedMediaType
from ledger.planfile.canonical import canonical
from ledger.planfile.fences import mask_fences
from ledger.planfile.front_matter import split_front_matter
from ledger.planfile.markup import read_markdown, read_xml
from ledger.planfile.model import BYTES, PlanFile
from ledger.planfile.task_master import is_task_master, read_task_master
from ledger.planfile.values import DEEPEST, RawPlan, load_json, read_yaml

TASK_ELEMENT = re.compile(r"[ \t]*(?:<tasks>[ \t]*)?<task(?:[\s>]|$)", re.I)
CHECKBOX = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,4}[.)])[ \t]+\[[ xX~-]\](?:\*?[ \t]|$)")
TASK_HEADING = re.compile(r"#{1,6}[ \t]+.{0,9}task #?[0-9]", re.I)
TASK_LIST = re.compile(r"tasks[ \t]*:[ \t]*(?:[#\[].*)?$")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    """A plan, and warnings for its author."""

    plan: PlanFile
    warnings: tuple[str, ...] = ()


def parse(data: bytes, *, media: str = "", agent: str = "", ref: str = "") -> ParsedPlan:
    """Return the plan in a file with this media type; an unspecific type is detected from the text.

    `agent` is the default agent for tasks that name none, `ref` the ref of a plan that names none.

    Raises PayloadTooLarge, UnsupportedMediaType, BadRequest, and the errors of `canonical`.
    """
    if len(data) > BYTES:
        raise PayloadTooLarge(
            f"The plan has {len(data)} bytes; at most {BYTES} are allowed.", limit_bytes=BYTES
        )
    kind = format_of(media)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"The plan is not valid UTF-8 at byte {error.start}.") from error
    raw = FORMATS[kind or detect_format(text)](text)
    check_values(raw.value)
    value, warnings = raw.value, raw.warnings
    if isinstance(value, dict) and value.get("ref") is None and (ref or raw.suggested_ref):
        value = value | {"ref": ref or raw.suggested_ref}
        if not ref:
            warnings = (*warnings, f"The file names no ref for its plan; it is {value['ref']}.")
    return ParsedPlan(canonical(value, order=raw.order, agent=agent), warnings)


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
    """Return the format for a media type, or "" if it has to be detected from the text."""
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
    begin = text.lstrip()[:1]
    if begin in ("{", "<"):
        return "json" if begin == "{" else "xml"
    _, body = split_front_matter(text.replace("\r\n", "\n"))
    lines = body.split("\n")
    fenced = mask_fences(lines)
    plain = [line for line, inside in zip(lines, fenced, strict=True) if not inside]
    if any(TASK_LIST.match(line) for line in plain):
        return "yaml"  # its texts may contain checklists, and its comments look like headings
    if any(
        TASK_ELEMENT.match(line) or CHECKBOX.match(line) or TASK_HEADING.match(line)
        for line in plain
    ):
        return "markdown"
    return "yaml"


# ---- values

PLAIN = (str, int, float, bool, type(None))


def check_values(value: Any, at: str = "", depth: int = 0) -> None:
    """Refuse values that JSON or PostgreSQL can't store."""
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


def read_json(text: str) -> RawPlan:
    value = load_json(text)
    return read_task_master(value) if is_task_master(value) else RawPlan(value)


FORMATS: dict[str, Callable[[str], RawPlan]] = {
    "json": read_json,
    "yaml": read_yaml,
    "xml": read_xml,
    "markdown": read_markdown,
}
