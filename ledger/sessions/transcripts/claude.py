"""Read the lines of a Claude Code transcript (pure).

Each line is an object with a type. The lines `user` and `assistant` carry a message in the form of
Anthropic's API; most others are for the program itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ledger.sessions.message_parts import Call, Media, Part, Result, Text, Thinking
from ledger.sessions.transcripts.model import LineMessage, parse_time, text_of
from ledger.sessions.transcripts.program_texts import is_of_program

NAME = "claude"
SPOKEN = {"user", "assistant"}
# Types of lines that only this program writes.
TYPES = SPOKEN | {
    "summary",
    "attachment",
    "queue-operation",
    "file-history-snapshot",
    "last-prompt",
    "progress",
}
MEDIA = {"image", "document", "audio"}


def is_line(line: Mapping[str, Any]) -> bool:
    kind = line.get("type")
    if "payload" in line or not isinstance(kind, str):
        return False
    if kind in SPOKEN:
        return isinstance(line.get("message"), Mapping)
    return "sessionId" in line or "parentUuid" in line or kind in TYPES


def session_of(line: Mapping[str, Any]) -> str:
    return text_of(line.get("sessionId"))


def read_line(line: Mapping[str, Any]) -> LineMessage | None:
    """Return the message in a line; None for a line without one.

    The lines of a subagent are left out: its conversation is another one. Raises ValueError for a
    message that can't be read.
    """
    if line.get("isSidechain") is True:
        return None
    if line.get("type") == "attachment":
        return read_attachment(line)
    if line.get("type") not in SPOKEN:
        return None
    message = line.get("message")
    if not isinstance(message, Mapping):
        raise ValueError(f"it is of the type '{line['type']}' and has no message.")
    role = message.get("role", line["type"])
    if role not in SPOKEN:
        raise ValueError(f"the role {str(role)[:40]!r} is unknown.")
    parts = tuple(read_content(message.get("content")))
    if not parts:
        return None
    if all(isinstance(part, Result) for part in parts):
        role = "tool"
    elif role == "user" and is_written(line, parts):
        role = "system"
    return LineMessage(role, parts, identity_of(line), parse_time(line.get("timestamp")))


def is_written(line: Mapping[str, Any], parts: tuple[Part, ...]) -> bool:
    if line.get("isMeta") is True or line.get("isCompactSummary") is True:
        return True
    return all(isinstance(part, Text) and is_of_program(part.text) for part in parts)


def identity_of(line: Mapping[str, Any]) -> str:
    return text_of(line.get("uuid"))


def read_attachment(line: Mapping[str, Any]) -> LineMessage | None:
    """Return what a person wrote while the agent was at work; other attachments are left out."""
    attachment = line.get("attachment")
    if not isinstance(attachment, Mapping) or attachment.get("type") != "queued_command":
        return None
    parts = tuple(read_content(attachment.get("prompt")))
    if not parts:
        return None
    role = "system" if is_written(line, parts) else "user"
    return LineMessage(role, parts, identity_of(line), parse_time(line.get("timestamp")))


def read_content(content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ValueError("the message has no content that is a text or a list of blocks.")
    for block in content:
        if not isinstance(block, Mapping):
            raise ValueError("a block of the message's content is not an object.")
        part = read_block(block)
        if part is not None:
            yield part


def read_block(block: Mapping[str, Any]) -> Part | None:
    # Blocks of unknown types are left out, like empty ones.
    match block.get("type"):
        case "text":
            text = text_of(block.get("text"))
            return Text(text) if text.strip() else None
        case "thinking":
            text = text_of(block.get("thinking"))
            return Thinking(text) if text.strip() else None
        case "tool_use" | "server_tool_use":
            given = block.get("input")
            return Call(
                text_of(block.get("id")),
                text_of(block.get("name")),
                dict(given) if isinstance(given, Mapping) else {},
            )
        case "tool_result":
            text = result_text(block.get("content"))
            has_failed = block.get("is_error") is True or text.startswith("<tool_use_error>")
            return Result(text_of(block.get("tool_use_id")), text, has_failed)
        case kind if kind in MEDIA:
            source = block.get("source")
            name = text_of(source.get("media_type")) if isinstance(source, Mapping) else ""
            return Media(str(kind), name)
        case _:
            return None


def result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for block in content:
        if isinstance(block, Mapping):
            kind = text_of(block.get("type"))
            texts.append(text_of(block.get("text")) if kind == "text" else f"[{kind}]")
    return "\n".join(texts)
