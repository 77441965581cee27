"""The prompt of an attempt (pure): system text, what is told of the attempts before, the task."""

import json
from collections.abc import Mapping
from typing import Any

from ledger.redaction import titled
from retries.retry_context.block import escaped

# keys that Tenfour knows: they have elements of their own
KNOWN = ("action", "files", "context", "verify", "done")
CHECKS = ("command", "cwd", "timeout_s", "expect_exit", "required", "text")
# what an import notes for people: a command that nobody has confirmed is none
NOTED = ("source", "proposed_command")


def prompt(task: str, context: str = "", *, system: str = "") -> str:
    """The whole prompt: what there is of system text and context stands before the task."""
    return "\n\n".join(part for part in (system.strip(), context, task) if part)


def task_xml(*, title: str, type: str, payload: Any = None, ref: str = "") -> str:
    """The task as XML: the keys that Tenfour knows as elements, all else of its payload as JSON."""
    named = payload if isinstance(payload, Mapping) else {}
    lines = [
        f"<task{attribute('ref', ref)}{attribute('type', type)}>",
        element("name", title),
        element("action", named.get("action")),
        listed("files", named.get("files")),
        listed("context", named.get("context")),
        verify(named.get("verify")),
        listed("done", named.get("done")),
        element("payload", rest(payload)),
        "</task>",
    ]
    return "\n".join(line for line in lines if line)


def verify(asked: Any) -> str:
    """How the task is checked, each of its keys as an element."""
    if not isinstance(asked, Mapping):
        return element("verify", asked)
    parts = [part for name in CHECKS if (part := element(name, asked.get(name)))]
    return "\n  ".join(["  <verify>", *parts, "</verify>"]) if parts else ""


def listed(name: str, texts: Any) -> str:
    if not isinstance(texts, (list, tuple)):
        return element(name, texts)
    return element(name, "\n".join(f"- {text_of(each)}" for each in texts))


def rest(payload: Any) -> Any:
    """What of the payload has no element of its own."""
    if not isinstance(payload, Mapping):
        return payload
    left = {name: payload[name] for name in payload if name not in KNOWN}
    if isinstance(asked := payload.get("verify"), Mapping):
        unknown = {name: asked[name] for name in asked if name not in (*CHECKS, *NOTED)}
        left |= {"verify": unknown} if unknown else {}
    return left or None


def element(name: str, value: Any) -> str:
    """An element on its own line; none for what is empty."""
    text = text_of(value)
    return f"  <{name}>{escaped(text)}</{name}>" if text else ""


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON; without what XML can't hold or deceives the eye."""
    if value is None:
        return ""
    return titled(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def attribute(name: str, value: str) -> str:
    text = escaped(titled(value)).replace('"', "&quot;").replace("\n", " ")
    return f' {name}="{text}"' if text else ""
