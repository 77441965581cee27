"""Serve Tenfour with granian: `python -m config.web_server`, or another WSGI application by name.

The main process binds the port, loads the application, and forks the workers, each with a socket
of its own (`config.local.listeners`). granian by itself binds them with SO_REUSEPORT, so a second
instance on the port would start without an error and take half of the connections.
"""

import gc
import logging
import mmap
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketHolder
from granian.server import mp

from config import environment
from config.local import listeners
from config.local.commands import die_with
from config.local.listeners import BACKLOG
from config.local.places import PROJECT, url_of
from config.requests.web_threads import RECEIVERS, WebThreads

WORKERS = environment.read("WEB_WORKERS")
THREADS = environment.read("WEB_THREADS")
KEEP_ALIVE_MS = 75_000  # also the time to send the headers: connections that wait hold no thread
# For this long after SIGTERM, everything is served, /readyz says "stopping", and connections are
# closed after their next response.
DRAIN_S = environment.read("DRAIN_SECONDS")
SETTLE_S = 0.3  # then, for connections that wait to be accepted, while no others arrive
STOP_S = 5  # for requests under way at SIGTERM; then the workers are killed
# A peer that vanished without closing its connection is noticed within a minute, even in a body.
TCP_OPTIONS = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 30,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 10,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 3,
    (socket.IPPROTO_TCP, socket.TCP_NODELAY): 1,
}

Application = Callable[..., Any]
logger = logging.getLogger("config.web_server")  # this module is the main one where it runs


class Server(mp.MPServer):  # type: ignore[misc]
    """granian on sockets that are open already, with the application loaded before the fork."""

    def __init__(self, listener: socket.socket, application: Application, *, is_own: bool) -> None:
        self.is_own = is_own  # or else the socket outlives this process
        self.draining = mmap.mmap(-1, 1)  # shared with the workers
        self.listeners = [listener, *listeners.open_more_listeners(listener, WORKERS - 1)]
        for each in self.listeners:
            for (level, option), value in TCP_OPTIONS.items():  # accepted connections inherit them
                each.setsockopt(level, option, value)
        self.application = application
        super().__init__(
            "application",
            *listener.getsockname()[:2],
            interface=Interfaces.WSGI,
            workers=WORKERS,
            blocking_threads=RECEIVERS * THREADS,
            backlog=BACKLOG,
            backpressure=max_connections(),
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(header_read_timeout=KEEP_ALIVE_MS),
            websockets=False,
            log_level=LogLevels.error,
            respawn_failed_workers=True,
            workers_kill_timeout=STOP_S,
        )

    def _init_shared_socket(self) -> None:
        self._sso = None

    def _spawn_worker(self, idx: int, *args: Any, **kwargs: Any) -> Any:
        # The main process keeps the socket: connections wait there until a worker is replaced.
        listener = self.listeners[idx % len(self.listeners)]
        self._shd = SocketHolder(listener.fileno(), False, BACKLOG)
        return super()._spawn_worker(idx, *args, **kwargs)

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        # The handler of a second signal would wait for a lock that the first one holds.
        if not self.interrupt_signal:
            super().signal_handler_interrupt(*args, **kwargs)

    def run(self) -> None:
        main = os.getpid()

        def start_worker() -> Callable[..., None]:
            # Otherwise, kill -9 of the main process would leave the workers running.
            die_with(main, signal.SIGKILL)
            return WebThreads(self.application, THREADS, draining=self.draining).receive

        # granian's own wrapper copies the environment, with its secrets, into every request.
        mp._wsgi_call_wrap = lambda receive, *_: receive
        self.serve(target_loader=start_worker, wrap_loader=False)

    def shutdown(self, exit_code: int = 0) -> None:
        # No request may fail: see docs/deployment.md. Connections that arrive at a socket that was
        # handed on wait there for the next process.
        self.draining[0] = 1
        time.sleep(DRAIN_S if self.is_own else 0)
        self.held = listeners.hold_new_connections(self.listeners)
        time.sleep(SETTLE_S)
        try:
            super().shutdown(exit_code)
        finally:
            if not self.is_own:
                for each in self.held:
                    each.close()
                listeners.admit_new_connections(self.listeners[0])


def max_connections() -> int:
    """Return how many connections a worker accepts: most of the files that it may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 16_384 if soft == resource.RLIM_INFINITY else max(128, min(16_384, soft - 256))


def open_listener() -> socket.socket:
    """Return the socket that `make up` handed on, or a new one, which does not listen yet."""
    bind = os.environ.get("TENFOUR_BIND") or default_address()
    if bind.startswith("fd://"):
        listener = socket.socket(fileno=int(bind.removeprefix("fd://")))
        listeners.admit_new_connections(listener)
    else:
        host, _, port = bind.rpartition(":")
        host = host.strip("[]")
        try:
            listener = listeners.bind_listener(host, int(port))
        except OSError as error:
            sys.exit(describe_refusal(error))
        except ValueError:
            sys.exit(f"TENFOUR_BIND must be an address and a port like 127.0.0.1:8000, not {bind}.")
    return listener


def listen(listener: socket.socket) -> None:
    # Call this only after the application is loaded: before that, a proxy would wait here rather
    # than use another server.
    try:
        listener.listen(BACKLOG)
    except OSError as error:  # another instance that was started at the same time
        sys.exit(describe_refusal(error))


def describe_refusal(error: OSError) -> str:
    bind = os.environ.get("TENFOUR_BIND") or default_address()
    named = "TENFOUR_BIND" if "TENFOUR_BIND" in os.environ else "TENFOUR_PORT or TENFOUR_HOST"
    return f"{bind} can't be used: {os.strerror(error.errno or 0)}. Choose another {named}."


def default_address() -> str:
    host = environment.read_text("HOST")
    return f"{f'[{host}]' if ':' in host else host}:{environment.read_text('PORT')}"


def wait_for_gate() -> None:
    """Wait until the database is ready, if `config.local.up` started this process."""
    # `config.local.up` keeps a pipe open until then; requests wait in the socket's queue meanwhile.
    gate = os.environ.get("TENFOUR_GATE")
    if gate:
        with suppress(OSError):
            os.read(int(gate), 1)
    else:  # `config.local.up` has warned already
        for warning in environment.unknown_variables(os.environ):
            logger.warning(warning)


@contextmanager
def shared_counters() -> Iterator[None]:
    """Give the workers a folder in which they share their counters."""
    # It is in the data folder, or in the temporary folder where a container may not write to that.
    data = Path(environment.read_text("DATA") or PROJECT / ".tenfour")
    place = data if os.access(data, os.W_OK) else Path(tempfile.gettempdir())
    for left in place.glob("metrics-*"):  # of a server that was killed
        if not Path(f"/proc/{left.name.removeprefix('metrics-')}").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = place / f"metrics-{os.getpid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def freeze_loaded() -> None:
    """Exempt everything that is loaded from garbage collection, and then enable it."""
    # A full collection takes a tenth of a second, and the request that it hits takes that longer.
    gc.collect()
    gc.freeze()
    gc.enable()


def load_application(name: str) -> Application:
    """Import an application, without garbage collections until `freeze_loaded`."""
    # Loading creates little garbage, and collections would take a sixth of the time.
    gc.disable()
    module, _, attribute = name.partition(":")
    application: Application = getattr(import_module(module), attribute)
    return application


def main(name: str = "config.wsgi:application") -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until granian handles it
    listener = open_listener()
    is_own = not os.environ.get("TENFOUR_BIND", "").startswith("fd://")
    if not is_own:
        os.environ.setdefault("TENFOUR_LOCAL_URL", url_of(listener))
    else:  # not the address of a `make up` whose folder is used
        os.environ["TENFOUR_LOCAL_URL"] = url_of(listener)
    with shared_counters():
        application = load_application(name)
        wait_for_gate()
        if is_own:
            listen(listener)
        if "TENFOUR_GATE" not in os.environ:
            logger.info("serving at %s", url_of(listener))
        freeze_loaded()
        multiprocessing.set_start_method("fork")  # the workers share what is loaded
        Server(listener, application, is_own=is_own).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
