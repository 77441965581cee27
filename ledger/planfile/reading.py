"""Reads the bytes of a plan file into values, by its media type (pure).

Every format ends in the same mapping; a new one is one more row in `FORMATS`.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ledger.errors import BadRequest, Invalid, PayloadTooLarge, UnsupportedMediaType
from ledger.planfile.canonical import canonical
from ledger.planfile.markup import read_markdown, read_xml
from ledger.planfile.model import BYTES, PlanFile
from ledger.planfile.values import DEEPEST, Found, read_json, read_yaml

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A plan, and what whoever wrote it should know."""

    plan: PlanFile
    warnings: tuple[str, ...] = ()


def parse(data: bytes, *, media: str = "", agent: str = "") -> Parsed:
    """The plan in a file; `media` is its content type, looked into the text where it says nothing.

    `agent` is for the tasks for which the file names none.

    Raises PayloadTooLarge, UnsupportedMediaType, BadRequest, and what `canonical` raises.
    """
    if len(data) > BYTES:
        raise PayloadTooLarge(
            f"The plan has {len(data)} of at most {BYTES} bytes.", limit_bytes=BYTES
        )
    kind = kind_of(media)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"The plan is not UTF-8: byte {error.start} is not.") from error
    found = FORMATS[kind or sniffed(text)](text)
    check_values(found.value)
    return Parsed(canonical(found.value, order=found.order, agent=agent), found.warnings)


# ---- which format

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
# says nothing of what is in it: the text is looked at
ANY = ("", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded")


def kind_of(media: str) -> str:
    """The format that the type names, "" where the text must tell."""
    media = media.partition(";")[0].strip().lower()
    if media in MEDIA:
        return MEDIA[media]
    if media not in ANY:
        raise UnsupportedMediaType(
            f"The plan came as '{media}'.",
            hint=f"Send it as one of: {', '.join(MEDIA)}.",
        )
    return ""


def sniffed(text: str) -> str:
    begin = text.lstrip()[:1]
    if begin in ("{", "<"):
        return "json" if begin == "{" else "xml"
    return "markdown" if re.search(r"^[ \t]*<task[\s>]", text, re.M) else "yaml"


# ---- values

PLAIN = (str, int, float, bool, type(None))


def check_values(value: Any, at: str = "", depth: int = 0) -> None:
    """Refuse what JSON or PostgreSQL can't keep."""
    if depth > DEEPEST:
        raise Invalid(at, f"The plan is nested more than {DEEPEST} deep.")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise Invalid(at, f"The key {key!r} is not a text. Put it into quotes.")
            check_values(key, at, depth + 1)
            check_values(inner, f"{at}/{key}", depth + 1)
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            check_values(inner, f"{at}/{n}", depth + 1)
    elif not isinstance(value, PLAIN):
        raise Invalid(at, f"A plan holds no {type(value).__name__}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Invalid(at, "This number can't be kept.")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise Invalid(at, "This number is too large to be kept.")
    elif isinstance(value, str) and (found := UNSTORABLE.search(value)):
        raise Invalid(at, f"The character U+{ord(found[0]):04X} can't be stored.")


FORMATS: dict[str, Callable[[str], Found]] = {
    "json": read_json,
    "yaml": read_yaml,
    "xml": read_xml,
    "markdown": read_markdown,
}
