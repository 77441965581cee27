"""Check every connection that a library makes in a thread, whatever name or redirect led to it."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from retries.notifications.addresses import checks as addresses

CONNECTING = {"socket.connect", "socket.sendto", "socket.sendmsg"}


@dataclass
class Connections:
    """The sockets that a guarded thread has opened, and why the first was refused."""

    sockets: list[socket.socket] = field(default_factory=list)
    refusal: str = ""
    # the name that was resolved last
    host: str = ""

    def cut(self) -> None:
        """End the connections, so that a thread which waits for them ends too."""
        for each in list(self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Guarded(threading.local):
    connections: Connections | None = None


guarded = Guarded()


@contextmanager
def guard_connections(connections: Connections) -> Iterator[None]:
    """Refuse connections of this thread to addresses that are not allowed."""
    install()
    guarded.connections = connections
    try:
        yield
    finally:
        guarded.connections = None


@cache
def install() -> None:
    """Install the hook once; Python can't remove one, and outside guarded threads it is idle."""
    sys.addaudithook(check_event)


def check_event(event: str, args: Any) -> None:
    """Raise ForbiddenAddress for a connection of a guarded thread that is not allowed."""
    connections = guarded.connections
    if connections is None:
        return
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
