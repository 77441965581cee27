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


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises OSError if another program listens on the port."""
    listener = bind_listener(host, port)
    try:
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def bind_listener(host: str, port: int) -> socket.socket:
    """Return a socket that does not listen yet; raises OSError if another program listens there."""
    listener = create_socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.bind((host, port))
        # Only after `bind`, which would otherwise succeed beside another instance on the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except BaseException:
        listener.close()
        raise
    return listener


def open_more_listeners(listener: socket.socket, count: int) -> list[socket.socket]:
    """Return `count` more sockets on the listener's port; the kernel spreads connections over all.

    None are returned for a socket from another program that does not allow it, or on a port below
    1024 that root has opened for another user.
    """
    listeners: list[socket.socket] = []
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT):
        return listeners
    for _ in range(count):
        beside = create_socket(listener.family)
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            beside.bind(listener.getsockname())
        except PermissionError:
            beside.close()
            break
        beside.listen(BACKLOG)
        listeners.append(beside)
    return listeners


def hold_new_connections(listener: socket.socket) -> None:
    """Let no new connection arrive at a listening socket; waiting ones can still be accepted.

    Closing a socket resets the connections that wait there. The sender of a dropped packet repeats
    it after a second, when the socket is closed or another server listens on the port.
    """
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in DROP_SYN))
    program = struct.pack("HL", len(DROP_SYN), ctypes.addressof(code))
    with suppress(PermissionError):  # some kernels allow it to root alone
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def admit_new_connections(listener: socket.socket) -> None:
    """Accept connections again that `hold_new_connections` has kept waiting."""
    with suppress(FileNotFoundError):  # there is no filter
        listener.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def create_socket(family: int) -> socket.socket:
    created = socket.socket(family, socket.SOCK_STREAM)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return created
