"""What an agent's program recorded last about its account's limits, without the conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tenfour.sessions.rollouts import read_tail

# From the end of the file: each answer of the model has a record.
TAIL_BYTES = 256 * 1024
# of Codex, one after each answer and one at a turn's end, and of Claude Code
MARKS = (b'"rate_limits"', b'"usage_limit_exceeded"', b'"rateLimits"', b'"rate_limit_info"')
STREAM_EVENT = "rate_limit_event"
EVENT_FIELDS = ("type", "rate_limit_info")
MOST_LINES = 4
LONGEST_LINE = 65_536
# The parts of a line that the server reads, each under the keys that lead to it.
FIELDS = (
    ("type",),
    ("subtype",),
    ("timestamp",),
    ("isApiErrorMessage",),
    ("error", "status"),
    ("error", "rateLimits"),
    ("apiErrorParams", "rate_limit_info"),
    ("payload", "type"),
    ("payload", "rate_limits"),
    ("payload", "error", "codex_error_info"),
)


def read_limit_records(path: str) -> list[dict[str, Any]]:
    """Return the newest records of a transcript or rollout that tell its limits, oldest first."""
    found: list[dict[str, Any]] = []
    for line in reversed(read_tail(path, limit=TAIL_BYTES)):
        if len(line) > LONGEST_LINE or not any(mark in line for mark in MARKS):
            continue
        with suppress(ValueError, RecursionError):
            record = sendable(reduce_record(json.loads(line)))
            if record.keys() - {"type", "subtype", "timestamp"}:
                found.append(record)
        if len(found) == MOST_LINES:
            break
    return found[::-1]


def find_limit_event(output: str) -> dict[str, Any] | None:
    """Return the last event about limits that Claude Code printed as stream-json, if any."""
    for line in reversed(output.splitlines()):
        if STREAM_EVENT in line and len(line) <= LONGEST_LINE:
            with suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict) and event.get("type") == STREAM_EVENT:
                    return sendable({name: event.get(name) for name in EVENT_FIELDS})
    return None


def sendable(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record; raises ValueError if it has a number that JSON has not, such as 1e999."""
    json.dumps(record, allow_nan=False)
    return record


def reduce_record(line: Any) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for path in FIELDS:
        value = line
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            continue
        place = record
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
    return record
