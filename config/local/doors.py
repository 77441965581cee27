"""The sockets on which the web server listens: one for each of its workers.

Workers that accept on one socket do not share the connections: the one that wakes up first takes
all that have arrived, such as those of a proxy, and the other processors stay idle.
"""

import ctypes
import socket
import struct
from contextlib import suppress

BACKLOG = 2048
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
SYN, SYN_ACK = 0x02, 0x12
# A filter of the kernel's: code, jump if true, jump if false, operand. It drops the first packet of
# a connection and nothing else.
DROP_SYN = (
    (0x30, 0, 0, 13),  # load the flags of the TCP header
    (0x54, 0, 0, SYN_ACK),
    (0x15, 0, 1, SYN),
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep
)


def open_door(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises OSError if another program listens on the port."""
    door = create_socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        door.bind((host, port))
        # Only after `bind`, which would otherwise succeed beside another instance on the port.
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        door.listen(BACKLOG)
    except BaseException:
        door.close()
        raise
    return door


def open_beside(door: socket.socket, count: int) -> list[socket.socket]:
    """Return `count` more sockets on the door's port; the kernel spreads connections over all.

    None are returned for a socket from another program that does not allow it.
    """
    doors: list[socket.socket] = []
    if not door.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT):
        return doors
    for _ in range(count):
        beside = create_socket(door.family)
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        beside.bind(door.getsockname())
        beside.listen(BACKLOG)
        doors.append(beside)
    return doors


def hold_new(door: socket.socket) -> None:
    """Let no new connection arrive at a listening socket; those that wait there can be accepted.

    Closing a socket resets what waits there. The sender of a dropped packet repeats it after a
    second, when the socket is closed or another server listens on the port.
    """
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in DROP_SYN))
    program = struct.pack("HL", len(DROP_SYN), ctypes.addressof(code))
    door.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def admit_new(door: socket.socket) -> None:
    """Let connections arrive again that `hold_new` has kept away."""
    with suppress(FileNotFoundError):  # there is no filter
        door.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def create_socket(family: int) -> socket.socket:
    created = socket.socket(family, socket.SOCK_STREAM)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return created
