"""Build a collapsible tree of JSON (pure), limited in size and depth."""

import json
from dataclasses import dataclass, field
from typing import Any

from ledger.values.text import truncate

DEEPEST = 8
MOST = 300
LONGEST = 2_000  # the most characters of one text
OPEN_TO = 2  # levels


@dataclass(slots=True)
class Node:
    """A value with its key: the `children` of an object or a list, else a `text`."""

    key: str
    text: str = ""
    css: str = ""
    brackets: str = ""  # the brackets of an object or a list
    count: int = 0
    is_open: bool = False
    is_last: bool = False
    children: list["Node"] = field(default_factory=list)

    @property
    def opening(self) -> str:
        return self.brackets[:1]

    @property
    def closing(self) -> str:
        return self.brackets[1:]


@dataclass(slots=True)
class Budget:
    left: int = MOST


def build_tree(value: Any) -> Node:
    node = build_node(value, "", 0, Budget())
    node.is_open, node.is_last = True, True
    return node


def build_node(value: Any, key: str, depth: int, budget: Budget) -> Node:
    budget.left -= 1
    if not isinstance(value, (dict, list)):
        return build_leaf(value, key)
    brackets = "{}" if isinstance(value, dict) else "[]"
    node = Node(key, brackets=brackets, count=len(value), is_open=depth < OPEN_TO)
    named = value.items() if isinstance(value, dict) else (("", each) for each in value)
    for number, (name, each) in enumerate(named):
        if depth >= DEEPEST or budget.left <= 0:
            node.children.append(Node("", f"… {len(value) - number} more", "z"))
            break
        quoted = json.dumps(name, ensure_ascii=False) if isinstance(value, dict) else ""
        node.children.append(build_node(each, quoted, depth + 1, budget))
    if node.children:
        node.children[-1].is_last = True
    return node


def build_leaf(value: Any, key: str) -> Node:
    if isinstance(value, str):
        cut = truncate(value, LONGEST)
        return Node(key, json.dumps(cut, ensure_ascii=False), "s")
    if value is None or isinstance(value, bool):
        return Node(key, json.dumps(value), "b")
    return Node(key, json.dumps(value), "n")


def json_size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
