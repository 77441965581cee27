"""The command `tenfour hook`: Claude Code and Codex run it at each event of a session.

It never stops an agent because of Tenfour: where the server is away, it stores the event, prints
nothing, and exits with 0. The server has the rules; this side adds what only it can do: it runs
the task's check when the agent wants to stop.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfour import settings
from tenfour.commands.terminal import OK, USAGE, complain, note, say
from tenfour.hooks.hook_events import (
    ASKING,
    EVENTS,
    SHELL,
    TOOL_EVENTS,
    WAIT_S,
    has_news,
    reduce_event,
)
from tenfour.hooks.hook_store import HookStore
from tenfour.http.core import Call, Core
from tenfour.http.drivers import Driver
from tenfour.http.problems import ServerAway, TenfourError
from tenfour.setup.connections import shares_transcripts, state_folder

if TYPE_CHECKING:
    import argparse

    from tenfour.checks.verification import Verified
    from tenfour.client import Client

PATH = "/v1/hooks/agent"
AGENTS = ("claude", "codex")
# The transcript is read for tokens so often while the agent works.
USAGE_EVERY_S = 60.0
# An agent waits for each call.
TIMEOUTS_S = {
    "PreToolUse": 3.0,
    "PostToolUse": 3.0,
    "PostToolUseFailure": 3.0,
    "SubagentStop": 3.0,
    "Notification": 3.0,
    "SessionEnd": 1.0,
}
TIMEOUT_S = 8.0
# The time for stored events in front of the agent's own.
RESEND_S = 2.0
# At these events, the session's record is read for what had no event.
REVIEWS = {"PostToolUse", "Stop"}
LONGEST_INPUT = 64 * 1024 * 1024
# At these, the session's record has what its account's limits were last.
ENDS = {"Stop", "StopFailure", "SessionEnd"}
BUSY = {408, 425}


def add_hook_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", choices=AGENTS, help="the program that runs this hook")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 2 if Tenfour is unreachable, which keeps the agent from continuing",
    )
    parser.add_argument(
        "--status-line",
        action="store_true",
        help="read what Claude Code gives its status line; print and send the account's limits",
    )
    parser.add_argument(
        "--wait",
        type=int,
        default=WAIT_S,
        metavar="SECONDS",
        help="at PermissionRequest, how long to wait for an answer: less than the hook's timeout",
    )


def hook(args: argparse.Namespace) -> int:
    """Read an event from stdin and print what the agent's program reads; exits with 0."""
    raw = sys.stdin.buffer.read(LONGEST_INPUT)
    if args.status_line:
        from tenfour.hooks.status_line import show_status_line

        return show_status_line(args, raw)
    event = read_event(raw)
    if event is None:
        return OK
    if event["hook_event_name"] in ASKING:
        from tenfour.hooks.permission_hook import ask_permission

        return ask_permission(args, event)
    try:
        call = HookCall(settings.read(args.url), event, os.environ, program=args.agent or "")
    except TenfourError as error:
        complain(error)
        return OK
    try:
        call.leave_usage()
        answer = call.answer()
    except ServerAway as away:
        complain(away)
        call.share_transcript(event, {}, program=args.agent or "", is_away=True)
        return USAGE if args.strict else OK
    except TenfourError as error:
        complain(error)
        return OK
    except OSError as error:
        note(f"hook: {error}")
        return OK
    shown = {name: value for name, value in answer.items() if name != "tenfour"}
    if shown:
        say(json.dumps(shown, ensure_ascii=False))
    call.share_transcript(event, answer, program=args.agent or "")
    return OK


def read_event(raw: bytes) -> dict[str, Any] | None:
    """Return the event on stdin; says why, and returns None, if there is none to handle."""
    try:
        event = json.loads(raw.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        note(f"hook: the event on stdin is not JSON, and is ignored: {error}")
        return None
    name = event.get("hook_event_name") if isinstance(event, dict) else None
    if not isinstance(name, str):
        note("hook: stdin has no hook event with a 'hook_event_name', and is ignored.")
        return None
    if name not in EVENTS:
        note(f"hook: the event {name[:64]} is unknown, and is ignored.")
        return None
    return dict(event)


class HookCall:
    """One event on its way to the server, and the handling of the answer."""

    def __init__(
        self,
        given: settings.Settings,
        event: Mapping[str, Any],
        environ: Mapping[str, str],
        *,
        program: str = "",
    ) -> None:
        self.event = reduce_event(event, environ) | ({"program": program} if program else {})
        self.name: str = self.event["hook_event_name"]
        self.session: str = self.event.get("session_id", "")
        self.environ = environ
        self.store = HookStore(state_folder(environ), url=given.url, token=given.token)
        self.driver = Driver(given, TIMEOUTS_S.get(self.name, TIMEOUT_S))
        self.core = Core(given, retries=0)
        self.given = given
        self.held: str = self.environ.get("TENFOUR_ATTEMPT", "")
        self.transcript: Any = event.get("transcript_path")
        # What only this machine knows about the event.
        self.found: dict[str, Any] = {}

    @property
    def is_managed(self) -> bool:
        """Return whether the agent runs inside `tenfour run`, which verifies and reports."""
        return bool(self.environ.get("TENFOUR_ATTEMPT"))

    def local(self, **more: Any) -> dict[str, Any]:
        """Return what this side sends the server besides the event."""
        found: dict[str, Any] = {"folder": self.folder[:1024], "managed": self.is_managed}
        if self.is_managed:
            found["attempt"] = self.environ["TENFOUR_ATTEMPT"]
        elif task := self.environ.get("TENFOUR_TASK"):
            found["task"] = task
        if not more.get("late") and self.tells_usage() and (usage := self.read_usage()):
            found["usage"] = usage
        if self.name in ENDS and isinstance(self.transcript, str):
            from tenfour.sessions.limit_records import read_limit_records

            if records := read_limit_records(os.path.expanduser(self.transcript)):
                found["limits"] = records
        return found | self.found | more

    @property
    def folder(self) -> str:
        """Return the project's folder, as far as it is known."""
        return self.environ.get("CLAUDE_PROJECT_DIR") or self.event.get("cwd", "")

    def answer(self) -> dict[str, Any]:
        """Return the server's answer; raises ServerAway after storing what must not be lost."""
        # The end of the session forgets it, and its last lines belong to it all the same.
        self.held = self.held or self.store.session(self.session).get("attempt", "")
        # What keeps a call from beginning is asked each time.
        has_asked = self.name in TOOL_EVENTS and self.store.has_asked()
        if not has_news(self.event) and (self.store.is_away() or has_asked):
            return {}
        self.note_exit_code()
        if self.name == "Stop" or self.has_run_check():
            self.note_tree()
        try:
            if self.store.is_away() and self.name in TOOL_EVENTS:
                raise ServerAway("Tenfour did not answer a moment ago.", code="server_away")
            self.resend()
            self.report_late_commands()
            answer = self.send(self.event | {"tenfour": self.local()})
            if self.name in TOOL_EVENTS:
                self.store.note_asked()
            self.remember(answer)
            if self.name == "Stop" and "decision" not in answer:
                answer = self.check(answer) or answer
            return answer
        except ServerAway as away:
            self.store_event(away)
            raise
        finally:
            self.driver.close()

    def send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send an event and return the answer; raises ServerAway also where a proxy answers."""
        call = Call("POST", PATH, dict, body=body)
        try:
            return self.driver.run(self.core.perform(call))
        except ServerAway:
            raise
        except TenfourError as error:
            is_limited = error.status == 429 and error.retryable
            if is_limited or error.status in BUSY or error.status >= 500:
                raise ServerAway(error.sentence, code=error.code, hint=error.hint) from error
            raise

    # ---- how a command ended, and on which files

    def note_exit_code(self) -> None:
        """Note the exit code of a shell call of Codex, which only its rollout tells."""
        call = self.event.get("tool_use_id")
        is_shell = self.name == "PostToolUse" and self.event.get("tool_name") == SHELL
        if is_shell and call and self.rollout:
            from tenfour.sessions.rollouts import find_exit_code

            code = find_exit_code(self.rollout, call)
            self.found |= {} if code is None else {"exit_code": code}

    @property
    def rollout(self) -> str:
        """Return the file in which Codex records the session; empty for another program."""
        is_codex = self.event.get("program") == "codex" and isinstance(self.transcript, str)
        return os.path.expanduser(self.transcript) if is_codex else ""

    def report_late_commands(self) -> None:
        """Report how commands of Codex ended that ran on: there is no hook at their end."""
        if not self.rollout or self.name not in REVIEWS:
            return
        from tenfour.sessions.rollouts import read_late_commands

        reported = self.store.reported_calls(self.session)
        for item in read_late_commands(self.rollout):
            words = item.get("command")
            line = words[-1] if isinstance(words, list) and words else None
            if item["id"] in reported or not isinstance(line, str):
                continue
            call = {"tool_name": SHELL, "tool_input": {"command": line}, "tool_use_id": item["id"]}
            body = {**self.event, "hook_event_name": "PostToolUse", **call}
            event = reduce_event(body, self.environ) | {"program": "codex"}
            # The files that it ran on are not known.
            local = self.local(late=True, exit_code=item["exit_code"], tree=None)
            self.send(event | {"tenfour": local})
            self.store.note_reported(self.session, [item["id"]])

    def has_run_check(self) -> bool:
        """Return whether a shell call may have run the check of the session's task."""
        if self.name not in TOOL_EVENTS or self.event.get("tool_name") != SHELL:
            return False
        line = str(self.event.get("tool_input", {}).get("command", ""))
        check = self.held_check()
        return bool(check) and " ".join(check.split()) in " ".join(line.split())

    def held_check(self) -> str:
        """Return the check of the session's task, or the proposed one; empty without either."""
        held = self.store.session(self.session)
        return str((held.get("verify") or {}).get("command") or held.get("proposed") or "")

    def note_tree(self) -> None:
        """Note the project's files as they are now, if the session's task has a check."""
        if self.is_managed or not self.held_check():
            return
        from tenfour.checks.trees import read_tree

        held = self.store.session(self.session)
        tree = self.found["tree"] = read_tree(self.folder, before=held.get("tree"))
        if self.name in TOOL_EVENTS:
            self.store.save_session(self.session, {**held, "tree": tree})

    # ---- what the attempt used

    def tells_usage(self) -> bool:
        """Return whether this event brings the tokens: a stop, or a call once a minute."""
        if self.name == "Stop" or self.is_managed:
            return self.name == "Stop" and not self.is_managed
        held = self.store.session(self.session)
        told_at = held.get("usage_at") or held.get("since") or inf
        if self.name != "PostToolUse" or time.time() - told_at < USAGE_EVERY_S:
            return False
        self.store.save_session(self.session, {**held, "usage_at": time.time()})
        return True

    def read_usage(self) -> Mapping[str, Any] | None:
        """Return the tokens of the session's attempt, as far as its transcript has them."""
        if self.is_managed:
            begun = self.environ.get("TENFOUR_PROMPT_FILE", "")
            since = os.path.getmtime(begun) if os.path.isfile(begun) else None
        else:
            since = self.store.session(self.session).get("since")
        if since is None or not isinstance(self.transcript, str):
            return None
        from tenfour.sessions.transcript_usage import sum_usage

        with suppress(OSError):
            return sum_usage(os.path.expanduser(self.transcript), since=since)
        return None

    def leave_usage(self) -> None:
        """Leave the tokens to `tenfour run`, which reports the attempt."""
        path = self.environ.get("TENFOUR_USAGE_FILE", "")
        if not self.is_managed or not os.path.isfile(path):
            return
        is_due = time.time() - os.path.getmtime(path) >= USAGE_EVERY_S
        is_told = self.name == "Stop" or (self.name == "PostToolUse" and is_due)
        if is_told and (usage := self.read_usage()):
            Path(path).write_text(json.dumps(usage), encoding="utf-8")

    # ---- the session's transcript

    def share_transcript(
        self,
        event: Mapping[str, Any],
        answer: Mapping[str, Any],
        *,
        program: str,
        is_away: bool = False,
    ) -> None:
        """Send the transcript's new lines, if that is switched on."""
        if not shares_transcripts(self.given.url, Path.cwd(), self.environ):
            return
        from tenfour.hooks import hook_transcripts

        attempt = (answer.get("tenfour") or {}).get("attempt") or self.held
        hook_transcripts.share_transcript(
            hook_transcripts.TranscriptStore(self.store.folder),
            event,
            self.given,
            self.environ,
            format=program,
            attempt=attempt,
            is_away=is_away,
        )

    # ---- the attempt of the session

    def remember(self, answer: Mapping[str, Any]) -> None:
        """Note which attempt the session holds, for a stop while the server is down."""
        if held := answer.get("tenfour"):
            known = self.store.session(self.session)
            is_known = known.get("attempt") == held.get("attempt") and "since" in known
            since = known["since"] if is_known else time.time()
            kept = {"since": since, "tree": known.get("tree") if is_known else None}
            kept |= {"usage_at": known["usage_at"]} if is_known and "usage_at" in known else {}
            self.store.save_session(self.session, {**held, **kept})
        elif self.name == "SessionEnd" or (self.name == "Stop" and self.is_over(answer)):
            self.store.forget_session(self.session)

    def is_over(self, answer: Mapping[str, Any]) -> bool:
        """Return whether a Stop has ended the attempt: nothing holds it, or runs on."""
        tasks = self.event.get("background_tasks", [])
        return "decision" not in answer and not any(
            task.get("status") == "running" for task in tasks
        )

    def check(self, answer: Mapping[str, Any]) -> dict[str, Any] | None:
        """Run the requested check, and return its decision; None without one."""
        verify = (answer.get("tenfour") or {}).get("verify")
        if not verify:
            return None
        result = self.run_check(verify)
        try:
            decided = self.send(self.event | {"tenfour": self.local(verification=result)})
        except ServerAway:
            self.store_stop(answer["tenfour"], result)
            raise
        self.remember(decided)
        return decided

    def run_check(self, verify: Mapping[str, Any]) -> dict[str, Any]:
        """Run the check, note the files that it left, and return its result."""
        ran = run_check(verify, folder=self.folder or None)
        self.found["tree"] = ran.tree
        return ran.fields

    # ---- while the server is down

    def store_event(self, away: ServerAway) -> None:
        """Store an event that must reach the server later."""
        if "timed out" in away.detail:
            self.store.note_away()
        if self.name in TOOL_EVENTS and has_news(self.event):
            self.store.add_event(self.event | {"tenfour": self.local(late=True)})
        held = {} if self.is_managed else self.store.session(self.session)
        if held and self.name == "Stop":
            verify = held.get("verify")
            self.store_stop(held, self.run_check(verify) if verify else None)
        elif held and self.name == "SessionEnd":
            self.store.add_event(self.event | {"tenfour": self.local(late=True)})
            self.store.forget_session(self.session)

    def store_stop(self, held: Mapping[str, Any], result: Mapping[str, Any] | None) -> None:
        """Store the report of the session's attempt; the agent may stop meanwhile."""
        local = self.local(late=True, attempt=held["attempt"])
        if result is not None:
            local["verification"] = result
        self.store.add_event(self.event | {"tenfour": local})
        self.store.forget_session(self.session)

    def resend(self) -> None:
        """Send stored events, as long as the agent can wait."""
        send_stored(self.store, self.send, seconds=RESEND_S)


def send_stored(
    store: HookStore, send: Callable[[dict[str, Any]], object], *, seconds: float = inf
) -> int:
    """Send stored events, oldest first, and return how many; raises ServerAway."""
    until, count = time.monotonic() + seconds, 0
    for path, event, age_s in store.list_stored():
        if time.monotonic() > until:
            break
        try:
            if isinstance(event, dict):
                send(event | {"tenfour": {**event.get("tenfour", {}), "age_s": age_s}})
                count += 1
        except ServerAway:
            raise
        except TenfourError as error:
            if error.status in {401, 403}:
                break  # it is the token's fault
            complain(error, subject="hook: a stored event was refused")
        path.unlink(missing_ok=True)
    return count


def resend_events(client: Client) -> int:
    """Send the events that hooks stored for this server and token; return how many."""
    from tenfour.hooks.hook_transcripts import resend_transcripts

    given = client.settings
    store = HookStore(state_folder(os.environ), url=given.url, token=given.token)
    count = send_stored(store, lambda body: client.perform(Call("POST", PATH, dict, body=body)))
    return count + resend_transcripts(store.folder, client.perform, os.environ)


def run_check(verify: Mapping[str, Any], *, folder: str | None) -> Verified:
    """Run a task's check in the project's folder."""
    from tenfour.checks import verification

    check = verification.Check(
        command=verify["command"],
        cwd=os.path.join(folder or "", verify["cwd"]) if verify.get("cwd") else folder,
        timeout_s=verify.get("timeout_s") or verification.TIMEOUT_S,
        expect_exit=verify.get("expect_exit") or 0,
    )
    return verification.run(check, should_stop=lambda: False)
