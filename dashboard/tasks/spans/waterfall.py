"""Lay out an attempt's spans as a tree beside an axis of time (pure): percent along the axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.wording.formatting import count_tokens, dollars, latency

NARROWEST = 0.4  # percent, so that a short bar stays visible
DEEPEST = 16  # deeper spans are shown at this depth
INDENT = 14  # pixels
OK, ERROR = 1, 2


@dataclass(frozen=True, slots=True)
class SpanRow:
    """A span's line: `opens` a list of the spans below it, and ends the lists in `closes`."""

    span: Any
    indent: int
    x: float
    width: float
    opens: bool
    closes: range

    @property
    def failed(self) -> bool:
        return bool(self.span.status == ERROR)

    @property
    def took(self) -> str:
        return latency(round(1000 * (self.span.ended_at - self.span.started_at).total_seconds()))

    @property
    def used(self) -> str:
        usage = self.span.usage or {}
        counts = [usage[name] for name in ("input_tokens", "output_tokens") if name in usage]
        found = [f"{count_tokens(sum(counts))} tokens"] if counts else []
        return ", ".join([*found, *([dollars(usage["cost_usd"])] if "cost_usd" in usage else [])])

    @property
    def model(self) -> str:
        return str((self.span.usage or {}).get("model", ""))


def build_waterfall(spans: Sequence[Any]) -> list[SpanRow]:
    if not spans:
        return []
    start = min(span.started_at for span in spans)
    length = max((span.ended_at - start).total_seconds() for span in spans) or 1.0
    nested = nest_spans(spans)
    rows = []
    for place, (span, depth) in enumerate(nested):
        after = nested[place + 1][1] if place + 1 < len(nested) else 0
        x = position(span.started_at, start, length)
        width = max(position(span.ended_at, start, length) - x, NARROWEST)
        closes = range(max(0, depth - after))
        x = min(x, 100 - NARROWEST)
        rows.append(SpanRow(span, INDENT * depth, x, width, after > depth, closes))
    return rows


def position(at: datetime, start: datetime, length: float) -> float:
    return round(100 * (at - start).total_seconds() / length, 2)


def nest_spans(spans: Sequence[Any]) -> list[tuple[Any, int]]:
    """Return every span once, with its depth; those whose parent is not among them are roots."""
    ordered = sorted(spans, key=lambda span: (span.started_at, span.span_id))
    known = {span.span_id for span in ordered}
    below: dict[str, list[Any]] = {}
    for span in ordered:
        parent = span.parent_id if span.parent_id in known else ""
        below.setdefault(parent, []).append(span)
    nested: list[tuple[Any, int]] = []
    seen: set[str] = set()
    # Spans that are their own ancestors are below no root: they come last.
    for root in (*below.get("", ()), *ordered):
        stack = [(root, 0)]
        while stack:
            span, depth = stack.pop()
            if span.span_id in seen:
                continue
            seen.add(span.span_id)
            nested.append((span, depth))
            deeper = min(depth + 1, DEEPEST)
            stack += [(each, deeper) for each in reversed(below.get(span.span_id, ()))]
    return nested
