"""The answers of an agent's hook, in the form that Claude Code and Codex both read (pure)."""

from collections.abc import Mapping
from typing import Any

# Claude Code keeps at most 10,000 characters of what a hook adds to the conversation.
TEXT_LENGTH = 9_500
CUT = "\n[… cut: {rest}]"

Answer = dict[str, Any]


def add_context(event: str, text: str) -> Answer:
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def block(reason: str) -> Answer:
    return {"decision": "block", "reason": reason}


def end_turn_at_once(reason: str) -> Answer:
    # The reason is for the person, who reads it in Claude Code.
    return {"continue": False, "stopReason": reason}


def refuse_call(reason: str) -> Answer:
    # The reason is for the agent.
    refused = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **refused}}


def allow_asked(changed: Mapping[str, Any] | None) -> Answer:
    # With `changed`, the agent's program makes the changed call.
    decision = {"behavior": "allow"} | ({"updatedInput": dict(changed)} if changed else {})
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


def deny_asked(message: str) -> Answer:
    decision = {"behavior": "deny", "message": message}
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


def answer_form(content: Mapping[str, Any] | None) -> Answer:
    """Return the answer to an MCP server's form; None declines it."""
    given = {"action": "decline"} if content is None else {"action": "accept", "content": content}
    return {"hookSpecificOutput": {"hookEventName": "Elicitation", **given}}


def show_message(message: str) -> Answer:
    return {"systemMessage": message}


def fit(text: str, *, length: int = TEXT_LENGTH, rest: str) -> str:
    """Return the text in at most `length` characters; `rest` says where to read all of it.

    >>> fit("0123456789" * 5, length=40, rest="see the page")
    '01234567890123456\\n[… cut: see the page]'
    """
    if len(text) <= length:
        return text
    mark = CUT.format(rest=rest)
    return text[: max(0, length - len(mark) - 1)] + mark
