"""The collapsible tree of JSON."""

from typing import Any

from dashboard.wording.json_tree import DEEPEST, MOST, build_tree


def test_tree_is_limited() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    node, depth = build_tree(deep), 0
    while node.children:
        node, depth = node.children[0], depth + 1
    assert depth == DEEPEST + 1 and node.text == "… 1 more"
    wide = build_tree(list(range(10_000)))
    assert len(wide.children) <= MOST + 1 and wide.children[-1].text.endswith("more")
