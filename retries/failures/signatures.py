"""Compute the signature of a failure (pure): its pattern, and what its cause names.

A pattern groups failures for people; a signature tells apart failures of one pattern that need
different fixes, such as two missing modules. A pattern reads at most 400 characters, a headline.
"""

import re
from dataclasses import dataclass
from hashlib import sha256

from retries.failures.fingerprints import Identity, identify

SIGNATURE_LENGTH = 16
MOST_ENTITIES, ENTITY_LENGTH = 8, 80
# An empty pair of quotation marks names nothing, but must not pair with the next one.
QUOTED = re.compile(
    r"(?<!\w)'([^'\n]{0,200})'(?!\w)|\"([^\"\n]{0,200})\"|`([^`\n]{0,200})`|[‘“]([^’”\n]{0,200})[’”]"
)
# a module, a package, a command or a host that stands without quotation marks
NAMED = re.compile(
    r"\b(?:package|module|crate|gem|host|command|image|job|table|column|relation|service|resource"
    r"|fixture|script|target|variable|symbol)s? (?!not\b|is\b|was\b|does\b|has\b|named\b|called\b)"
    r"([\w@][\w@./:-]{1,119})",
    re.I,
)
HOST = re.compile(
    r"\b(?:https?://)?((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}|localhost)(?::\d{1,5})?\b"
)
SETTING = re.compile(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b")
VALUE = re.compile(r"[\d.,:%\s-]*")  # a number or a time names nothing
JSON_START = re.compile(r"[\[{] ?[{'\"]")
FOLDER = re.compile(r"^.*[/\\]")


@dataclass(frozen=True, slots=True)
class Signature:
    """The pattern of a failure and the entities that its cause names, in order."""

    identity: Identity
    entities: tuple[str, ...]

    @property
    def key(self) -> str:
        """A hash that equal failures of one pattern share."""
        text = "\n".join((self.identity.fingerprint, *sorted(self.entities)))
        return sha256(text.casefold().encode()).hexdigest()[:SIGNATURE_LENGTH]


def sign(*texts: str) -> Signature:
    """Return the signature of a failure from all its texts."""
    identity = identify(*texts)
    return Signature(identity, find_entities(identity.headline))


def find_entities(cause: str) -> tuple[str, ...]:
    """Return what a cause names, without folders: they differ between machines.

    >>> find_entities("ModuleNotFoundError: No module named 'polars'")
    ('polars',)
    """
    cause = JSON_START.split(cause, maxsplit=1)[0]  # its keys are no entities
    found = [next(filter(None, match.groups()), "") for match in QUOTED.finditer(cause)]
    rest = QUOTED.sub(" ", cause)
    for pattern in (NAMED, SETTING, HOST):
        found += [match[1] for match in pattern.finditer(rest)]
    names = (FOLDER.sub("", text.strip().rstrip("/.:")) for text in found)
    kept = dict.fromkeys(
        name for name in names if len(name) <= ENTITY_LENGTH and not VALUE.fullmatch(name)
    )
    return tuple(kept)[:MOST_ENTITIES]
