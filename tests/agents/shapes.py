"""The fields of the events that an agent's hooks get, recorded for the version that CI runs.

Programs add fields often. `make agents-latest` prints what differs in their newest versions; to
record another pinned version: `.venv/bin/python -m tests.agents.latest --record`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "shapes"
TYPES = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "null"}


def shape_of(events: Iterable[dict[str, Any]]) -> list[str]:
    """Return one line for each field of each kind of event, such as `Stop cwd: text`."""
    lines = set[str]()
    for event in events:
        kind = " ".join(filter(None, (event["hook_event_name"], event.get("tool_name"))))
        lines.update(f"{kind} {line}" for line in fields_of(event))
    return sorted(lines)


def fields_of(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from fields_of(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        yield f"{name}: list"
        for each in value:
            yield from fields_of(each, f"{name}[]")
    else:
        yield f"{name}: {TYPES[type(value)]}"


def recorded(name: str, folder: Path = RECORDED) -> list[str]:
    return (folder / f"{name}.txt").read_text().splitlines()


def record(name: str, lines: list[str], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
