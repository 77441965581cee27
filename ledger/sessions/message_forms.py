"""Read messages in the form of OpenAI or Anthropic into the stored form (pure).

One reader takes both, because conversations mix them: a string or a list of blocks as `content`,
with `tool_calls` beside it or `tool_use` inside it.
"""

import json
from typing import Any

from ledger.errors import Invalid
from ledger.secrets.redaction import redacted
from ledger.sessions.message_parts import Call, Media, Part, Result, Text, Thinking

# a sender's role -> the stored role
ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
NAME_LENGTH = 200
MEDIA = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "document": "file",
    "file": "file",
    "input_file": "file",
}
FORMS = "Use the form of OpenAI or Anthropic: a role and a content."


def read_message(message: Any, *, pointer: str) -> tuple[str, list[Part]]:
    """Return a message's role and parts; raise Invalid with a pointer to the error.

    >>> read_message({"role": "user", "content": "Fix it"}, pointer="/messages/0")
    ('user', [Text(text='Fix it', type='text')])
    """
    if not isinstance(message, dict):
        raise Invalid(pointer, f"A message must be an object. {FORMS}")
    role = read_role(message, pointer)
    parts: list[Part] = []
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        parts.append(Thinking(reasoning))
    if role == "tool" and not has_results(message.get("content")):
        text = join_text(message.get("content"), f"{pointer}/content")
        parts.append(Result(read_name(message, ("tool_call_id", "name"), pointer), text))
    else:
        parts += read_content(message.get("content"), f"{pointer}/content")
    parts += read_tool_calls(message, pointer)
    if isinstance(message.get("refusal"), str):
        parts.append(Text(message["refusal"]))
    if not parts:
        raise Invalid(f"{pointer}/content", "The message has neither content nor tool calls.")
    if role == "user" and all(isinstance(part, Result) for part in parts):
        role = "tool"  # Anthropic sends the answers of tools in the user's name
    return role, parts


def read_role(message: dict[str, Any], pointer: str) -> str:
    role = message.get("role")
    if role is None:
        raise Invalid(f"{pointer}/role", f"The message has no role. {FORMS}")
    if not isinstance(role, str) or role not in ROLES:
        known = ", ".join(ROLES)
        raise Invalid(f"{pointer}/role", f"{describe(role)} is not a role. Use one of: {known}.")
    return ROLES[role]


def has_results(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def read_content(content: Any, pointer: str) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    if not isinstance(content, list):
        raise Invalid(pointer, "content must be a string or a list of blocks.")
    return [
        part for at, block in enumerate(content) for part in read_block(block, f"{pointer}/{at}")
    ]


def read_block(block: Any, pointer: str) -> list[Part]:
    if isinstance(block, str):
        return [Text(block)]
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        raise Invalid(pointer, "A block must be a string or an object with a type.")
    kind = block["type"]
    if kind in ("text", "input_text", "output_text"):
        return [Text(read_text(block, "text", pointer))]
    if kind == "refusal":
        return [Text(read_text(block, "refusal", pointer))]
    if kind == "thinking":
        return [Thinking(read_text(block, "thinking", pointer))]
    if kind == "redacted_thinking":
        return []
    if kind == "tool_use":
        arguments = block.get("input", {})
        if not isinstance(arguments, dict):
            raise Invalid(f"{pointer}/input", "input must be an object.")
        return [Call(read_name(block, ("id",), pointer), name_of(block, pointer), arguments)]
    if kind == "tool_result":
        text = join_text(block.get("content"), f"{pointer}/content")
        return [
            Result(read_name(block, ("tool_use_id",), pointer), text, bool(block.get("is_error")))
        ]
    if kind in MEDIA:
        name = block.get("title") or block.get("filename") or ""
        return [Media(MEDIA[kind], redacted(name)[:NAME_LENGTH] if isinstance(name, str) else "")]
    raise Invalid(f"{pointer}/type", f"{describe(kind)} is not a known type of block.")


def read_tool_calls(message: dict[str, Any], pointer: str) -> list[Part]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise Invalid(f"{pointer}/tool_calls", "tool_calls must be a list.")
    parts: list[Part] = []
    for at, call in enumerate(calls):
        where = f"{pointer}/tool_calls/{at}"
        if not isinstance(call, dict):
            raise Invalid(where, "A tool call must be an object.")
        function = call.get("function") or call.get("custom")
        if not isinstance(function, dict):
            raise Invalid(f"{where}/function", "A tool call must have a function.")
        parts.append(
            Call(
                read_name(call, ("id",), where),
                name_of(function, f"{where}/function"),
                arguments_of(function),
            )
        )
    if isinstance(function := message.get("function_call"), dict):
        parts.append(
            Call("", name_of(function, f"{pointer}/function_call"), arguments_of(function))
        )
    return parts


def arguments_of(function: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments; those that are not a JSON object are under `text`.

    >>> arguments_of({"arguments": '{"path": "a.py"}'}), arguments_of({"arguments": "{pa"})
    ({'path': 'a.py'}, {'text': '{pa'})
    """
    raw = function.get("arguments", function.get("input", {}))
    if isinstance(raw, dict):
        return raw
    if not isinstance(raw, str):
        return {"text": str(raw)}
    try:
        # no NaN or Infinity, which the database can't store
        value = json.loads(raw or "{}", parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return {"text": raw}
    return value if isinstance(value, dict) else {"text": raw}


def refuse_constant(name: str) -> None:
    raise ValueError(name)


def join_text(content: Any, pointer: str) -> str:
    # Images are named in brackets.
    if content is None:
        return ""
    texts = [
        part.text if isinstance(part, (Text, Thinking)) else f"[{part.kind}]"
        for part in read_content(content, pointer)
        if isinstance(part, (Text, Thinking, Media))
    ]
    return "\n".join(texts)


def read_text(block: dict[str, Any], name: str, pointer: str) -> str:
    text = block.get(name)
    if not isinstance(text, str):
        raise Invalid(f"{pointer}/{name}", f"{name} must be a string.")
    return text


def name_of(block: dict[str, Any], pointer: str) -> str:
    name = block.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"{pointer}/name", "A tool call must name its tool.")
    return redacted(name)[:NAME_LENGTH]


def read_name(block: dict[str, Any], names: tuple[str, ...], pointer: str) -> str:
    for name in names:
        value = block.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Invalid(f"{pointer}/{name}", f"{name} must be a string.")
        return redacted(value)[:NAME_LENGTH]
    return ""


def describe(value: Any) -> str:
    return f"'{str(value)[:40]}'"
