"""Runs a command: passes its output on, keeps head and tail of it, stops it when told to."""

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
from typing import IO, BinaryIO, TextIO

HEAD_BYTES = 16_000
TAIL_BYTES = 44_000
# Between TERM and KILL.
GRACE_S = 10.0
# For what a command left running holds its output open.
LINGER_S = 2.0
LOOK_S = 0.2
CUT_WORD, WORD_CUT = re.compile(r"\S{1,4096}\Z"), re.compile(r"\A\S{1,4096}")
NOT_FOUND, NOT_RUN, BY_SIGNAL = 127, 126, 128


@dataclass
class Kept:
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
            # Whole words only: half a secret could not be told from other text.
            head = CUT_WORD.sub("", bytes(self.head).decode(errors="replace"))
            tail = WORD_CUT.sub("", bytes(self.tail).decode(errors="replace"))
        return f"{head}\n[… about {left_out} bytes left out]\n{tail}"


@dataclass(frozen=True)
class Ended:
    """How a command ended; `was_stopped` says that it was told to."""

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
) -> Ended:
    """Runs the command to its end, or stops it and all it started; output goes on as it comes.

    One that is not shown reads and prints nothing here. An exception, such as an interrupt, stops
    it too.
    """
    if cwd is not None and not os.path.isdir(cwd):
        return Ended(NOT_RUN, f"{cwd}: there is no such folder")
    # A terminal belongs to one group of processes, and the command has its own.
    is_alone = not is_shown or (sys.stdin and sys.stdin.isatty())
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL if is_alone else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return Ended(NOT_FOUND if missing else NOT_RUN, f"{argv[0]}: {error.strerror}")
    kept = Kept()
    try:
        pumps = [
            _pump(child.stdout, sys.stdout if is_shown else None, kept),
            _pump(child.stderr, sys.stderr if is_shown else None, kept),
        ]
        stopped = _wait(child, should_stop)
    except BaseException as error:
        _stop(child, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        raise
    until = time.monotonic() + LINGER_S
    for pump in pumps:
        pump.join(max(0.0, until - time.monotonic()))
    return Ended(exit_code(child.returncode), kept.text(), stopped)


def exit_code(status: int) -> int:
    """The exit code as a shell gives it: 128 and the signal's number where one ended it.

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
    _tell(child, how)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # a second interrupt does not wait for the end of the grace
        _tell(child, signal.SIGKILL)
        child.wait()


def _tell(child: subprocess.Popen[bytes], how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, how)


def _pump(source: IO[bytes] | None, target: TextIO | None, kept: Kept) -> Thread:
    assert source is not None
    shown = target.buffer if target else None
    thread = Thread(target=_copy, args=(source, shown, kept), daemon=True)
    thread.start()
    return thread


def _copy(source: IO[bytes], target: BinaryIO | None, kept: Kept) -> None:
    with source:
        while data := os.read(source.fileno(), 65_536):
            kept.add(data)
            if target is None:
                continue
            # Where nobody reads it here any more, the report still wants it.
            with contextlib.suppress(OSError):
                target.write(data)
                target.flush()
