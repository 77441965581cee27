"""Build the prompt of an attempt (pure): system text, retry context, and the task as XML."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ledger.secrets.redaction import titled
from retries.retry_context.elements import escaped

# the keys of a payload that have their own elements
KNOWN_KEYS = ("action", "files", "context", "verify", "done")
VERIFY_KEYS = ("command", "cwd", "timeout_s", "expect_exit", "required", "text")
# An agent must not see these keys of an import: no person has confirmed the proposed command.
INTERNAL_KEYS = ("source", "proposed_command")

SKIPPED_NEEDS = (
    "These tasks were skipped, although this one needs them. Their results may be missing:"
)


def join_prompt(task: str, context: str = "", *, system: str = "") -> str:
    return "\n\n".join(part for part in (system.strip(), context, task) if part)


def render_task(
    *,
    title: str,
    type: str,
    payload: Any = None,
    ref: str = "",
    skipped_needs: Sequence[Mapping[str, Any]] = (),
) -> str:
    # Known keys of the payload become elements, and the others JSON. `skipped_needs` has the tasks
    # before it whose results may be missing.
    named = payload if isinstance(payload, Mapping) else {}
    lines = [
        f"<task{attribute('ref', ref)}{attribute('type', type)}>",
        element("name", title),
        element("action", named.get("action")),
        list_element("files", named.get("files")),
        list_element("context", named.get("context")),
        verify_element(named.get("verify")),
        list_element("done", named.get("done")),
        element("payload", other_keys(payload)),
        skipped_element(skipped_needs),
        "</task>",
    ]
    return "\n".join(line for line in lines if line)


def skipped_element(needs: Sequence[Mapping[str, Any]]) -> str:
    if not needs:
        return ""
    names = [
        f"- {' '.join(filter(None, (need['ref'], need['title']))) or need['id']}" for need in needs
    ]
    return element("skipped_needs", "\n".join([SKIPPED_NEEDS, *names]))


def verify_element(verify: Any) -> str:
    if not isinstance(verify, Mapping):
        return element("verify", verify)
    parts = [part for name in VERIFY_KEYS if (part := element(name, verify.get(name)))]
    return "\n  ".join(["  <verify>", *parts, "</verify>"]) if parts else ""


def list_element(name: str, texts: Any) -> str:
    if not isinstance(texts, (list, tuple)):
        return element(name, texts)
    return element(name, "\n".join(f"- {to_text(each)}" for each in texts))


def other_keys(payload: Any) -> Any:
    if not isinstance(payload, Mapping):
        return payload
    left = {name: payload[name] for name in payload if name not in KNOWN_KEYS}
    if isinstance(verify := payload.get("verify"), Mapping):
        others = set(verify) - {*VERIFY_KEYS, *INTERNAL_KEYS}
        unknown = {name: verify[name] for name in verify if name in others}
        left |= {"verify": unknown} if unknown else {}
    return left or None


def element(name: str, value: Any) -> str:
    text = to_text(value)
    return f"  <{name}>{escaped(text)}</{name}>" if text else ""


def to_text(value: Any) -> str:
    if value is None:
        return ""
    return titled(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def attribute(name: str, value: str) -> str:
    text = escaped(titled(value)).replace('"', "&quot;").replace("\n", " ")
    return f' {name}="{text}"' if text else ""
