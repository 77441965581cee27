"""Compare two payloads of a task by path (pure), for the journal and for people."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger.errors import Invalid
from ledger.secrets.redaction import MASKED
from ledger.values.text import truncate

MOST_CHANGES = 50
MOST_TEXT = 400  # characters of a value in the journal
MISSING = object()


def list_changes(old: Any, new: Any) -> list[dict[str, Any]]:
    """Return each path whose value differs, with both values; a missing value is left out.

    >>> list_changes({"a": [1, 2], "b": 3}, {"a": [1, 4, 5], "c": 3})[:2]
    [{'path': '/a/1', 'old': 2, 'new': 4}, {'path': '/a/2', 'new': 5}]
    """
    rows = (
        {"path": path, "old": was, "new": now} for path, was, now in find_differences("", old, new)
    )
    return [{name: part for name, part in row.items() if part is not MISSING} for row in rows]


def find_differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    pairs: list[tuple[str, Any, Any]]
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(name, old.get(name, MISSING), new.get(name, MISSING)) for name in old | new]
    elif isinstance(old, list) and isinstance(new, list):
        most = max(len(old), len(new))
        rows = ([*each, *[MISSING] * (most - len(each))] for each in (old, new))
        pairs = [(str(n), was, now) for n, (was, now) in enumerate(zip(*rows, strict=True))]
    else:
        if type(old) is not type(new) or old != new:
            yield path, old, new
        return
    for name, was, now in pairs:
        escaped = name.replace("~", "~0").replace("/", "~1")
        yield from find_differences(f"{path}/{escaped}", was, now)


def check_masks(old: Any, new: Any) -> None:
    """Raise Invalid if a redacted value was edited; it can only be removed."""
    # A redacted value was never stored, so it has no text to edit.
    for path, was, now in find_differences("", old, new):
        if isinstance(was, str) and MASKED.search(was) and now is not MISSING:
            raise Invalid(
                f"/payload{path}",
                f"{path} holds a redacted value, which can't be edited: leave it or remove it.",
            )


def journaled(changes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return changes as an event stores them: the first ones, each value cut."""
    if not changes:
        return {}
    cut = [{name: cut_value(value) for name, value in each.items()} for each in changes]
    return {"payload": cut[:MOST_CHANGES], "payload_changes": len(changes)}


def cut_value(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    return truncate(value, MOST_TEXT) if isinstance(value, str) else value


def name_paths(events: Sequence[Mapping[str, Any]], most: int = 5) -> str:
    """Return the changed paths of events as people read them; each path counts once.

    >>> name_paths([{"payload": [{"path": "/a"}, {"path": "/b"}], "payload_changes": 9}], 1)
    '/a and 8 more'
    """
    paths = list(dict.fromkeys(row["path"] or "/" for each in events for row in each["payload"]))
    cut = sum(each["payload_changes"] - len(each["payload"]) for each in events)
    more = max(len(paths) - most, 0) + cut
    return ", ".join(paths[:most]) + (f" and {more} more" if more else "")
