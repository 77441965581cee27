"""JSON and YAML of plan files into plain values, safely (pure)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from ledger.errors import BadRequest
from ledger.planfile.canonical import PARALLEL

# how many values a YAML file may stand for once its aliases are written out, and how deep
MOST_NODES = 100_000
DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader makes of a text: the mapping, its format's order, and warnings."""

    value: Any
    order: str = PARALLEL
    warnings: tuple[str, ...] = ()


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
    return Found(loaded(text, Loader))


def read_yaml_text(text: str) -> tuple[Any, Any]:
    """Front matter as values, and once more with every value as the text that stands there."""
    return loaded(text, Loader), loaded(text, yaml.CBaseLoader)


def loaded(text: str, kind: Any) -> Any:
    try:
        check_depth(text)
        loader = kind(text)
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
    return value


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
