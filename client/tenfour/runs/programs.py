"""Programs with a command line: run one command, read its data, stop it when it takes too long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from tenfour.redaction.masking import masked
from tenfour.runs.runner import GRACE_S, NOT_FOUND, NOT_RUN, OWN_GROUP, exit_code

TIMEOUT_S = 60.0
HELP_TIMEOUT_S = 10.0
LOOK_S = 0.02
TIMED_OUT, STOPPED = 124, 143
# What `timeout` and a KILL exit with, as the server reads them.
TIMEOUT_CODES = {TIMED_OUT, 137}
TIMEOUT_NAMES = {"TimeoutError", "TimeoutExpired", "TimeoutException"}
# More output than this is refused; of an error, the last characters are kept.
OUTPUT_BYTES, ERROR_LENGTH = 4 * 1024 * 1024, 4000


class CommandFailed(Exception):
    """The program refused the command or failed; the text is the program's own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class CommandTimeout(CommandFailed, TimeoutError):
    """The program did not end in time and was stopped; what it did is not known."""


class CommandStopped(CommandFailed):
    """The program was stopped on request."""


@dataclass(frozen=True)
class Program:
    """A program on this machine. A fix changes its arguments, never the program itself."""

    name: str
    help_args: Sequence[str] = ("--help",)
    timeout_s: float = TIMEOUT_S
    cwd: str | None = None
    env: Mapping[str, str] | None = None

    def run(self, *args: str, should_stop: Callable[[], bool] = lambda: False) -> Any:
        """Return the data of one command: JSON as a dict or a list, else the text.

        Runs without a shell. Raises CommandFailed, also for an exit code other than 0.
        """
        code, out, error = self._execute(args, self.timeout_s, should_stop)
        if code:
            text = masked(error.strip() or out.strip(), self._environ)[-ERROR_LENGTH:]
            kind = CommandTimeout if code in TIMEOUT_CODES else CommandFailed
            raise kind(text or f"{self.name} ended with exit code {code}.", code)
        return _read(out)

    def get_help(self) -> str:
        """Return the program's help, on whichever output it prints it; empty if it has none."""
        with suppress(CommandFailed):
            _, out, error = self._execute(self.help_args, HELP_TIMEOUT_S, lambda: False)
            return out.strip() or error.strip()
        return ""

    @property
    def _environ(self) -> Mapping[str, str]:
        return os.environ if self.env is None else self.env

    def _execute(
        self, args: Sequence[str], timeout_s: float, should_stop: Callable[[], bool]
    ) -> tuple[int, str, str]:
        import tempfile

        # Files and no pipes: a process left in the background can't hold this one up.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            child = self._start([self.name, *args], out, error)
            try:
                self._wait(child, time.monotonic() + timeout_s, should_stop, (out, error))
            finally:
                _stop(child)
            return exit_code(child.returncode), _text(out), _text(error)

    def _start(
        self, argv: Sequence[str], out: IO[bytes], error: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                argv,
                env=dict(self._environ),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=error,
                **OWN_GROUP,
            )
        except (OSError, ValueError) as problem:
            missing = isinstance(problem, FileNotFoundError)
            reason = getattr(problem, "strerror", None) or str(problem)
            code = NOT_FOUND if missing else NOT_RUN
            raise CommandFailed(f"{self.name}: {reason}", code) from problem

    def _wait(
        self,
        child: subprocess.Popen[bytes],
        until: float,
        should_stop: Callable[[], bool],
        files: Sequence[IO[bytes]],
    ) -> None:
        while child.poll() is None:
            if should_stop():
                raise CommandStopped(f"{self.name} was stopped.", STOPPED)
            if time.monotonic() > until:
                raise CommandTimeout(f"{self.name} did not end in time and was stopped.", TIMED_OUT)
            if any(os.fstat(file.fileno()).st_size > OUTPUT_BYTES for file in files):
                break
            with suppress(subprocess.TimeoutExpired):
                child.wait(LOOK_S)
        if any(os.fstat(file.fileno()).st_size > OUTPUT_BYTES for file in files):
            raise CommandFailed(f"{self.name} printed more than 4 MiB.", NOT_RUN)


def is_timeout(error: BaseException | None) -> bool:
    """Return whether an error says that a command ran out of time, so its effect is not known."""
    # By name: libraries have classes of their own, and so has asyncio in Python 3.10.
    return not TIMEOUT_NAMES.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, with its children."""
    if child.returncode is not None:
        return
    _signal(child, signal.SIGTERM)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _signal(child, signal.SIGKILL)
        child.wait()


def _signal(child: subprocess.Popen[bytes], how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, how)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(OUTPUT_BYTES).decode(errors="replace")


def _read(text: str) -> Any:
    with suppress(ValueError, RecursionError):
        data = json.loads(text)
        if isinstance(data, (dict, list)):
            return data
    return text
