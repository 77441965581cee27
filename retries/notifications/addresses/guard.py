"""Guard what a library does in a thread: it reaches allowed addresses only, and opens no files.

apprise reads templates, keys and attachments from paths that an address names. The addresses are
checked; this guard holds for what a check may miss, such as a row from an earlier version, and for
any name or redirect that leads to a connection.
"""

import mimetypes
import os
import socket
import sys
import sysconfig
import threading
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from retries.notifications.addresses import checks as addresses

CONNECTING = {"socket.connect", "socket.sendto", "socket.sendmsg"}
CODE = (".py", ".pyc", ".so")
RUNNING = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"}


class ForbiddenFile(PermissionError):
    """A library has tried to open a file that is not a part of it.

    It is an OSError, so that the library treats it as a file that it can't open.
    """


@dataclass
class Connections:
    """The sockets that a guarded thread has opened, and why the first was refused."""

    sockets: list[socket.socket] = field(default_factory=list)
    refusal: str = ""
    # the name that was resolved last
    host: str = ""

    def cut(self) -> None:
        # A thread that waits for one of them ends, too.
        for each in list(self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Guarded(threading.local):
    connections: Connections | None = None
    depth = 0  # of `refuse_files`


guarded = Guarded()


@contextmanager
def guard_connections(connections: Connections) -> Iterator[None]:
    install()
    guarded.connections = connections
    try:
        yield
    finally:
        guarded.connections = None


@contextmanager
def refuse_files() -> Iterator[None]:
    """Refuse to open files or start programs in this thread; it may read code and its data."""
    install()
    list_folders()
    guarded.depth += 1
    try:
        yield
    finally:
        guarded.depth -= 1


@cache
def install() -> None:
    # Python can't remove a hook, so it is installed once; outside guarded threads it is idle.
    sys.addaudithook(check_event)


def check_event(event: str, args: Any) -> None:
    """Raise ForbiddenAddress or ForbiddenFile for an action that a guarded thread may not take."""
    if guarded.connections is not None:
        check_socket(event, args, guarded.connections)
    if not guarded.depth:
        return
    if event in RUNNING:
        raise ForbiddenFile("A channel starts no programs.")
    if event == "open" and not isinstance(args[0], int) and not is_readable(*args):
        raise ForbiddenFile("A channel reads and writes no files of the server.")


def check_socket(event: str, args: Any, connections: Connections) -> None:
    if event == "socket.getaddrinfo":
        connections.host = as_text(args[0])
    elif event in CONNECTING:
        connections.sockets.append(args[0])
        try:
            check_connection(args[0], args[1], connections.host)
        except addresses.ForbiddenAddress as error:
            connections.refusal = connections.refusal or str(error)
            raise


def check_connection(connecting: socket.socket, to: Any, host: str) -> None:
    if connecting.family not in (socket.AF_INET, socket.AF_INET6):
        raise addresses.ForbiddenAddress("Only connections over a network are allowed.")
    address, port = as_text(to[0]), int(to[1])
    try:
        addresses.check_address(address, host=host or address, port=port)
    except ValueError as error:  # a name: it would be resolved again behind the check
        raise addresses.ForbiddenAddress(f"{address} is not an address.") from error


def as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def is_readable(path: Any, mode: str | None, flags: int) -> bool:
    """Return whether a file is opened only for reading, and belongs to Python or a package."""
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return False
    real = os.path.realpath(os.fsdecode(path))
    return real.endswith(CODE) or real.startswith(list_folders()) or real in mimetypes.knownfiles


@cache
def list_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {*map(sysconfig.get_path, names), *zoneinfo.TZPATH}
    return tuple(f"{Path(each).resolve()}{os.sep}" for each in found)
