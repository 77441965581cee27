"""The command `tenfour mcp -- COMMAND`: run an MCP server, and ask people what it asks.

COMMAND is an MCP server, or `codex app-server`. All lines pass between it and the agent's program.
But what it asks a person is asked in Tenfour first. A decision goes back to COMMAND; without one
the question passes on, and the agent's program asks as it does without Tenfour.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from tenfour import settings
from tenfour.attempts.permissions import ask, await_decision
from tenfour.commands.program_questions import Question, Questions
from tenfour.commands.terminal import complain, note
from tenfour.hooks.permission_hook import Unsendable
from tenfour.http.core import Core
from tenfour.http.drivers import Driver, Exhausted
from tenfour.http.problems import TenfourError
from tenfour.runs.runner import exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 30.0
# How long the end waits for questions to be withdrawn.
PATIENCE_S = 5.0
NOT_FOUND = 127
# who is written to, and who asks
PROGRAM, AGENT = "program", "agent"
MARKS = (b'"method"', b'"input_required"', b'serverInfo"')
# The calls whose results may ask for answers, since MCP 2026-07-28; so many are kept.
CALLS = frozenset({"tools/call", "prompts/get", "resources/read"})
MOST_CALLS = 1000
CANCELED = frozenset({"notifications/cancelled", "serverRequest/resolved"})


def relay(command: Sequence[str], given: settings.Settings, *, wait_s: int) -> int:
    """Run the command until it ends; return its exit status. People have `wait_s` to answer."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        note(f"{command[0]}: {error.strerror}")
        return NOT_FOUND
    with passing_signals_to(child):
        name = os.path.basename(command[0])
        return Relay(child, given, name=name, wait_s=wait_s).run()


@contextmanager
def passing_signals_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass on the signals that end this program: it ends when the child does."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {each: signal.getsignal(each) for each in signals}
    for each in signals:
        signal.signal(each, lambda number, _: child.send_signal(number))
    try:
        yield
    finally:
        for each in signals:
            signal.signal(each, before[each])


class Relay:
    """The lines between a program and the one that started this."""

    def __init__(
        self, child: subprocess.Popen[bytes], given: settings.Settings, *, name: str, wait_s: int
    ) -> None:
        self.child = child
        self.wait_s = wait_s
        self.given = given
        self.questions = Questions(os.environ, program=name)
        # The agent's calls, which go again with the answers that their results ask for.
        self.calls: dict[str, Mapping[str, Any]] = {}
        # What waits for people, by the program that asks and the id of its request.
        self.held: dict[tuple[str, str], Event] = {}
        self.threads: list[Thread] = []
        self.locks = {PROGRAM: Lock(), AGENT: Lock()}

    def run(self) -> int:
        assert self.child.stdout
        Thread(target=self.pass_in, name="tenfour-stdin", daemon=True).start()
        for line in self.child.stdout:
            if not self.asks(line):
                self.write(AGENT, line)
        status = self.child.wait()
        for ended in list(self.held.values()):
            ended.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)
        return exit_code(status)

    def pass_in(self) -> None:
        """Pass on what the agent's program says, and its end."""
        # `sys.stdin` can't be closed at exit while a thread reads it.
        with open(0, "rb", closefd=False) as stdin:
            for line in stdin:
                message = read_message(line)
                self.note_canceled(AGENT, message)
                if message.get("method") in CALLS and "id" in message:
                    self.calls[key_of(message["id"])] = message
                    if len(self.calls) > MOST_CALLS:
                        del self.calls[next(iter(self.calls))]
                self.write(PROGRAM, line)
        with self.locks[PROGRAM], suppress(OSError):
            assert self.child.stdin
            self.child.stdin.close()

    def write(self, to: str, line: bytes) -> None:
        stream: Any = self.child.stdin if to == PROGRAM else sys.stdout.buffer
        with self.locks[to], suppress(OSError, ValueError):  # its reader has ended
            stream.write(line)
            stream.flush()

    def note_canceled(self, by: str, message: Mapping[str, Any]) -> None:
        params = message.get("params")
        if message.get("method") in CANCELED and isinstance(params, dict):
            ended = self.held.get((by, key_of(params.get("requestId"))))
            if ended:
                ended.set()

    def asks(self, line: bytes) -> bool:
        """Begin to ask people, if this line is a question to them; return whether it is held."""
        message = read_message(line)
        self.note_canceled(PROGRAM, message)
        self.questions.note_name(message.get("result"))
        try:
            if call := self.find_call(message):
                result = message["result"]
                forms = result["inputRequests"]
                questions = {name: self.questions.read({**forms[name], "id": 0}) for name in forms}
                by = AGENT

                def build(results: Mapping[str, Any]) -> Mapping[str, Any]:
                    more = {"inputResponses": results, "requestState": result.get("requestState")}
                    return {**call, "params": {**call["params"], **more}}
            else:
                questions = {"": self.questions.read(message)}
                by = PROGRAM

                def build(results: Mapping[str, Any]) -> Mapping[str, Any]:
                    return {"jsonrpc": "2.0", "id": message["id"], "result": results[""]}
        except Unsendable as error:
            note(f"mcp: no one was asked about the call: {error}")
            return False
        asked = {name: each for name, each in questions.items() if each}
        if len(asked) < len(questions):
            return False  # one of them is not for people
        ended = self.held[by, key_of(message["id"])] = Event()
        thread = Thread(target=self.hold, args=(line, asked, build, ended), daemon=True)
        self.threads = [*filter(Thread.is_alive, self.threads), thread]
        thread.start()
        return True

    def find_call(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the agent's call whose result asks for the answers to forms."""
        result = message.get("result")
        if not isinstance(result, dict) or result.get("resultType") != "input_required":
            return None
        forms, call = result.get("inputRequests"), self.calls.get(key_of(message.get("id")))
        is_form = isinstance(forms, dict) and all(isinstance(each, dict) for each in forms.values())
        is_known = call is not None and isinstance(call.get("params"), dict)
        return call if forms and is_form and is_known else None

    def hold(
        self,
        line: bytes,
        questions: Mapping[str, Question],
        build: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        ended: Event,
    ) -> None:
        """Give the program a decision, or pass its question on."""
        results: dict[str, Any] = {}
        try:
            for name, question in questions.items():
                result = self.find_result(question, ended)
                if result is None:
                    break
                results[name] = result
        except TenfourError as error:
            complain(error)
        except Exception as error:
            # Whatever it is, it must not decide about the call.
            note(f"mcp: no one was asked about the call: {type(error).__name__}: {error}")
        if ended.is_set():
            return  # the program no longer waits for an answer
        if len(results) == len(questions):
            self.write(PROGRAM, json.dumps(build(results)).encode() + b"\n")
        else:
            self.write(AGENT, line)

    def find_result(self, question: Question, ended: Event) -> dict[str, Any] | None:
        """Ask, and wait for the answer; raises TenfourError where the server refuses."""

        def sleep(seconds: float) -> None:
            if ended.wait(seconds):
                raise Exhausted

        driver = Driver(self.given, TIMEOUT_S)
        asked = ask(
            question.tool,
            question.input,
            folder=question.folder,
            session=question.session,
            call_id=question.call_id,
            asked_by=self.questions.program,
            when_silent="terminal_asks",
            wait_s=self.wait_s,
        )
        steps = await_decision(Core(self.given), asked, wait_s=self.wait_s)
        try:
            return question.build_result(driver.run(steps, sleep))
        except Exhausted:
            return None
        finally:
            driver.close()


def read_message(line: bytes) -> Mapping[str, Any]:
    """Return the JSON-RPC message in a line; an empty one if it can't matter here."""
    if not any(mark in line for mark in MARKS):
        return {}
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def key_of(id: object) -> str:
    """Return a request's id as a key: 1 and "1" are two ids."""
    return json.dumps(id)
