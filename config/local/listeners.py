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
SO_ATTACH_REUSEPORT_CBPF, SO_DETACH_REUSEPORT_BPF = 51, 68
SYN, SYN_ACK = 0x02, 0x12
RETURN = 0x06
LOAD_HALF, IF_EQUAL = 0x28, 0x15
NETWORK_HEADER = 0xFFF00000  # loads count from there
HEADER_LENGTHS = {socket.AF_INET: 20, socket.AF_INET6: 40}
FILL_S = 0.2
# A filter of the kernel's: code, jump if true, jump if false, operand. It drops the first packet of
# a connection and nothing else.
DROP_SYN = (
    (0x30, 0, 0, 13),  # load the flags of the TCP header
    (0x54, 0, 0, SYN_ACK),
    (0x15, 0, 1, SYN),
    (RETURN, 0, 0, 0),  # drop
    (RETURN, 0, 0, 0xFFFFFFFF),  # keep
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


def open_more_listeners(
    listener: socket.socket, count: int, *, backlog: int = BACKLOG
) -> list[socket.socket]:
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
        beside.listen(backlog)
        listeners.append(beside)
    return listeners


def hold_new_connections(listeners: list[socket.socket]) -> list[socket.socket]:
    """Keep new connections from a port until the returned sockets are closed, too."""
    # Connections that wait at `listeners` can still be accepted; closing a socket resets the ones
    # that wait there. The sender of a dropped packet repeats it after a second, when the sockets
    # are closed or another server listens on the port.
    try:
        for listener in listeners:
            attach_program(listener, SO_ATTACH_FILTER, DROP_SYN)
    except PermissionError:  # newer kernels allow only root to do this
        with suppress(OSError):
            return divert_new_connections(listeners)
    return []


def divert_new_connections(listeners: list[socket.socket]) -> list[socket.socket]:
    """Send the first packets of new connections to a socket that drops them: its queue is full.

    Return that socket and the connection in its queue, or nothing where a socket can't be shared.
    """
    if not listeners[0].getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT):
        return []
    family = listeners[0].family
    filling = create_socket(family)
    filling.bind(("", 0))
    # Only this connection reaches the socket that is opened next, until its queue is full: another
    # one in it would be reset.
    source = (LOAD_HALF, 0, 0, NETWORK_HEADER + HEADER_LENGTHS[family])
    is_filling = (IF_EQUAL, 0, 1, filling.getsockname()[1])
    divert = (RETURN, 0, 0, len(listeners))
    attach_program(
        listeners[0], SO_ATTACH_REUSEPORT_CBPF, (source, is_filling, divert, (RETURN, 0, 0, 0))
    )
    full = open_more_listeners(listeners[0], 1, backlog=0)
    if not full:
        filling.close()
        return []
    filling.settimeout(FILL_S)
    filling.connect(listeners[0].getsockname()[:2])
    attach_program(listeners[0], SO_ATTACH_REUSEPORT_CBPF, (divert,))
    return [*full, filling]


def admit_new_connections(listener: socket.socket) -> None:
    for detach in (SO_DETACH_FILTER, SO_DETACH_REUSEPORT_BPF):
        with suppress(OSError):  # there is none
            listener.setsockopt(socket.SOL_SOCKET, detach, 0)


def attach_program(
    listener: socket.socket, option: int, steps: tuple[tuple[int, int, int, int], ...]
) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in steps))
    program = struct.pack("HL", len(steps), ctypes.addressof(code))
    listener.setsockopt(socket.SOL_SOCKET, option, program)


def create_socket(family: int) -> socket.socket:
    created = socket.socket(family, socket.SOCK_STREAM)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return created
