"""A network that holds one machine's loopback and nothing else, and relays out of it."""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
LOOPBACK = "127.0.0.1"
# Agents start by the hundred of megabytes; what they start is theirs to end.
T = TypeVar("T")


class Network:
    """Sockets and processes of a network namespace of its own, where this user may make one.

    A namespace belongs to a thread, and a socket stays in the namespace that it was made in. So
    one thread makes sockets and processes; every other thread may use them.
    """

    def __init__(self) -> None:
        self.inside = ThreadPoolExecutor(1)
        self.is_isolated: bool = self.inside.submit(enter_new_namespace).result()

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        self.inside.shutdown()

    def do(self, work: Callable[..., T], *args: Any, **more: Any) -> T:
        """Run a function in the thread that is inside, and return its result."""
        return self.inside.submit(work, *args, **more).result()

    def listen(self, port: int = 0) -> socket.socket:
        """Return a socket that listens on the loopback inside."""
        return self.do(socket.create_server, (LOOPBACK, port), backlog=64)

    def start(self, argv: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Start a process inside, in a session of its own."""
        return self.do(subprocess.Popen, argv, start_new_session=True, **options)


def enter_new_namespace() -> bool:
    """Move this thread into a new network namespace whose loopback is up; return whether it did."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(control, SIOCGIFFLAGS, name))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | IFF_UP))
    return True


class Relay:
    """A port inside that leads to a server outside, and that can be closed like a server."""

    def __init__(self, network: Network, port_outside: int) -> None:
        self.network, self.port_outside = network, port_outside
        # Outside a namespace, the server itself has its port already.
        self.port = port_outside if network.is_isolated else 0
        self.server: socket.socket | None = None
        self.sent = bytearray()  # what the agents sent
        self.connected: set[socket.socket] = set()
        self.open()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def open(self) -> None:
        """Listen, on the same port as before."""
        self.server = self.network.listen(self.port)
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.server,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, as a machine does whose server is down."""
        if self.server:
            with contextlib.suppress(OSError):  # wakes the thread that accepts
                self.server.shutdown(socket.SHUT_RDWR)
            self.server.close()
            self.server = None

    def break_off(self) -> None:
        """Refuse connections, and cut those that there are."""
        self.close()
        for near in [*self.connected]:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def accept(self, server: socket.socket) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self.lead_on, args=(near,), daemon=True).start()

    def lead_on(self, near: socket.socket) -> None:
        self.connected.add(near)
        with near, socket.create_connection((LOOPBACK, self.port_outside)) as far:
            back = threading.Thread(target=pass_on, args=(far, near), daemon=True)
            back.start()
            pass_on(near, far, self.sent)
            back.join()
            self.connected.discard(near)


def pass_on(source: socket.socket, target: socket.socket, copy: bytearray | None = None) -> None:
    """Copy what one end sends to the other, and then its end."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            if copy is not None:
                copy += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def end_session(process: "subprocess.Popen[bytes]", signal: int) -> None:
    """Send a signal to a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal)
