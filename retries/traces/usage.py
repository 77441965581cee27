"""The tokens and cost that spans name: read them, and add them up."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledger.tracing import genai_attributes as genai
from retries.attempts.report_fields import MODEL_LENGTH, MOST_TOKENS, MOST_USD, clean_text

# A usage that spans brought says so; that of a heartbeat or report has no source.
SOURCE, SPANS = "source", "spans"
PARTS = "parts"
MOST_PARTS = 20


def read_usage(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a span's usage in the form of a report's; None if it names no tokens and no cost.

    >>> read_usage({genai.TOKENS["input_tokens"][0]: 12, genai.MODEL[0]: "gpt-5"})
    {'input_tokens': 12, 'model': 'gpt-5'}
    """
    usage: dict[str, Any] = {}
    for name, names in genai.TOKENS.items():
        count = read_number(attributes, names, most=MOST_TOKENS)
        if count is not None:
            usage[name] = int(count)
    cost = read_number(attributes, genai.COST, most=MOST_USD)
    if cost is not None:
        usage["cost_usd"] = round(float(cost), 6)
    model = next((attributes[name] for name in genai.MODEL if attributes.get(name)), "")
    if usage and isinstance(model, str) and model:
        usage["model"] = clean_text(model[: 8 * MODEL_LENGTH], MODEL_LENGTH)
    return usage or None


def read_number(attributes: Mapping[str, Any], names: Iterable[str], *, most: int) -> float | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if math.isfinite(value) and 0 <= value <= most:
            return float(value)
    return None


def add_usage(
    former: Mapping[str, Any] | None, more: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the sum; its model is the last one, and its cost is left out if a part has none.

    The sums of several models, or of calls with and without a cost, are also in `parts`.

    >>> add_usage({"input_tokens": 5, "model": "gpt-5"}, [{"input_tokens": 2, "model": "gpt-5"}])
    {'source': 'spans', 'input_tokens': 7, 'model': 'gpt-5'}
    """
    parts = group_usage([*list_parts(former), *more])
    total = {SOURCE: SPANS} | sum_usage(parts)
    return total | ({PARTS: parts} if len(parts) > 1 else {})


def list_parts(usage: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the usage by model, each with a price of its own."""
    if not usage:
        return []
    parts: list[Mapping[str, Any]] = usage.get(PARTS) or [usage]
    return parts


def group_usage(usages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for usage in usages:
        key = usage.get("model", ""), "cost_usd" in usage
        if key not in groups and len(groups) >= MOST_PARTS:
            key = "", key[1]
        groups.setdefault(key, []).append(usage)
    return [sum_usage(group) for group in groups.values()]


def sum_usage(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for name in genai.TOKENS:
        if any(name in part for part in parts):
            total[name] = min(MOST_TOKENS, sum(part.get(name, 0) for part in parts))
    if all("cost_usd" in part for part in parts):
        total["cost_usd"] = min(MOST_USD, round(sum(part["cost_usd"] for part in parts), 6))
    if models := [part["model"] for part in parts if part.get("model")]:
        total["model"] = models[-1]
    return total
