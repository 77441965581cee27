"""The command `tenfour` in a process of its own, with the environment of an agent."""

import atexit
import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.serving import environment
from tests.waiting import PATIENCE_S

FORK_SERVER = Path(__file__).with_name("fork_server.py")


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def run_command(
    *args: str,
    stdin: str | bytes = "",
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    hook_timeout_s: float | None = None,
) -> Ran:
    """Run the command with pipes; return its status and what it wrote."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    (reads, to_stdin), (from_out, out), (from_err, err) = os.pipe(), os.pipe(), os.pipe()
    with ThreadPoolExecutor(3) as pool:
        call = start(args, [reads, out, err], env, cwd, hook_timeout_s)
        written = pool.submit(write, to_stdin, given)
        read = [pool.submit(read_all, fd) for fd in (from_out, from_err)]
        out_text, err_text = (each.result(PATIENCE_S).decode() for each in read)
        written.result(PATIENCE_S)
        return Ran(wait(call), out_text, err_text)


def write(fd: int, data: bytes) -> None:
    """Write to a pipe whose reader may leave."""
    try:
        with open(fd, "wb") as pipe:
            pipe.write(data)
    except BrokenPipeError:
        pass


def read_all(fd: int) -> bytes:
    with open(fd, "rb") as pipe:
        return pipe.read()


def run_on_terminal(
    *args: str,
    env: dict[str, str],
    width: int = 100,
    more: dict[str, str] | None = None,
    typed: str = "",
) -> tuple[int, str]:
    """Run the command on a terminal of this width; return its status and what it shows."""
    controller, terminal = pty.openpty()
    os.write(controller, typed.encode())
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    streams = [terminal, os.dup(terminal), os.dup(terminal)]
    call = start(args, streams, env | {"TERM": "xterm-256color"} | (more or {}))
    shown = b""
    while chunk := _read(controller):
        shown += chunk
    os.close(controller)
    return wait(call), shown.decode().replace("\r\n", "\n")


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # the last process has closed the terminal
        return b""


# ---- the process


def start(
    args: Sequence[str],
    streams: list[int],
    env: dict[str, str] | None,
    cwd: Path | None = None,
    hook_timeout_s: float | None = None,
) -> socket.socket:
    """Start a process on three descriptors, and close them here; its exit status can be received."""
    call, other = socket.socketpair()
    call.settimeout(PATIENCE_S)
    socket.send_fds(fork_server(), [b"."], [*streams, other.fileno()])
    other.close()
    for fd in streams:
        os.close(fd)
    begin = {
        "argv": args,
        "env": environment(env or {}),
        "cwd": str(cwd or Path.cwd()),
        "hook_timeout_s": hook_timeout_s,
    }
    call.sendall(json.dumps(begin).encode())
    call.shutdown(socket.SHUT_WR)
    return call


def wait(call: socket.socket) -> int:
    with call:
        return int(call.recv(16))


@cache
def fork_server() -> socket.socket:
    """Start the program that forks; it ends with this process."""
    requests, other = socket.socketpair()
    argv = [sys.executable, "-P", str(FORK_SERVER), str(other.fileno())]
    process = subprocess.Popen(argv, env=environment({}), pass_fds=[other.fileno()])
    other.close()

    def end() -> None:
        requests.close()
        process.wait(PATIENCE_S)

    atexit.register(end)
    return requests
