"""Questions that an agent's program asks as it asks for permission (pure).

They are AskUserQuestion of Claude Code, and elicitations, the forms of MCP servers.
"""

from collections.abc import Mapping
from typing import Any

from ledger.errors import Invalid
from retries.escalations import response_schema
from retries.permissions.calls import ToolCall

ASKING_TOOL = "AskUserQuestion"
ELICITATION = "Elicitation"
# A rule can't answer them.
ASKING_TOOLS = frozenset({ASKING_TOOL, ELICITATION})
MOST_QUESTIONS = 20


def questions_of(call: ToolCall) -> list[Mapping[str, Any]]:
    given = call.input.get("questions") if call.tool == ASKING_TOOL else None
    found = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    return [each for each in found if str(each.get("question") or "").strip()][:MOST_QUESTIONS]


def describe_questions(call: ToolCall) -> str:
    if call.tool == ELICITATION:
        return str(call.input.get("message") or "").strip()
    return "\n".join(str(each["question"]).strip() for each in questions_of(call))


def build_schema(call: ToolCall) -> dict[str, Any] | None:
    """Return the JSON Schema of the answers, or None if the call asks nothing.

    >>> ask = {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}
    >>> build_schema(ToolCall("AskUserQuestion", {"questions": [ask]}, ""))["properties"]
    {'Which?': {'type': 'string', 'enum': ['A', 'B']}}
    """
    if call.tool == ELICITATION:
        return read_requested_schema(call)
    questions = questions_of(call)
    if not questions:
        return None
    names = [str(each["question"]).strip() for each in questions]
    properties = {
        name: {"type": "string"} | ({"enum": labels} if labels else {})
        for name, each in zip(names, questions, strict=True)
        for labels in [list_labels(each)]
    }
    return {"type": "object", "properties": properties, "required": names}


def can_be_shown(call: ToolCall) -> bool:
    # An MCP server's form may be of any kind.
    return call.tool != ELICITATION or build_schema(call) is not None


def read_requested_schema(call: ToolCall) -> dict[str, Any] | None:
    """Return the schema of an MCP server's form; None if a page can't show it."""
    schema = call.input.get("requested_schema")
    if not isinstance(schema, dict):
        return None
    try:
        response_schema.check_schema(schema)
    except Invalid:
        return None
    return schema


def list_labels(question: Mapping[str, Any]) -> list[str]:
    options = question.get("options")
    if not isinstance(options, list) or question.get("multiSelect"):
        return []
    return [
        str(each["label"]) for each in options if isinstance(each, Mapping) and each.get("label")
    ]


def answered_input(call_input: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    # Claude Code reads the answers from the tool's input.
    return {**call_input, "answers": dict(response)}
