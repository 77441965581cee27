"""Read a coding agent's last message from the end of its transcript: Claude Code's or Codex's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tenfour.sessions.rollouts import read_tail

TAIL_BYTES = 256 * 1024
TEXTS = {"text", "output_text", "input_text"}


def read_last_text(path: str) -> str:
    """Return the agent's last text of this turn; empty without one in the file's last part."""
    for role, text in read_messages_backwards(path):
        if role == "assistant":
            return text
        if role == "user":
            break  # what the agent said before was about something else
    return ""


def read_messages_backwards(path: str) -> Iterator[tuple[str, str]]:
    """Yield the role and text of each message with a text, the newest first."""
    for raw in reversed(read_tail(path, limit=TAIL_BYTES)):
        line: Any = None
        with suppress(ValueError, RecursionError):
            line = json.loads(raw)
        if not isinstance(line, dict) or line.get("isMeta"):
            continue
        # Codex has a message in `payload`, Claude Code in `message`.
        message = line.get("message") or line.get("payload")
        if not isinstance(message, dict):
            continue
        text = text_of(message.get("content"))
        if text and isinstance(message.get("role"), str):
            yield message["role"], text


def text_of(content: Any) -> str:
    """Return the text of a message; tool calls and their results have none."""
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and is_text(part))
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type") in TEXTS
