"""Transcripts for tests: two that the real programs wrote, and builders for others."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "transcripts"
CLAUDE_SESSION = "a0b07f29-f0a9-4a2a-8c3b-f8535ff92677"
CODEX_SESSION = "01a201fb-70a0-7132-84c7-61deecd3ee6a"


def recorded(program: str) -> bytes:
    """Return what `claude` or `codex` wrote in one short session."""
    return (FOLDER / f"{program}.jsonl").read_bytes()


def as_lines(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def claude_line(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a line of Claude Code, as it wrote them before it had `TaskCreate`, too."""
    return {
        "parentUuid": f"u{number - 1}" if number > 1 else None,
        "isSidechain": False,
        "sessionId": "claude-1",
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": f"u{number}",
        "timestamp": f"2026-11-22T06:{number // 60 % 60:02}:{number % 60:02}.000Z",
        **more,
    }


def todo_write(number: int, *todos: tuple[str, str]) -> dict[str, Any]:
    """Return the line in which an older Claude Code writes its list."""
    given = [{"content": text, "status": state, "activeForm": text} for text, state in todos]
    call = {"type": "tool_use", "id": f"t{number}", "name": "TodoWrite", "input": {"todos": given}}
    return claude_line(number, "assistant", [call])


def old_codex_call(number: int, name: str, arguments: Any) -> dict[str, Any]:
    """Return a line of an old rollout, which has no payload."""
    return {
        "type": "function_call",
        "name": name,
        "call_id": f"call_{number}",
        "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
    }
