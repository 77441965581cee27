"""Commands that never outlive their parent: the program, its user, and how to stop it."""

import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.local.places import PROJECT, Refused, User

# Raised by a failed fork or exec, and by code that runs between the two.
START_ERRORS = (OSError, subprocess.SubprocessError)

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def die_with(parent: int, sent: signal.Signals) -> None:
    """Ask the kernel to signal this process as soon as the process `parent` is gone."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(sent), 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        os.kill(os.getpid(), sent)


@dataclass(frozen=True)
class Command:
    """A program to run: its user, which of its output to hide, and the signals that stop it."""

    argv: list[str]
    cwd: Path = PROJECT
    env: dict[str, str] | None = None
    user: User | None = None
    quiet: re.Pattern[str] | None = None
    stop: signal.Signals = signal.SIGTERM
    orphaned: signal.Signals = signal.SIGTERM
    fds: tuple[int, ...] = ()

    def options(self) -> dict[str, Any]:
        # The child has its own session, so that Ctrl-C reaches only the parent.
        return {
            "cwd": self.cwd,
            "env": self.env,
            "pass_fds": self.fds,
            "start_new_session": True,
            "preexec_fn": self.before_exec(),
            **(self.as_user() if self.user else {}),
        }

    def as_user(self) -> dict[str, Any]:
        assert self.user
        return {"user": self.user.uid, "group": self.user.gid, "extra_groups": [], "umask": 0o077}

    def before_exec(self) -> Callable[[], None]:
        # The child runs this after the switch of the user, which would undo it.
        parent, sent = os.getpid(), self.orphaned
        return lambda: die_with(parent, sent)


def describe_start_error(error: BaseException) -> str:
    """Return why a program could not be started, as the end of a sentence about it."""
    return f"could not be started: {getattr(error, 'strerror', None) or error}"


def run_once(command: Command, text: str = "") -> None:
    """Run a short program to its end; raises Refused with its output if it failed."""
    name = Path(command.argv[0]).name
    try:
        done = subprocess.run(
            command.argv,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **command.options(),
        )
    except START_ERRORS as error:
        raise Refused(f"{name} {describe_start_error(error)}.") from None
    # Single-user Postgres exits with 0 even if its statements failed.
    if done.returncode or "ERROR:" in done.stdout:
        raise Refused(f"{name} failed:\n{done.stdout.strip()}")
