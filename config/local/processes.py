"""One process among several in a terminal: its output, its restarts and its end."""

import asyncio
import os
import queue
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from config.local.commands import START_ERRORS, Command, describe_start_error

BACK_OFF = (0.5, 1, 2, 4, 8, 15, 30)  # seconds between two starts
STEADY = 5  # seconds of life after which the next delay is the shortest again
GRACE = 15  # seconds between the request to stop and the kill
LEAST_FREE = 16 * 2**20  # PostgreSQL allocates its log in files of this size
COLORS = {"tenfour": 1, "postgres": 34, "redis": 31, "web": 32, "worker": 33, "beat": 35}
SIGNAL_PHRASES = {signal.SIGKILL: "was killed", signal.SIGSEGV: "crashed"}


class Terminal:
    """Prints lines without blocking the caller: if the reader is stuck, lines are lost."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self.colored = self.is_terminal and not os.environ.get("NO_COLOR")
        self.lines: queue.Queue[str | None] = queue.Queue(maxsize=2000)
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    def say(self, name: str, text: str) -> None:
        label = f"{name:>8} |"
        if self.colored:
            label = f"\x1b[{COLORS.get(name, 36)}m{label}\x1b[0m"
        for line in text.splitlines():
            with suppress(queue.Full):
                self.lines.put_nowait(f"{label} {line}\n")

    def write(self) -> None:
        while (line := self.lines.get()) is not None:
            with suppress(OSError):  # the reader may be gone
                os.write(1, line.encode(errors="replace"))

    def close(self) -> None:
        with suppress(queue.Full):
            self.lines.put_nowait(None)
        self.writer.join(timeout=1)


class Process:
    """One program, run once or restarted, whose output goes to the terminal under its name."""

    def __init__(self, name: str, command: Command, terminal: Terminal) -> None:
        self.name, self.command, self.terminal = name, command, terminal
        self.running: asyncio.subprocess.Process | None = None
        self.stopping = False

    async def run(self) -> int:
        """Run it to its end and return the exit code, negative for a signal."""
        self.running = await asyncio.create_subprocess_exec(
            *self.command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1 << 20,
            **self.command.options(),
        )
        assert self.running.stdout
        printing = asyncio.create_task(self.print(self.running.stdout))
        code = await self.running.wait()
        # Its own children may hold the pipe open for longer than it lived.
        await asyncio.wait({printing}, timeout=0.5)
        return code

    async def print(self, output: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await output.readline()
            except ValueError:
                continue  # longer than the buffer
            if not line:
                return
            text = line.decode(errors="replace")
            if not (self.command.quiet and self.command.quiet.search(text)):
                self.terminal.say(self.name, text)

    async def keep_running(self) -> None:
        # A process that ends soon after its start waits longer.
        quick_ends = 0
        while not self.stopping:
            started = time.monotonic()
            ending = await self.run_and_describe()
            if self.stopping:
                return
            lived = time.monotonic() - started
            if lived > STEADY:
                quick_ends = 0
            wait = compute_wait(quick_ends, lived)
            quick_ends += 1
            when = f" in {wait:.1f} s" if wait else ""
            self.terminal.say("tenfour", f"{self.name} {ending}; restarting{when}")
            await asyncio.sleep(wait)

    async def run_and_describe(self) -> str:
        try:
            return how_it_ended(await self.run()) + full_disk(self.command.cwd)
        except START_ERRORS as error:
            return describe_start_error(error)

    def is_alive(self) -> bool:
        return self.running is not None and self.running.returncode is None

    async def stop(self) -> None:
        self.stopping = True
        if self.running and self.is_alive():
            with suppress(ProcessLookupError):
                self.running.send_signal(self.command.stop)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.running.wait(), GRACE)
            self.kill()

    def kill(self) -> None:
        # Its children share its process group.
        if self.running:
            with suppress(ProcessLookupError):
                os.killpg(self.running.pid, signal.SIGKILL)


def compute_wait(quick_ends: int, lived: float) -> float:
    """Return the seconds until the next start of a process that ended after `lived` seconds.

    `quick_ends` starts before this one ended soon, too.
    """
    # A process that served for a while is needed, so it restarts at once. Only one that keeps
    # ending at its start waits.
    return max(0.0, BACK_OFF[min(quick_ends, len(BACK_OFF) - 1)] - lived)


def full_disk(folder: Path) -> str:
    """Return a clause about the disk of `folder` if it is full; otherwise nothing."""
    full = shutil.disk_usage(folder).free < LEAST_FREE
    return f" (the disk that holds {folder} is full)" if full else ""


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    return SIGNAL_PHRASES.get(signal.Signals(-code), f"was ended by {signal.Signals(-code).name}")
