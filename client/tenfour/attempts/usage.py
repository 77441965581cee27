"""An attempt's usage: tokens and cost, as reports name them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypedDict

COUNTS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
USAGE_BYTES = 65_536


class Usage(TypedDict, total=False):
    """The tokens and the cost of an attempt; what is unknown is left out."""

    # tokens that the model read, cached ones included
    input_tokens: int
    # of these, those read from a cache
    cached_tokens: int
    # and those written to one
    cache_write_tokens: int
    output_tokens: int
    cost_usd: float
    model: str


def clean_usage(found: Mapping[str, Any]) -> Usage | None:
    """Return the fields that a report may name; None if no number is known."""
    known: dict[str, Any] = {
        name: value for name in COUNTS if is_number(value := found.get(name), int)
    }
    if is_number(found.get("cost_usd"), (int, float)):
        known["cost_usd"] = found["cost_usd"]
    if known and isinstance(found.get("model"), str):
        known["model"] = found["model"][:128]
    return Usage(**known) if known else None  # type: ignore[typeddict-item]


def is_number(value: Any, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool) and 0 <= value < 1e12


def read_usage(path: str) -> Usage | None:
    """Return the tokens and the cost that a command wrote as JSON; None without any."""
    with suppress(OSError, ValueError, RecursionError):
        with open(path, "rb") as file:
            found = json.loads(file.read(USAGE_BYTES))
        if isinstance(found, dict):
            return clean_usage(found)
    return None
