"""Sum the tokens that a coding agent's transcript tells: of Claude Code, or of Codex."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from tenfour.attempts.usage import Usage, clean_usage, is_number

# Only these lines are parsed.
MARKS = (b'"usage"', b'"token_count"', b'"turn_context"')


def sum_usage(path: str, *, since: float) -> Usage | None:
    """Return the tokens since a time, in seconds since 1970; None if the transcript has none."""
    replies: dict[str, Mapping[str, Any]] = {}
    counts: list[Mapping[str, Any]] = []
    model = ""
    total = 0
    for line, is_new in read_lines(path, since=since):
        payload = line.get("payload")
        message = line.get("message")
        if is_new and isinstance(message, Mapping) and isinstance(message.get("usage"), Mapping):
            # Claude Code writes a reply in parts, each with what the reply has used by then.
            replies[str(message.get("id") or line.get("uuid"))] = read_claude(message["usage"])
            model = text_in(message, "model") or model
        elif not isinstance(payload, Mapping):
            continue
        elif is_new and line.get("type") == "token_usage_record":
            replies[f"{line.get('ordinal')} {payload.get('response_id')}"] = read_codex(
                payload.get("usage")
            )
        elif payload.get("type") == "token_count" and isinstance(payload.get("info"), Mapping):
            # Codex repeats a count, also one from before; then the total has not grown.
            info, before = payload["info"], total
            total = total_of(info.get("total_token_usage"))
            if is_new and (total > before or not total):
                counts.append(read_codex(info.get("last_token_usage")))
        elif is_new or line.get("type") == "turn_context":
            model = text_in(payload, "model") or model
    # Older versions of Codex write the counts alone, newer ones both.
    parts = list(replies.values()) or counts
    sums = {name: sum(part[name] for part in parts) for name in parts[0]} if parts else {}
    if not sums.get("cache_write_tokens"):  # older servers do not know it
        sums.pop("cache_write_tokens", None)
    return clean_usage({**sums, "model": model} if model else sums)


def read_lines(path: str, *, since: float) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the lines that may contain tokens, each with whether it was written since a time."""
    with open(path, "rb") as file:
        for raw in file:
            if not any(mark in raw for mark in MARKS):
                continue
            with suppress(ValueError, RecursionError):
                line = json.loads(raw)
                if isinstance(line, Mapping):
                    is_model = line.get("type") == "turn_context"
                    yield line, not is_model and time_of(line) >= since


def time_of(line: Mapping[str, Any]) -> float:
    """Return a line's time in seconds since 1970; raises ValueError without one."""
    return datetime.fromisoformat(text_in(line, "timestamp").replace("Z", "+00:00")).timestamp()


def read_claude(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return what a reply of Claude used; its input tokens leave the cached ones out."""
    cached = count_in(usage, "cache_read_input_tokens")
    written = count_in(usage, "cache_creation_input_tokens")
    return {
        "input_tokens": count_in(usage, "input_tokens") + written + cached,
        "cached_tokens": cached,
        "cache_write_tokens": written,
        "output_tokens": count_in(usage, "output_tokens"),
    }


def read_codex(usage: Any) -> dict[str, int]:
    """Return what a reply of a model under Codex used; its input tokens hold the cached ones."""
    found = usage if isinstance(usage, Mapping) else {}
    return {
        "input_tokens": count_in(found, "input_tokens"),
        "cached_tokens": count_in(found, "cached_input_tokens"),
        "output_tokens": count_in(found, "output_tokens"),
    }


def total_of(usage: Any) -> int:
    """Return how many tokens a session of Codex has used so far; 0 if it is not told."""
    found = usage if isinstance(usage, Mapping) else {}
    parts = count_in(found, "input_tokens") + count_in(found, "output_tokens")
    return count_in(found, "total_tokens") or parts


def count_in(values: Mapping[str, Any], name: str) -> int:
    value: Any = values.get(name)
    return int(value) if is_number(value, int) else 0


def text_in(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
