"""Run a command: pass its output on, store its head and tail, stop it on request."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import IO, Any, BinaryIO, TextIO

from tenfour.runs.output_buffer import OutputBuffer

# Seconds between TERM and KILL.
GRACE_S = 10.0
# Seconds to wait for output that background processes hold open.
LINGER_S = 2.0
LOOK_S = 0.2
# Python 3.10 knows only the session of its own, which is a process group as well.
OWN_GROUP: dict[str, Any] = (
    {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}
)
NOT_FOUND, NOT_RUN, BY_SIGNAL = 127, 126, 128


@dataclass(frozen=True)
class CommandResult:
    """A command's exit code and output; `was_stopped` if it was stopped on request.

    `group` is the process group of children that outlive it.
    """

    code: int
    output: str
    was_stopped: bool = False
    group: int | None = None


class ArgumentsTooLarge(Exception):
    """The system can't start a command with arguments of this size; nothing ran."""


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    should_stop: Callable[[], bool],
    cwd: str | None = None,
    is_shown: bool = True,
    stdin: bytes | None = None,
    output: OutputBuffer | None = None,
) -> CommandResult:
    """Run a command to its end, or stop it and its children; its output is passed on at once.

    Without `is_shown` it reads and prints nothing here. It reads `stdin`, if given, instead of
    this program's. `output` collects what it prints. An exception, such as an interrupt, stops it
    too. Raises ArgumentsTooLarge.
    """
    if cwd is not None and not os.path.isdir(cwd):
        return CommandResult(NOT_RUN, f"{cwd}: there is no such folder")
    # A terminal belongs to one process group, and the command has its own.
    is_alone = not is_shown or bool(sys.stdin and sys.stdin.isatty())
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=_input_of(stdin, is_alone),
            stdout=subprocess.PIPE,
            # Two pipes lose the order of what is written to them.
            stderr=subprocess.PIPE if is_shown else subprocess.STDOUT,
            **OWN_GROUP,
        )
    except OSError as error:
        return _explain_start_error(argv[0], error)
    output = OutputBuffer() if output is None else output
    try:
        if stdin is not None:
            _feed(child.stdin, stdin)
        pumps = [_pump(child.stdout, sys.stdout if is_shown else None, output)]
        if is_shown:
            pumps.append(_pump(child.stderr, sys.stderr, output))
        stopped = _wait(child, should_stop)
    except BaseException as error:
        _stop(child, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        raise
    until = time.monotonic() + LINGER_S
    for pump in pumps:
        pump.join(max(0.0, until - time.monotonic()))
    group = None if stopped or not _is_alive(child.pid) else child.pid
    return CommandResult(exit_code(child.returncode), output.text(), stopped, group)


def _explain_start_error(program: str, error: OSError) -> CommandResult:
    """Return the result of a command that could not be started; raises ArgumentsTooLarge."""
    if error.errno == errno.E2BIG:
        raise ArgumentsTooLarge from error
    missing = isinstance(error, FileNotFoundError)
    return CommandResult(NOT_FOUND if missing else NOT_RUN, f"{program}: {error.strerror}")


def stop_group(group: int) -> None:
    """Stop a command's processes that are still running."""
    until = time.monotonic() + GRACE_S
    _signal_group(group, signal.SIGTERM)
    while _is_alive(group) and time.monotonic() < until:
        time.sleep(LOOK_S)
    _signal_group(group, signal.SIGKILL)


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
    _signal_group(child.pid, how)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:  # a second interrupt does not wait for the end of the grace
        _signal_group(child.pid, signal.SIGKILL)
        child.wait()


def _signal_group(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, how)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _input_of(stdin: bytes | None, is_alone: bool) -> int | None:
    if stdin is not None:
        return subprocess.PIPE
    return subprocess.DEVNULL if is_alone else None


def _feed(target: IO[bytes] | None, data: bytes) -> None:
    def write() -> None:
        assert target is not None
        # A command need not read it all, or any of it.
        with contextlib.suppress(OSError), target:
            target.write(data)

    Thread(target=write, daemon=True).start()


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
            try:
                target.write(data)
                target.flush()
            except OSError:
                # The local reader is gone; the report still needs the output. What is in the
                # buffer goes nowhere, or Python would end with an exit status of its own.
                os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())
                target = None
