"""Read JSON and YAML into plain values, safely (pure)."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from ledger.errors import BadRequest
from ledger.planfile.canonical import PARALLEL, check_count
from ledger.planfile.model import Origin

# Limits for a YAML file once its aliases are expanded.
MOST_NODES = 100_000
DEEPEST = 50
DIRECTIVE = re.compile("^%TAG", re.M)
MOST_DIRECTIVES = 10


@dataclass(frozen=True, slots=True)
class RawPlan:
    """A plan file's content before validation: a mapping, the format's task order, warnings.

    `suggested_ref` is for a format in which a plan has no ref, `origins` for one whose tasks carry
    more than their content, `lines` for one whose tasks carry only their lines.
    """

    value: Any
    order: str = PARALLEL
    warnings: tuple[str, ...] = ()
    suggested_ref: str = ""
    origins: tuple[Origin, ...] = ()
    lines: tuple[int, ...] = ()


def normalize_breaks(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ---- JSON


def load_json(text: str) -> Any:
    try:
        value = json.loads(
            text, object_pairs_hook=refuse_duplicates, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The plan is not valid JSON: {error}") from error
    return value


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, each in pairs:
        if name in value:
            raise ValueError(f"duplicate key '{name[:80]}'")
        value[name] = each
    return value


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


# ---- YAML


INT, FLOAT, DATE = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))
# The only tags that a plan may write out.
STRING_TAGS = ("!", "tag:yaml.org,2002:str")
SEXAGESIMAL = r"[-+]?[0-9][0-9_]*:"


def leave_times(tag: str, form: re.Pattern[str]) -> tuple[str, re.Pattern[str]]:
    # YAML 1.1 reads 1:30 as 90, in time that grows with the square of the number's length.
    if tag not in (INT, FLOAT):
        return tag, form
    return tag, re.compile(f"(?!{SEXAGESIMAL})(?:{form.pattern})", form.flags)


class Loader(yaml.CSafeLoader):
    """A YAML loader for plain values, which leaves dates and times such as 1:30 as strings."""

    yaml_implicit_resolvers = {
        first: [leave_times(tag, form) for tag, form in resolvers if tag != DATE]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(text: str) -> RawPlan:
    value, root = load_document(text, Loader, "plan", check=check_task_count)
    return RawPlan(value, lines=tuple(find_task_lines(root)))


def check_task_count(root: yaml.Node) -> None:
    # Too many tasks must be refused before their values are built.
    if count := len(find_task_lines(root)):
        check_count(count, count)


def find_task_lines(root: yaml.Node) -> list[int]:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    tasks = next((value for key, value in pairs if key.value == "tasks"), None)
    items = tasks.value if isinstance(tasks, yaml.SequenceNode) else []
    return [item.start_mark.line + 1 if item.start_mark else 0 for item in items]


def read_front_values(text: str) -> tuple[Any, Any]:
    """Return front matter as values, and again with every value as its literal text."""
    return load_yaml(text, Loader), load_yaml(text, yaml.CBaseLoader)


def load_yaml(text: str, kind: Any = Loader, *, what: str = "plan") -> Any:
    return load_document(text, kind, what)[0]


def load_document(
    text: str, kind: Any, what: str, *, check: Callable[[yaml.Node], None] | None = None
) -> tuple[Any, yaml.Node]:
    try:
        check_events(text, what)
        loader = kind(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise BadRequest(f"The {what} is empty.")
            check_nodes(root, what)
            if check:
                check(root)
            value = loader.construct_document(root)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = " ".join(str(error).split())
        raise BadRequest(f"The {what} is not valid YAML: {message[:500]}") from error
    return value, root


def check_events(text: str, what: str) -> None:
    """Refuse deep nesting, and tags that name a type."""
    # This runs before anything recurses into the values.
    if len(DIRECTIVE.findall(text)) > MOST_DIRECTIVES:  # libyaml compares each one with all others
        raise BadRequest(f"The {what} declares too many YAML tags. It needs none.")
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=Loader)):
        if count > 4 * MOST_NODES:  # a value has a key, and a collection has a start and an end
            raise BadRequest(f"The {what} has more than {MOST_NODES} values.")
        tag = getattr(event, "tag", None)
        if tag and tag not in STRING_TAGS:
            raise BadRequest(
                f"A {what} can't contain the YAML tag '{tag[:80]}' ({place(event)}).",
                hint="Remove the tag. Plain YAML values need none.",
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise BadRequest(f"The {what} is nested more than {DEEPEST} levels deep.")


def check_nodes(root: yaml.Node, what: str) -> None:
    """Refuse aliases that expand to too many values, and duplicate keys."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_:
            raise BadRequest(f"An alias refers to itself ({place(node)}).")
        open_.add(id(node))
        total = 1
        for child in children(node):
            total += size(child)
            if total > MOST_NODES:
                raise BadRequest(
                    f"The {what} has more than {MOST_NODES} values with its aliases expanded.",
                    hint="Use fewer YAML aliases.",
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
                raise BadRequest(f"A key is not a string ({place(key)}).")
            if key.value in seen:
                raise BadRequest(f"Duplicate key '{key.value[:80]}' ({place(key)}).")
            seen.add(key.value)
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def place(node: yaml.Node | yaml.Event) -> str:
    return f"line {node.start_mark.line + 1}" if node.start_mark else "unknown line"
