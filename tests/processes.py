"""The processes that tests stop and end, as the kernel shows them."""

import os
import signal
from pathlib import Path

from tests.waiting import wait_until


def stop_process(pid: int) -> None:
    """Stop a process with SIGSTOP; return when all its threads have stopped.

    The signal only asks: until each thread has noticed, the process still answers and writes.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), lambda: f"Process {pid} did not stop.")


def is_stopped(pid: int) -> bool:
    return {read_state(thread) for thread in Path(f"/proc/{pid}/task").iterdir()} == {"T"}


def has_threads(pid: int) -> bool:
    """Return whether a process exists and has started threads besides its main one."""
    return len(list(Path(f"/proc/{pid}/task").glob("*"))) > 1


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended; init may not have noticed its end yet."""
    return read_state(Path(f"/proc/{pid}")) not in ("", "Z")


def read_state(folder: Path) -> str:
    """Return the letter of a process's or thread's state; an empty string if there is none."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
