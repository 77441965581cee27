"""Ask people about a tool call: the event PermissionRequest of Claude Code and Codex.

No answer means neither yes nor no. So this prints a decision that the server has made, or nothing
at all: then the agent's own program decides, as it does without Tenfour.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tenfour import settings
from tenfour.commands.terminal import OK, complain, note, say
from tenfour.hooks.hook import HookCall
from tenfour.hooks.hook_events import ELICITATION, LENGTHS, PERMISSION, reduce_event
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.redaction.masking import masked

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

LONGEST_WAIT_S = 86_400
POLL_AFTER_S = 1.0
LONGEST_POLL_S = 30.0
WITHDRAW_TIMEOUT_S = 2.0
INPUT_BYTES = 200 * 1024
SAID_LENGTH = 4000
# What a decision may have beside its behavior.
FIELDS: Mapping[str, Mapping[str, type]] = {
    "allow": {"updatedInput": dict},
    "deny": {"message": str, "interrupt": bool},
}
# A name that is cut is another tool, and a path another folder.
WHOLE = ("tool_name", "cwd")
SUBAGENT = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Unsendable(ValueError):
    """A call that people can't judge, since it can't be sent whole."""


def ask_permission(args: argparse.Namespace, event: Mapping[str, Any]) -> int:
    """Print the decision about a call, or nothing; exits with 0."""
    try:
        with interrupted_by_end():
            decision = find_decision(args, event)
            if decision is not None:
                say(json.dumps(decision))
    except KeyboardInterrupt:
        pass
    except TenfourError as error:
        complain(error)
    except Exception as error:
        # Whatever it is, it must not decide about the call.
        note(f"hook: no one was asked about the call: {type(error).__name__}: {error}")
    return OK


@contextmanager
def interrupted_by_end() -> Iterator[None]:
    """Raise KeyboardInterrupt where the agent's program ends the hook, which withdraws."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def find_decision(args: argparse.Namespace, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ask, and wait for the answer; raises TenfourError where the server refuses or is away."""
    program = args.agent or ""
    call = HookCall(settings.read(args.url), event, os.environ, program=program)
    try:
        call.event = reduce_request(event, os.environ) | ({"program": program} if program else {})
        if len(call.folder) > LENGTHS["cwd"]:
            raise Unsendable("the name of its folder is too long.")
        asking = Asking(call, wait_s=args.wait, program=program)
        return asking.run(masked(find_said(event), os.environ)[-SAID_LENGTH:])
    finally:
        call.driver.close()


def reduce_request(event: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the event with the whole call, without this machine's secrets.

    Raises Unsendable: people must see all of what they allow.
    """
    if event["hook_event_name"] == ELICITATION:
        event = {**event, "tool_name": ELICITATION, "tool_input": read_form(event)}
    given = event.get("tool_input")
    if not isinstance(given, Mapping):
        raise Unsendable("the event has no tool_input.")
    if any(len(str(event.get(name, ""))) > LENGTHS[name] for name in WHOLE):
        raise Unsendable("the name of its tool or folder is too long.")
    tool_input = mask_values(given, environ)
    if len(json.dumps(tool_input, ensure_ascii=False).encode(errors="replace")) > INPUT_BYTES:
        raise Unsendable(f"it has more than {INPUT_BYTES // 1024} KB.")
    return reduce_event(event, environ) | {"tool_input": tool_input}


def read_form(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an MCP server asks; raises Unsendable where it asks for more than a form."""
    if event.get("mode", "form") != "form":
        raise Unsendable("the MCP server asks to open an address.")
    names = ("mcp_server_name", "message", "requested_schema")
    return {name: event[name] for name in names if name in event}


def mask_values(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return masked(value, environ)
    if isinstance(value, Mapping):
        found = {masked(str(key), environ): mask_values(value[key], environ) for key in value}
        if len(found) < len(value):
            raise Unsendable("two of its fields differ in a secret alone.")
        return found
    if isinstance(value, list):
        return [mask_values(each, environ) for each in value]
    return value


def find_said(event: Mapping[str, Any]) -> str:
    """Return what the agent, or the subagent that makes the call, has said last."""
    from tenfour.sessions.last_text import read_last_text

    path, subagent = event.get("transcript_path"), event.get("agent_id")
    if not isinstance(path, str):
        return ""
    path = os.path.expanduser(path)
    if isinstance(subagent, str) and subagent:
        if not SUBAGENT.fullmatch(subagent):
            return ""
        path = os.path.join(path.removesuffix(".jsonl"), "subagents", f"agent-{subagent}.jsonl")
    return read_last_text(path)


def read_when_silent(program: str, environ: Mapping[str, str]) -> str:
    """Return what happens without an answer, as the agent's program says by its variables.

    Codex opens its dialog after the hook. Claude Code shows it meanwhile, and refuses where no one
    sits at a terminal: with `-p`, and from its SDK.
    """
    if program == "codex":
        return "terminal_asks"
    is_alone = environ.get("CLAUDE_CODE_SESSION_ATTENDED") == "0"
    is_sdk = environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")
    return "refuses" if is_alone or is_sdk else "terminal_waits"


class Asking:
    """A request and its polls, until a decision or the end of the wait."""

    def __init__(self, call: HookCall, *, wait_s: int, program: str) -> None:
        self.call = call
        self.wait_s = min(max(wait_s, 1), LONGEST_WAIT_S)
        self.until = time.monotonic() + self.wait_s
        self.when_silent = read_when_silent(program, call.environ)
        self.id = ""

    def run(self, said: str) -> dict[str, Any] | None:
        """Return the decision; None without one."""
        try:
            answer: Mapping[str, Any] = self.send(said=said)
            while (decision := read_decision(answer, self.call.name)) is None:
                pause = self.read_pause(answer)
                if pause is None or time.monotonic() + pause >= self.until:
                    return None
                time.sleep(pause)
                answer = self.poll(answer)
            return decision
        except KeyboardInterrupt:
            self.withdraw()
            raise

    def read_pause(self, answer: Mapping[str, Any]) -> float | None:
        """Return the seconds until the next poll, and note the request; None without one."""
        held = answer.get("tenfour")
        id = held.get("permission") if isinstance(held, Mapping) else None
        if not isinstance(id, str) or not id:
            return None
        self.id = id
        pause = held.get("poll_after_s") if isinstance(held, Mapping) else None
        is_number = isinstance(pause, (int, float)) and not isinstance(pause, bool)
        seconds = float(pause) if is_number and pause else POLL_AFTER_S
        return seconds if POLL_AFTER_S / 10 <= seconds <= LONGEST_POLL_S else POLL_AFTER_S

    def poll(self, held: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask for the answer again; while the server is away, the request is still held."""
        # The server has the call, which may be large.
        self.call.event.pop("tool_input", None)
        try:
            return self.send(id=self.id)
        except ServerAway:
            return held

    def send(self, **more: str) -> dict[str, Any]:
        permission = {"wait_s": self.wait_s, "when_silent": self.when_silent, **more}
        return self.call.send(self.call.event | {"tenfour": self.call.local(permission=permission)})

    def withdraw(self) -> None:
        """Take the request back; the agent's program no longer waits for this hook."""
        if not self.id:
            return
        driver = Driver(self.call.given, WITHDRAW_TIMEOUT_S)
        path = f"/v1/permissions/{self.id}/withdraw"
        with suppress(TenfourError, OSError):
            driver.run(Core(self.call.given, retries=0).perform(Call("POST", path, dict, body={})))
        driver.close()


def read_decision(answer: Mapping[str, Any], event: str = PERMISSION) -> dict[str, Any] | None:
    """Return the hook's output with a decision; None for anything that is not exactly that.

    >>> read_decision({"hookSpecificOutput": {"hookEventName": "PermissionRequest",
    ...                                       "decision": {"behavior": "maybe"}}})
    """
    output = answer.get("hookSpecificOutput")
    if not isinstance(output, dict) or output.get("hookEventName") != event:
        return None
    if event == ELICITATION:
        return read_form_answer(output)
    decision = output.get("decision")
    if not isinstance(decision, dict) or decision.get("behavior") not in ("allow", "deny"):
        return None
    fields = FIELDS[decision["behavior"]]
    rest = {name: value for name, value in decision.items() if name != "behavior"}
    if not all(type(value) is fields.get(name) for name, value in rest.items()):
        return None
    return {"hookSpecificOutput": {"hookEventName": PERMISSION, "decision": decision}}


def read_form_answer(output: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the hook's output with the answer to an MCP server's form; None for anything else."""
    content = output.get("content")
    if output.get("action") == "accept" and isinstance(content, dict):
        given: dict[str, Any] = {"action": "accept", "content": content}
    elif output.get("action") == "decline" and content is None:
        given = {"action": "decline"}
    else:
        return None
    return {"hookSpecificOutput": {"hookEventName": ELICITATION, **given}}
