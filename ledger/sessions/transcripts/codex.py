"""Read the lines of a Codex rollout (pure).

Each line has a type and a payload. The lines `response_item` carry what the model read and wrote,
in the form of OpenAI's Responses API; `event_msg` repeats some of it for the screen. Old rollouts
have the items themselves as lines.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ledger.sessions.message_parts import Call, Media, Part, Result, Text, Thinking
from ledger.sessions.transcripts.model import LineMessage, parse_time, text_of
from ledger.sessions.transcripts.program_texts import is_of_program

NAME = "codex"
CALLS = {"function_call", "custom_tool_call", "local_shell_call"}
RESULTS = {"function_call_output", "custom_tool_call_output"}
ITEMS = {"message", "reasoning"} | CALLS | RESULTS
ROLES = {"user": "user", "assistant": "assistant", "developer": "system", "system": "system"}
EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (\d+)", re.M)
# The program's answers to a call that it did not run.
REFUSED = re.compile(
    r"unsupported (?:custom tool )?call\b|(?:failed to|could not|cannot|can't) "
    r"|(?:error|invalid|err:|aborted|rejected)\b|Command blocked by|update_plan is a TODO",
    re.I,
)
HEAD_LENGTH = 400


def is_line(line: Mapping[str, Any]) -> bool:
    if isinstance(line.get("payload"), Mapping):
        return True
    if "record_type" in line or {"id", "timestamp", "instructions"} <= line.keys():
        return True
    kind = line.get("type")
    if kind == "message":
        return "role" in line and "uuid" not in line
    return kind in ITEMS


def session_of(line: Mapping[str, Any]) -> str:
    if line.get("type") == "session_meta" and isinstance(line.get("payload"), Mapping):
        payload = line["payload"]
        return text_of(payload.get("id")) or text_of(payload.get("session_id"))
    if "type" not in line and "instructions" in line:
        return text_of(line.get("id"))
    return ""


def read_line(line: Mapping[str, Any]) -> LineMessage | None:
    """Return the message in a line; None for a line without one.

    Raises ValueError for an item that can't be read.
    """
    payload = line.get("payload")
    if line.get("type") == "response_item":
        if not isinstance(payload, Mapping):
            raise ValueError("it is of the type 'response_item' and has no payload.")
        item = payload
    elif line.get("type") in ITEMS and payload is None:
        item = line
    else:
        return None
    found = read_item(item)
    if found is None:
        return None
    role, parts = found
    at = line.get("timestamp")
    return LineMessage(role, parts, identity_of(line, item, at), parse_time(at))


def identity_of(line: Mapping[str, Any], item: Mapping[str, Any], at: Any) -> str:
    """Return a line's identity, which no other line of the rollout has; empty without an id."""
    id = text_of(item.get("id")) or text_of(item.get("call_id"))
    if not id:
        return ""
    return " ".join((text_of(item.get("type")), id, text_of(at), str(line.get("ordinal", ""))))


def read_item(item: Mapping[str, Any]) -> tuple[str, tuple[Part, ...]] | None:
    """Return the role and the parts of an item; None for an empty one, and for new types."""
    kind = item.get("type")
    if kind == "message":
        return read_message(item)
    if kind == "reasoning":
        text = "\n".join(texts_of(item.get("summary")))
        return ("assistant", (Thinking(text),)) if text.strip() else None
    if kind in CALLS:
        return "assistant", (read_call(item),)
    if kind in RESULTS:
        text, failed = read_output(item.get("output"))
        return "tool", (Result(text_of(item.get("call_id")), text, failed),)
    return None


def read_message(item: Mapping[str, Any]) -> tuple[str, tuple[Part, ...]] | None:
    role = item.get("role")
    if role not in ROLES:
        raise ValueError(f"the role {str(role)[:40]!r} is unknown.")
    parts = tuple(read_content(item.get("content")))
    if not parts:
        return None
    return "system" if is_written(item, parts) else ROLES[role], parts


def is_written(item: Mapping[str, Any], parts: tuple[Part, ...]) -> bool:
    if item.get("role") != "user":
        return False
    known = item.get("internal_chat_message_metadata_passthrough")
    kinds = known.get("content_item_kinds") if isinstance(known, Mapping) else None
    if isinstance(kinds, list) and kinds:
        return not any(str(kind).startswith("user.") for kind in kinds)
    return isinstance(parts[0], Text) and is_of_program(parts[0].text)


def read_content(content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    if not isinstance(content, list):
        raise ValueError("the message has no content that is a text or a list of items.")
    for each in content:
        if not isinstance(each, Mapping):
            raise ValueError("an item of the message's content is not an object.")
        kind = text_of(each.get("type"))
        if kind in {"input_image", "image"}:
            yield Media("image")
        elif kind in {"input_file", "file"}:
            yield Media("file", text_of(each.get("filename")))
        elif text_of(each.get("text")).strip():
            yield Text(each["text"])


def read_call(item: Mapping[str, Any]) -> Call:
    id = text_of(item.get("call_id")) or text_of(item.get("id"))
    if item.get("type") == "local_shell_call":
        action = item.get("action")
        return Call(id, "local_shell", dict(action) if isinstance(action, Mapping) else {})
    given = item.get("arguments", item.get("input"))
    return Call(id, text_of(item.get("name")), read_arguments(given))


def read_arguments(given: Any) -> dict[str, Any]:
    # Arguments are JSON in a text; another text is one argument.
    if isinstance(given, Mapping):
        return dict(given)
    text = text_of(given)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    return {"input": text} if text else {}


def read_output(output: Any) -> tuple[str, bool]:
    """Return what a tool answered, and whether it says that it failed."""
    if isinstance(output, list):
        return "\n".join(texts_of(output)), False
    if isinstance(output, Mapping):
        content = output.get("content")
        text = content if isinstance(content, str) else "\n".join(texts_of(content))
        return text, output.get("success") is False
    text = text_of(output)
    if text.startswith('{"output":'):
        try:
            value = json.loads(text)
            code = value.get("metadata", {}).get("exit_code", 0)
            return str(value["output"]), code != 0
        except (ValueError, KeyError, AttributeError, RecursionError):
            return text, False
    exited = EXITED.search(text[:HEAD_LENGTH])
    return text, bool(int(exited[1]) if exited else REFUSED.match(text))


def texts_of(items: Any) -> Iterator[str]:
    if isinstance(items, list):
        for each in items:
            if isinstance(each, Mapping) and text_of(each.get("text")):
                yield each["text"]
