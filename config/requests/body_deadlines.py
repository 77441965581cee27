"""Give each awaited body a deadline, and close the connections of those that miss it.

granian's WSGI interface waits for a body without a limit, and tells no one which connection it
comes from. So a body that is late gets its response before it has arrived, and the connection that
has sent a response of that length since is closed for reading. This ends the wait.
"""

import logging
import os
import secrets
import socket
import stat
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from config.requests.body_slots import BodySlots

logger = logging.getLogger(__name__)

BODY_S = 10.0
BYTES_PER_S = 65_536  # a large body has a second more for each
CROWDED_S = 1.0
TICK_S = 0.25
PADDINGS = range(1024, 16_384)  # bytes
HEAD = 1024  # the most bytes of a response's headers
CLOSE = ("Connection", "close")
FOUND_WITHIN_S = 1.0
IDLE_SLACK_S = 0.5
# Of the kernel's `struct tcp_info`: milliseconds since data was sent, bytes not sent yet, bytes
# sent, bytes of those sent again.
TCP_INFO_BYTES, LAST_SENT, NOT_SENT, SENT, SENT_AGAIN = 256, 44, 144, 200, 208


@dataclass(slots=True)
class Reply:
    """Takes a response in place of granian's `proto`, to be sent later."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    content: bytes = b""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.status, self.headers, self.content = status, headers, content

    def response_iter(self, status: int, headers: list[tuple[str, str]], body: Any) -> None:
        pieces = []
        with suppress(StopIteration):
            while True:
                pieces.append(body.__next__())
        self.response_bytes(status, headers, b"".join(pieces))


@dataclass(slots=True, eq=False)
class AwaitedBody:
    """A body that has not arrived yet."""

    proto: Any
    environ: dict[str, Any]
    seconds: float
    crowd: BodySlots | None = None  # while these are crowded, it has less time
    reply: Reply | None = None  # the response if it is known before the body
    since: float = field(default_factory=time.monotonic)
    has_ended: bool = False  # by its last byte, or with its connection

    def is_late(self, now: float) -> bool:
        is_crowded = self.crowd is not None and self.crowd.is_crowded()
        return now > self.since + (CROWDED_S if is_crowded else self.seconds)


@dataclass(slots=True)
class Connection:
    """A connection of this process, by its file descriptor and the socket's inode."""

    fd: int
    inode: int
    peer: str
    idle_s: float  # since it was last sent something
    sent: int

    def count_sent(self) -> int:
        """Return how many bytes were sent on the connection, or -1 if it is closed."""
        opened = open_duplicate(self.fd, self.inode)
        if opened is None:
            return -1
        with opened:
            return read_tcp_info(opened)[1]

    def end_reading(self) -> None:
        if opened := open_duplicate(self.fd, self.inode):
            with opened, suppress(OSError):
                opened.shutdown(socket.SHUT_RD)


class BodyDeadlines:
    """The bodies that a worker awaits; `respond` makes the response to one that is late."""

    def __init__(self, respond: Callable[[AwaitedBody], Reply]) -> None:
        self.respond = respond
        self.awaited: dict[int, AwaitedBody] = {}
        Thread(target=self.watch, name="body-deadlines", daemon=True).start()

    def read(self, source: Any, size: int, awaited: AwaitedBody) -> bytes | None:
        """Return a body, shorter if its client has left; None if its deadline has passed.

        In the latter case the response has been sent.
        """
        key = id(awaited)
        self.awaited[key] = awaited
        try:
            body: bytes = source.read(size)
        finally:
            awaited.has_ended = True
            # Only one of two threads gets it: this one, or the one that sends the response.
            own = self.awaited.pop(key, None)
        return body if own else None

    def watch(self) -> None:
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            late = [each for each in list(self.awaited.values()) if each.is_late(now)]
            late = [each for each in late if self.awaited.pop(id(each), None)]
            try:
                if late:
                    self.give_up(late)
            except Exception:
                logger.exception("late bodies could not be refused")

    def give_up(self, late: list[AwaitedBody]) -> None:
        now = time.monotonic()
        idle_s = min(now - each.since for each in late) - IDLE_SLACK_S
        peers = {each.environ["REMOTE_ADDR"] for each in late}
        candidates = [
            each for each in list_connections() if each.peer in peers and each.idle_s >= idle_s
        ]
        padding = b" " * secrets.choice(PADDINGS)  # at the end of a page or of JSON
        sizes = set()
        for each in late:
            reply = each.reply or self.respond(each)
            content = reply.content + padding
            headers = [pair for pair in reply.headers if pair[0].lower() != "content-length"]
            each.proto.response_bytes(reply.status, [*headers, CLOSE], content)
            sizes.add(len(content))
        close_connections(candidates, sizes, late)


def close_connections(
    candidates: list[Connection], sizes: set[int], late: list[AwaitedBody]
) -> None:
    """End reading on the connections that were sent a response of one of the sizes."""
    # Other connections are the client's as well, or, behind a proxy that does not buffer, other
    # clients'.
    until = time.monotonic() + FOUND_WITHIN_S
    while (left := sum(not each.has_ended for each in late)) and time.monotonic() < until:
        for each in list(candidates):
            grown = each.count_sent() - each.sent
            if any(size < grown <= size + HEAD for size in sizes):
                each.end_reading()
                candidates.remove(each)
        time.sleep(0.005)
    if left:
        logger.warning("%d connections with late bodies were not found", left)


def list_connections() -> list[Connection]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        with suppress(OSError):  # it was closed meanwhile, or is no connection
            status = os.fstat(fd)
            if not stat.S_ISSOCK(status.st_mode):
                continue
            opened = open_duplicate(fd, status.st_ino)
            if opened is None:
                continue
            with opened:
                if opened.family in (socket.AF_INET, socket.AF_INET6):
                    peer = opened.getpeername()[0].partition("%")[0]
                    found.append(Connection(fd, status.st_ino, peer, *read_tcp_info(opened)))
    return found


def open_duplicate(fd: int, inode: int) -> socket.socket | None:
    try:
        duplicate = os.dup(fd)
    except OSError:
        return None
    if os.fstat(duplicate).st_ino != inode:  # the number is another file's by now
        os.close(duplicate)
        return None
    return socket.socket(fileno=duplicate)


def read_tcp_info(connection: socket.socket) -> tuple[float, int]:
    """Return for how many seconds nothing was sent on a connection, and the bytes sent before."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    (idle_ms,) = struct.unpack_from("I", info, LAST_SENT)
    (waiting,) = struct.unpack_from("I", info, NOT_SENT)
    (sent,) = struct.unpack_from("Q", info, SENT)
    (again,) = struct.unpack_from("Q", info, SENT_AGAIN)
    return idle_ms / 1000, sent - again + waiting
