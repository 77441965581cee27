"""Check every connection that a library makes in a thread, whatever name or redirect led to it."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from retries.notifications import addresses

CONNECTING = {"socket.connect", "socket.sendto", "socket.sendmsg"}


class Guarded(threading.local):
    """What a guarded thread does: the name it resolved last, and its sockets."""

    sockets: "list[socket.socket] | None" = None
    host = ""


guarded = Guarded()


@contextmanager
def guard_connections(sockets: list[socket.socket]) -> Iterator[None]:
    """Refuse connections of this thread to addresses that are not allowed; collect its sockets."""
    install()
    guarded.sockets, guarded.host = sockets, ""
    try:
        yield
    finally:
        guarded.sockets = None


@cache
def install() -> None:
    """Install the hook once; Python can't remove one, and outside guarded threads it is idle."""
    sys.addaudithook(check_event)


def check_event(event: str, args: Any) -> None:
    sockets = guarded.sockets
    if sockets is None:
        return
    if event == "socket.getaddrinfo":
        guarded.host = as_text(args[0])
    elif event in CONNECTING and args[0].family in (socket.AF_INET, socket.AF_INET6):
        sockets.append(args[0])
        address, port = as_text(args[1][0]), int(args[1][1])
        try:
            addresses.check_address(address, host=guarded.host or address, port=port)
        except ValueError as error:  # a name: it would be resolved again behind the check
            raise addresses.ForbiddenAddress(f"{address} is not an address") from error
    elif event in CONNECTING:
        raise addresses.ForbiddenAddress("only connections over a network are allowed")


def as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def cut(sockets: list[socket.socket]) -> None:
    """End the connections, so that a thread which waits for them ends too."""
    for each in list(sockets):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
