"""The light on the page that connects an agent: which calls have arrived so far (pure)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.wording.formatting import whole_duration

LATE = timedelta(minutes=2)
# The same limit as in the command `tenfour doctor`.
CLOCK_S = 60
PROGRAM_LENGTH = 40
HOOK_WAYS = {"claude": "Claude Code", "codex": "Codex"}
KINDS = {"orc": "a producer’s token", "opr": "an operator’s token", "ro": "a reader’s token"}
WRONG_KIND = "scope_missing"


@dataclass(frozen=True, slots=True)
class Step:
    """A step to the first acknowledged instruction; `at` is None before it."""

    name: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """The light's form, title and sentence, and the button beside it."""

    css: str
    icon: str
    title: str
    text: str
    at: datetime | None = None
    offer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The first calls of a token, and its agent's first instruction."""

    agent: str
    created_at: datetime
    is_valid: bool
    first_used_at: datetime | None
    first_call: Mapping[str, Any] | None
    first_hook: Mapping[str, Any] | None
    instruction_text: str = ""
    queued_at: datetime | None = None
    delivered_at: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: Mapping[str, Any] | None = None
    failures: Sequence[Mapping[str, Any]] = ()

    @property
    def is_done(self) -> bool:
        return self.first_used_at is not None and self.acknowledged_at is not None

    @property
    def steps(self) -> list[Step]:
        return [
            Step("Token created", self.created_at),
            Step("First instruction queued", self.queued_at),
            Step("First call", self.first_used_at),
            Step("Instruction delivered", self.delivered_at),
            Step("Instruction acknowledged", self.acknowledged_at),
        ]

    @property
    def clock_ahead_s(self) -> int:
        return int((self.first_call or {}).get("clock_ahead_s", 0))


def read_light(arrival: Arrival, *, now: datetime, way: str = "") -> Light:
    if not arrival.is_valid:
        return Light(
            css="bad",
            icon="key",
            title="This token is no longer valid",
            text="It was revoked or has expired. Create another one in step 2.",
        )
    if arrival.is_done:
        return done(arrival)
    if arrival.first_used_at:
        return connected(arrival, way)
    if arrival.failures:
        return failed(arrival.failures[0])
    waited = now - arrival.created_at
    if waited >= LATE:
        return Light(
            css="warn",
            icon="clock",
            title=f"Nothing yet after {whole_duration(waited.total_seconds() // 60 * 60)}",
            text="Still listening. Most often the agent was not restarted, or the address can’t be "
            "reached from there.",
            offer="check",
        )
    return Light(
        css="wait",
        icon="plug",
        title="Waiting for the first call",
        text=f"from {arrival.agent}. Listening since",
        at=arrival.created_at,
    )


def done(arrival: Arrival) -> Light:
    took = ""
    if arrival.delivered_at and arrival.acknowledged_at:
        seconds = (arrival.acknowledged_at - arrival.delivered_at).total_seconds()
        took = f" {whole_duration(max(0, seconds))} after it was told"
    ran = describe_proof(arrival.acknowledged_by or {})
    return Light(
        css="ok",
        icon="check",
        title=f"{arrival.agent} is connected",
        text=f"It acknowledged its first instruction{took}{ran}.",
        offer="agent",
    )


def describe_proof(acknowledged_by: Mapping[str, Any]) -> str:
    """Return how an instruction was acknowledged, as the end of a sentence.

    >>> describe_proof({"signal": "fs_command", "data": {"line": "git status"}})
    ', by running `git status`'
    """
    data = acknowledged_by.get("data") or {}
    ran = data.get("line") or data.get("command")
    return f", by running `{str(ran)[:80]}`" if ran else ""


def connected(arrival: Arrival, way: str) -> Light:
    call, hook = arrival.first_call or {}, arrival.first_hook
    if hook:
        told = f"Delivered “{arrival.instruction_text}”, waiting for the command."
        return Light(
            css="ok",
            icon="check",
            title=f"{hook['what']} hook from {name_program(hook)}",
            text=f"{describe_origin(hook)} {told if arrival.delivered_at else 'The token works.'}",
            at=datetime.fromisoformat(hook["at"]),
            offer="open",
        )
    missing = ""
    if agent := HOOK_WAYS.get(way):
        missing = f" Hooks have not called yet: start {agent} in the project’s folder."
    return Light(
        css="ok",
        icon="check",
        title=f"Connected: {call.get('what') or 'a call'} from {name_program(call)}",
        text=f"{describe_origin(call)} The token works.{missing}",
        at=arrival.first_used_at,
        offer="open",
    )


def failed(failure: Mapping[str, Any]) -> Light:
    # Only the call's time connects it with this page.
    kind = KINDS.get(failure["prefix"].split("_")[1]) if failure["prefix"] else None
    origin = describe_origin(failure, name_program(failure))
    if failure["code"] == WRONG_KIND and kind:
        return Light(
            css="bad",
            icon="s-failed",
            title=f"That is {kind}",
            text=f"403, {origin} `{failure['prefix']}…` can’t do `{failure['what']}`. "
            "Use the token of step 2.",
            at=failure["at"],
        )
    said = (
        f"`{failure['prefix']}…`. {failure['detail']}" if failure["prefix"] else failure["detail"]
    )
    missing = failure["code"] == "token_missing"
    return Light(
        css="bad",
        icon="s-failed",
        title=f"A call with{'out a' if missing else ' a wrong'} token",
        text=f"{'403' if failure['code'] == WRONG_KIND else '401'}, {origin} {said} "
        "It is not the token of this page. Is an old `TENFOUR_TOKEN` set there?",
        at=failure["at"],
        offer="export",
    )


def describe_origin(call: Mapping[str, Any], program: str = "") -> str:
    return ", ".join(filter(None, (call.get("address", ""), program))) + "."


def name_program(call: Mapping[str, Any]) -> str:
    """Return the program of a call, from its user agent.

    >>> name_program({"program": "tenfour-python/0.1.0 (claude)"}), name_program({})
    ('tenfour-python 0.1.0 (claude)', 'an unnamed program')
    """
    program = str(call.get("program", "")).replace("/", " ", 1)
    return program[:PROGRAM_LENGTH].strip() or "an unnamed program"


def describe_clock(ahead_s: int) -> str:
    """Return by how much a clock is wrong, or an empty string.

    >>> describe_clock(-400), describe_clock(20)
    ('6 m 40 s behind', '')
    """
    if abs(ahead_s) < CLOCK_S:
        return ""
    return f"{whole_duration(abs(ahead_s))} {'ahead' if ahead_s > 0 else 'behind'}"
