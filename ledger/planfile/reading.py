"""Reads the bytes of a plan file into values, by its media type (pure).

Every format ends in the same mapping; a new one is one more row in `FORMATS`.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from ledger.planfile.canonical import PARALLEL, canonical
from ledger.planfile.model import BYTES, PlanFile
from ledger.refusals import BadRequest, Invalid, PayloadTooLarge, UnsupportedMediaType

# how many values a YAML file may stand for once its aliases are written out, and how deep
MOST_NODES = 100_000
DEEPEST = 50
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A plan, and what whoever wrote it should know."""

    plan: PlanFile
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader makes of a text: the mapping, its format's order, and warnings."""

    value: Any
    order: str = PARALLEL
    warnings: tuple[str, ...] = ()


def parse(data: bytes, *, media: str = "") -> Parsed:
    """The plan in a file; `media` is its content type, looked into the text where it says nothing.

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
    return Parsed(canonical(found.value, order=found.order), found.warnings)


# ---- which format

MEDIA = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "text/yaml": "yaml",
    "text/x-yaml": "yaml",
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
    return "json" if text.lstrip().startswith("{") else "yaml"


# ---- JSON


def read_json(text: str) -> Found:
    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The plan is not JSON: {error}") from error
    return Found(value)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"'{twice[:80]}' stands twice in one object")
    return found


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


# ---- YAML


class Loader(yaml.CSafeLoader):
    """Reads plain values; what looks like a date stays a text."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(text: str) -> Found:
    try:
        check_depth(text)
        loader = Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise BadRequest("The plan is empty.")
            check_nodes(root)
            value = loader.construct_document(root)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise BadRequest(f"The plan is not YAML: {said[:500]}") from error
    return Found(value)


def check_depth(text: str) -> None:
    """Refuse depths that nobody wrote, before anything walks down there."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise BadRequest(f"The plan is nested more than {DEEPEST} deep.")


def check_nodes(root: yaml.Node) -> None:
    """Refuse what its aliases blow up, and keys that stand twice."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_:
            raise BadRequest(f"An alias stands for itself, {place(node)}.")
        open_.add(id(node))
        total = 1
        for child in children(node):
            total += size(child)
            if total > MOST_NODES:
                raise BadRequest(
                    f"With its aliases written out the plan has more than {MOST_NODES} values.",
                    hint="Write out what the aliases stand for; a plan needs few of them.",
                )
        open_.discard(id(node))
        sizes[id(node)] = total
        return total

    size(root)


def children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise BadRequest(f"A key is not a text, {place(key)}.")
            if key.value in seen:
                raise BadRequest(f"'{key.value[:80]}' stands twice in one mapping, {place(key)}.")
            seen.add(key.value)
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def place(node: yaml.Node) -> str:
    return f"in line {node.start_mark.line + 1}"


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


FORMATS: dict[str, Callable[[str], Found]] = {"json": read_json, "yaml": read_yaml}
