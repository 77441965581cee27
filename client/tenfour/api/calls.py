"""Calls of the API except tasks and plans; each function turns arguments into a Call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from tenfour.http.core import Call
from tenfour.http.exchange import Answer
from tenfour.http.values import LogPiece, Page
from tenfour.models import Acked, Instruction, Me, Pulled, Stats

T = TypeVar("T")

Expect = str | Mapping[str, Any]
Outcome = Literal["done", "accepted", "declined"]
OnFailed = Literal["record", "escalate"]
Via = Literal["pull", "heartbeat", "cli"]

PAGE = 100


def health() -> Call[Mapping[str, Any]]:
    """Ask whether the server responds; needs no token."""
    return Call("GET", "/healthz", json_object)


def ready() -> Call[Mapping[str, Any]]:
    """Ask for the health of the server's parts; needs no token."""
    return Call("GET", "/readyz", json_object)


def me() -> Call[Me]:
    """Get the token's identity and scopes, and the server's version and time."""
    return Call("GET", "/v1/me", Me.read)


def send(
    agent: str,
    content: str,
    *,
    max_retries: int | None = None,
    tracked: bool | None = None,
    expect: Expect | None = None,
    priority: bool | None = None,
    on_failed: OnFailed | None = None,
    task: str | None = None,
    register: bool | None = None,
    idempotency_key: str | None = None,
) -> Call[Instruction]:
    """Send an instruction to an agent; the server chooses what is None.

    `expect` names the signal that acknowledges it: a type, or {"type": …, "match": {…}}.
    """
    options = {
        "max_retries": max_retries,
        "tracked": tracked,
        "expect": {"type": expect} if isinstance(expect, str) else expect,
        "priority": priority,
        "on_failed": on_failed,
        "task": task,
        "register": register,
    }
    body = {"agent": agent, "content": content, **given(options)}
    return Call("POST", "/v1/instructions", Instruction.read, body, idempotency_key=idempotency_key)


def pull(limit: int = 10, *, via: Via | None = None) -> Call[Pulled]:
    """Take up to `limit` waiting instructions; they count as delivered, by the way `via`."""
    body = {"limit": limit, **given({"via": via})}
    return Call("POST", "/v1/instructions/pull", Pulled.read, body)


def get(id: str) -> Call[Instruction]:
    """Get one instruction."""
    return Call("GET", f"/v1/instructions/{part(id)}", Instruction.read)


def cancel(id: str, *, reason: str | None = None) -> Call[Instruction]:
    """Takes an instruction back; refused once it is settled."""
    body = given({"reason": reason})
    return Call("POST", f"/v1/instructions/{part(id)}/cancel", Instruction.read, body)


def ack(id: str, *, outcome: Outcome | None = None, note: str | None = None) -> Call[Instruction]:
    """Acknowledge one instruction; a second time changes nothing."""
    body = given({"outcome": outcome, "note": note})
    return Call("POST", f"/v1/instructions/{part(id)}/ack", Instruction.read, body)


def acks(ids: Sequence[str]) -> tuple[Call[tuple[Acked, ...]], ...]:
    """Acknowledge many instructions, in as many calls as the server's limit requires."""
    chunks = (list(ids[at : at + PAGE]) for at in range(0, len(ids), PAGE))
    return tuple(Call("POST", "/v1/instructions/ack", _acked, {"ids": ids}) for ids in chunks)


def instructions(
    *, state: str | Iterable[str] | None = None, agent: str | None = None
) -> Call[Page[Instruction]]:
    """List instructions, newest first; `state` is one state or several."""
    states = state if state is None or isinstance(state, str) else ",".join(state)
    params = given({"state": states, "agent": agent, "limit": str(PAGE)})
    return Call("GET", "/v1/instructions", page_of(Instruction.read), params=params)


def signal(type: str, data: Mapping[str, Any] | None = None) -> Call[tuple[str, ...]]:
    """Report an event; returns the ids of the instructions that it acknowledged."""
    body = {"type": type, "data": data or {}}
    return Call("POST", "/v1/signals", _ids, body)


def stats(window: str = "24h") -> Call[Stats]:
    """Get figures about instructions, of the project and of each agent."""
    return Call("GET", "/v1/stats", Stats.read, params={"window": window})


def document(name: str, *, plan: str | None = None, tail: int | None = None) -> Call[str]:
    """Get the text of a rendering: retry-state.json, retry.log, retry.jsonl, state.md,
    failure-records.yaml, or a plan's summary.

    It covers the whole project, or one plan by its ref or id; `tail` limits a log to its last
    lines.
    """
    path = f"/v1/plans/{part(plan)}/{part(name)}" if plan else f"/v1/{part(name)}"
    params = given({"tail": None if tail is None else str(tail)})
    return Call("GET", path, str, params=params, accept="text/markdown, */*;q=0.5")


def log_piece(name: str, after: str = "", *, plan: str | None = None) -> Call[LogPiece]:
    """Get the lines of retry.log or retry.jsonl after a position; without it, all of its window.

    The piece's `cursor` is where to read on, later too: no line is missed or read twice.
    """
    path = f"/v1/plans/{part(plan)}/{part(name)}" if plan else f"/v1/{part(name)}"
    params = {"after": after}
    return Call("GET", path, _log_piece, params=params, accept="*/*", reads_answer=True)


def _log_piece(answer: Answer) -> LogPiece:
    headers = answer.headers
    return LogPiece(answer.text(), headers["next-cursor"], headers["has-more"] == "true")


def next_page(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Return the call for the next page, or None at the end."""
    if not page.next_cursor:
        return None
    return replace(call, params={**call.params, "cursor": page.next_cursor})


def _acked(answer: Any) -> tuple[Acked, ...]:
    return Acked.read_all(answer["data"])


def _ids(answer: Any) -> tuple[str, ...]:
    return tuple(answer["acknowledged"])


def page_of(read: Callable[[Any], T]) -> Callable[[Any], Page[T]]:
    return lambda data: Page(tuple(read(row) for row in data["data"]), data.get("next_cursor"))


def json_object(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise TypeError("not a JSON object")
    return data


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def part(id: str) -> str:
    # An id is one segment of the path, whatever the caller passes.
    return quote(id, safe="") or "-"
