"""Fork a process that runs `tenfour` for each request: starting Python and imports take ten times as long.

A forked process is like one that a shell started: it has its own arguments, environment, folder and
streams, and Python ends it as always. This program imports nothing but the client and what that
imports at its first request.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module

from tenfour.cli import COMMANDS, NOUNS, main
from tenfour.hooks import hook, hook_transcripts


def serve(requests: socket.socket) -> None:
    """Fork processes until the other end closes; return in each of them."""
    while True:
        _, fds, _, _ = socket.recv_fds(requests, 1, 4)
        if not fds:
            os._exit(0)
        if not os.fork():
            *streams, connection = fds
            with socket.socket(fileno=connection) as call:
                given = json.loads(b"".join(iter(lambda: call.recv(65536), b"")))
                if command := os.fork():
                    for fd in streams:
                        os.close(fd)
                    _, status = os.waitpid(command, 0)
                    call.sendall(str(os.waitstatus_to_exitcode(status)).encode())
                    os._exit(0)
            requests.close()
            become(given["argv"], given["env"], given["cwd"], streams)
            if patience := given["hook_timeout_s"]:
                let_hooks_wait(patience)
            return
        for fd in fds:
            os.close(fd)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def become(argv: list[str], env: Mapping[str, str], cwd: str, streams: list[int]) -> None:
    """Give this process what a new one begins with."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv[1:] = argv
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, "utf-8", "backslashreplace")


def let_hooks_wait(seconds: float) -> None:
    """A hook waits seconds at most, since an agent waits for it; a busy machine may need longer."""
    hook.TIMEOUTS_S.clear()
    hook.TIMEOUT_S = hook.RESEND_S = seconds
    hook_transcripts.TIMEOUT_S = hook_transcripts.OTHERS_S = seconds


if __name__ == "__main__":
    for command in (*COMMANDS.values(), *NOUNS.values()):
        command.load()
    import_module("httpx2")
    import_module("httpcore2")
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
