"""Run a command: pass its output on, store its head and tail, stop it on request."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import IO, Any, BinaryIO, TextIO

HEAD_BYTES = 16_000
TAIL_BYTES = 44_000
# Seconds between TERM and KILL.
GRACE_S = 10.0
# Seconds to wait for output that background processes hold open.
LINGER_S = 2.0
LOOK_S = 0.2
CUT_WORD, WORD_CUT = re.compile(r"\S{1,4096}\Z"), re.compile(r"\A\S{1,4096}")
# Python 3.10 knows only the session of its own, which is a process group as well.
OWN_GROUP: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
)
NOT_FOUND, NOT_RUN, BY_SIGNAL = 127, 126, 128


@dataclass
class OutputBuffer:
    """The first and the last bytes of an output of any length."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0
    lock: Lock = field(default_factory=Lock)

    def add(self, data: bytes) -> None:
        with self.lock:
            self.size += len(data)
            room = HEAD_BYTES - len(self.head)
            self.head += data[:room]
            self.tail += data[max(room, 0) :]
            del self.tail[:-TAIL_BYTES]

    def text(self) -> str:
        with self.lock:
            left_out = self.size - len(self.head) - len(self.tail)
            if not left_out:
                return bytes(self.head + self.tail).decode(errors="replace")
            # Whole words only: half a secret could not be recognized.
            head = CUT_WORD.sub("", bytes(self.head).decode(errors="replace"))
            tail = WORD_CUT.sub("", bytes(self.tail).decode(errors="replace"))
        return f"{head}\n[… about {left_out} bytes left out]\n{tail}"


@dataclass(frozen=True)
class CommandResult:
    """A command's exit code and output; `was_stopped` if it was stopped on request."""

    code: int
    output: str
    was_stopped: bool = False


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    should_stop: Callable[[], bool],
    cwd: str | None = None,
    is_shown: bool = True,
) -> CommandResult:
    """Run a command to its end, or stop it and its children; output is passed on as it comes.

    Without `is_shown` it reads and prints nothing here. An exception, such as an interrupt,
    stops it too.
    """
    if cwd is not None and not os.path.isdir(cwd):
        return CommandResult(NOT_RUN, f"{cwd}: there is no such folder")
    # A terminal belongs to one process group, and the command has its own.
    is_alone = not is_shown or (sys.stdin and sys.stdin.isatty())
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL if is_alone else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **OWN_GROUP,
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return CommandResult(NOT_FOUND if missing else NOT_RUN, f"{argv[0]}: {error.strerror}")
    output = OutputBuffer()
    try:
        pumps = [
            _pump(child.stdout, sys.stdout if is_shown else None, output),
            _pump(child.stderr, sys.stderr if is_shown else None, output),
        ]
        stopped = _wait(child, should_stop)
    except BaseException as error:
        _stop(child, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        raise
    until = time.monotonic() + LINGER_S
    for pump in pumps:
        pump.join(max(0.0, until - time.monotonic()))
    return CommandResult(exit_code(child.returncode), output.text(), stopped)


def exit_code(status: int) -> int:
    """Return the exit code as a shell does: 128 plus the number of the signal that ended it.

    >>> [exit_code(status) for status in (0, 3, -15)]
    [0, 3, 143]
    """
    return status if status >= 0 else BY_SIGNAL - status


def _wait(child: subprocess.Popen[bytes], should_stop: Callable[[], bool]) -> bool:
    while True:
        try:
            child.wait(LOOK_S)
            return False
        except subprocess.TimeoutExpired:
            if should_stop():
                _stop(child, signal.SIGTERM)
                return True


def _stop(child: subprocess.Popen[bytes], how: signal.Signals) -> None:
    _signal(child, how)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # a second interrupt does not wait for the end of the grace
        _signal(child, signal.SIGKILL)
        child.wait()


def _signal(child: subprocess.Popen[bytes], how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, how)


def _pump(source: IO[bytes] | None, target: TextIO | None, output: OutputBuffer) -> Thread:
    assert source is not None
    shown = target.buffer if target else None
    thread = Thread(target=_copy, args=(source, shown, output), daemon=True)
    thread.start()
    return thread


def _copy(source: IO[bytes], target: BinaryIO | None, output: OutputBuffer) -> None:
    with source:
        while data := os.read(source.fileno(), 65_536):
            output.add(data)
            if target is None:
                continue
            # If the local reader is gone, the report still needs the output.
            with contextlib.suppress(OSError):
                target.write(data)
                target.flush()
