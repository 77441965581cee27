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
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from tenfour import settings
from tenfour.attempts.permissions import ask, await_decision
from tenfour.commands.program_questions import Question, Questions
from tenfour.commands.terminal import note
from tenfour.http.core import Core
from tenfour.http.drivers import Driver, Exhausted
from tenfour.http.problems import TenfourError
from tenfour.runs.runner import exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 30.0
# How long the exit waits for questions to be withdrawn.
PATIENCE_S = 5.0
NOT_FOUND = 127
# The two ends: each can be written to, and each can ask.
PROGRAM, AGENT = "program", "agent"
MARKS = (b'"method"', b'"input_required"', b'serverInfo"', b'"thread"')
# The calls whose results may ask for answers, since MCP 2026-07-28; at most MOST_CALLS are kept.
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


@dataclass(frozen=True)
class Held:
    """The questions of one end in one line, and the form in which the decisions are written."""

    by: str
    questions: Mapping[str, Question]
    build_answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]


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
        self.end_questions()
        until = time.monotonic() + PATIENCE_S
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        return exit_code(status)

    def end_questions(self) -> None:
        for ended in list(self.held.values()):
            ended.set()

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
        self.end_questions()
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
        if message.get("method") not in CANCELED or not isinstance(params, dict):
            return
        key = key_of(params.get("requestId"))
        if by == AGENT:
            self.calls.pop(key, None)
        if ended := self.held.get((by, key)):
            ended.set()

    def asks(self, line: bytes) -> bool:
        """Begin to ask people, if this line is a question to them; return whether it is held."""
        message = read_message(line)
        try:
            self.note_canceled(PROGRAM, message)
            self.questions.note(message)
            found = self.read_questions(message)
        except Exception as error:
            # Whatever it is, the line must pass on.
            explain(f"no one was asked about the call: {error}")
            return False
        if found is None:
            return False
        key = (found.by, key_of(message["id"]))
        ended = self.held[key] = Event()
        thread = Thread(target=self.hold, args=(line, found, key, ended), daemon=True)
        self.threads = [*filter(Thread.is_alive, self.threads), thread]
        thread.start()
        return True

    def read_questions(self, message: Mapping[str, Any]) -> Held | None:
        """Return what a message asks people, if it asks nothing else."""
        if call := self.find_call(message):
            return self.read_forms(call, message["result"])
        question = self.questions.read(message)
        if question is None:
            return None
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        return Held(PROGRAM, {"": question}, lambda results: {**answer, "result": results[""]})

    def read_forms(self, call: Mapping[str, Any], result: Mapping[str, Any]) -> Held | None:
        """Return the forms in the result of a call, which goes again with their answers."""
        questions = {
            name: self.questions.read({**form, "id": 0})
            for name, form in result["inputRequests"].items()
        }
        asked = {name: each for name, each in questions.items() if each}
        if len(asked) < len(questions):
            return None  # one of them is not for people
        state = {name: result[name] for name in ("requestState",) if name in result}

        def build(results: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**call, "params": {**call["params"], **state, "inputResponses": results}}

        return Held(AGENT, asked, build)

    def find_call(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the agent's call whose result asks for the answers to forms."""
        result = message.get("result")
        if not isinstance(result, dict) or result.get("resultType") != "input_required":
            return None
        forms, call = result.get("inputRequests"), self.calls.get(key_of(message.get("id")))
        is_form = isinstance(forms, dict) and all(isinstance(each, dict) for each in forms.values())
        is_known = call is not None and isinstance(call.get("params"), dict)
        return call if forms and is_form and is_known else None

    def hold(self, line: bytes, asked: Held, key: tuple[str, str], ended: Event) -> None:
        """Give the program a decision, or pass its question on."""
        answer = None
        try:
            results: dict[str, Any] = {}
            for name, question in asked.questions.items():
                result = self.find_result(question, ended)
                if result is None:
                    break
                results[name] = result
            else:
                answer = json.dumps(asked.build_answer(results)).encode() + b"\n"
        except TenfourError as error:
            explain(f"{error.sentence} {error.hint}")
        except Exception as error:
            # Whatever it is, it must not decide about the call.
            explain(f"no decision about the call: {type(error).__name__}: {error}")
        if self.held.get(key) is ended:
            del self.held[key]
        if ended.is_set():
            return  # the program no longer waits for an answer
        if answer is None:
            self.write(AGENT, line)
        else:
            self.write(PROGRAM, answer)

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


def explain(text: str) -> None:
    with suppress(OSError, ValueError):  # the agent's program may have closed it
        note(f"mcp: {text}")


def read_message(line: bytes) -> Mapping[str, Any]:
    """Return the JSON-RPC message in a line; an empty one if it can't matter here."""
    if not any(mark in line for mark in MARKS):
        return {}
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    is_named = isinstance(message, dict) and isinstance(message.get("method", ""), str)
    return message if is_named else {}


def key_of(id: object) -> str:
    """Return a request's id as a key: 1 and "1" are two ids."""
    return json.dumps(id)
