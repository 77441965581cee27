"""A worker's threads: many that receive bodies, a few that run the application.

granian calls `receive` in one of its own threads, which only wait: for a body, or for a token to be
checked before its body is read. The application runs in as many threads as there are database
connections, and gets a body only when all of it has arrived, so no client can hold one of them.
"""

import hashlib
import logging
import mmap
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import chain
from queue import SimpleQueue
from threading import BoundedSemaphore, Lock, Thread
from typing import Any

from config.body_slots import BodySlots

logger = logging.getLogger(__name__)

# Threads of granian for each thread of the application, started on demand. A quarter of them may
# wait for bodies, another quarter for their turn to do so, and a third for tokens to be checked.
RECEIVERS, SMALL_SLOTS, LARGE_SLOTS, REFUSED_SLOTS, CHECKS = 24, 4, 1, 1, 8
SMALL_BODY = 65_536
DRAINED = 1024 * 1024
BODY_CAP = max(8 * 1024 * 1024, int(os.environ.get("TENFOUR_BODY_BYTES") or 0))
# Up to this size, the reader of a stream holds no thread, and an error in its middle is a 500:
# granian ends a stream that raised like any other. `dashboard.export` relies on it.
WHOLE_RESPONSE = 4 * 1024 * 1024
KNOWN_S = 60
WARN_S = 60.0
KNOWN_CALLERS = 10_000
BASE_ENVIRON = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}

# Set in the requests of a server that is about to stop.
STOPPING = "tenfour.stopping"
# The client opens its next connection elsewhere, rather than write to one that is about to close.
CLOSE = ("Connection", "close")

Environ = dict[str, Any]


class Response:
    """WSGI's `start_response`, which stores its arguments."""

    __slots__ = ("headers", "status")

    def __call__(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        self.status, self.headers = int(status[:3]), headers


@dataclass(slots=True)
class Job:
    """A request for the application's threads."""

    proto: Any
    environ: Environ
    done: Callable[[], None] | None = None
    needs_body: bool = False


class BodyNotRead(BaseException):
    """The application asks for a body that has not been read.

    It is not an Exception, so that no handler of the application takes it for an error of its own.
    """


class UnreadBody:
    """Stands for a body until the request's token has been checked."""

    def read(self, size: int = -1) -> bytes:
        raise BodyNotRead

    readline = readlines = read


class WebThreads:
    """The threads of one worker."""

    def __init__(
        self,
        application: Callable[..., Iterable[bytes]],
        threads: int,
        *,
        draining: "mmap.mmap | bytes" = b"\0",
    ) -> None:
        self.application = application
        self.draining = draining  # not 0 once the server is about to stop
        self.small = BodySlots(SMALL_SLOTS * threads)
        # Large bodies are kept in memory until they are handled.
        self.large = BodySlots(LARGE_SLOTS * threads)
        self.refused = BoundedSemaphore(REFUSED_SLOTS * threads)
        self.checks = BoundedSemaphore(CHECKS * threads)
        self.warned = -WARN_S
        self.callers = KnownCallers()
        self.jobs: SimpleQueue[Job] = SimpleQueue()
        # Requests whose token is not known yet have threads of their own: a flood of them leaves
        # the others alone.
        self.strangers: SimpleQueue[Job] = SimpleQueue()
        for jobs, count in ((self.jobs, threads), (self.strangers, max(1, threads // 4))):
            for number in range(count):
                Thread(target=self.work, args=(jobs,), name=f"web-{number}", daemon=True).start()

    # -- in granian's threads

    def receive(self, proto: Any, environ: Environ) -> None:
        """Take a request from granian; the response may be sent after the return."""
        environ |= BASE_ENVIRON
        length = environ.get("CONTENT_LENGTH")
        if length in (None, "0", "") and "HTTP_TRANSFER_ENCODING" not in environ:
            environ["wsgi.input"] = BytesIO()
            self.jobs.put(Job(proto, environ))
        else:
            self.receive_with_body(proto, environ)

    def receive_with_body(self, proto: Any, environ: Environ) -> None:
        source, size = environ["wsgi.input"], declared_size(environ)
        environ["wsgi.input"] = UnreadBody()
        caller = ""
        if takes_tokens(environ["PATH_INFO"]):
            caller = caller_of(environ)
            if not self.callers.is_known(caller):
                if not self.check_token(proto, environ):
                    self.drain(source)
                    return
                self.callers.add(caller)
        if size is not None and size > BODY_CAP:
            self.jobs.put(Job(proto, environ))  # refused for its size
            return
        slots = self.small if size is not None and size <= SMALL_BODY else self.large
        if not slots.take(caller):
            self.refuse_busy(proto, environ)
            return
        done: Callable[[], None] | None = None
        try:
            body = source.read(BODY_CAP + 1 if size is None else size)
            if size is not None and len(body) < size:
                proto.response_bytes(400, [], b"")  # the client is gone
                return
            environ["CONTENT_LENGTH"] = str(len(body))
            environ["wsgi.input"] = BytesIO(body)
            if slots is self.large:
                done = partial(slots.give_back, caller)
            self.jobs.put(Job(proto, environ, done))
        finally:
            if done is None:
                slots.give_back(caller)

    def check_token(self, proto: Any, environ: Environ) -> bool:
        """Return whether the token is valid; otherwise the request is answered without its body."""
        if not self.checks.acquire(blocking=False):
            self.refuse_busy(proto, environ)
            return False
        try:
            checked = Lock()
            checked.acquire()
            length = environ.get("CONTENT_LENGTH")
            environ["CONTENT_LENGTH"] = length or "1"  # Django reads nothing without a length
            job = Job(proto, environ | {"tenfour.unread": True}, checked.release)
            self.strangers.put(job)
            checked.acquire()
        finally:
            self.checks.release()
        return job.needs_body

    def drain(self, source: Any) -> None:
        """Read a moderate body that was refused: a sender still writing would not see why."""
        if self.refused.acquire(blocking=False):
            try:
                source.read(DRAINED)
            finally:
                self.refused.release()

    def refuse_busy(self, proto: Any, environ: Environ) -> None:
        """Have the application answer that too many bodies are awaited, before reading this one."""
        if (now := time.monotonic()) > self.warned + WARN_S:
            self.warned = now
            logger.warning("too many requests wait for their bodies; the next ones get a 503")
        self.strangers.put(Job(proto, environ | {"tenfour.busy": True}))

    # -- in the application's threads

    def work(self, jobs: "SimpleQueue[Job]") -> None:
        while True:
            job = jobs.get()
            try:
                self.respond(job)
            except BodyNotRead:
                job.needs_body = job.environ.keys() >= {"tenfour.unread", "tenfour.token_checked"}
                if not job.needs_body:
                    job.proto.response_bytes(413, [], b"")
            except BaseException:
                logger.exception("the response could not be sent")
                job.proto.response_bytes(500, [], b"")
            finally:
                if job.done:
                    job.done()

    def respond(self, job: Job) -> None:
        response = Response()
        if self.draining[0]:
            job.environ[STOPPING] = True
        body: Any = self.application(job.environ, response)
        if self.draining[0]:
            response.headers = [*response.headers, CLOSE]
        try:
            content, rest = read_start(body)
            if rest is None:
                job.proto.response_bytes(response.status, response.headers, content)
            else:
                chunks = Chunks(chain([content], rest))
                job.proto.response_iter(response.status, response.headers, chunks)
        finally:
            if hasattr(body, "close"):
                body.close()


class Chunks:
    """The chunks of a streamed response, as granian asks for them; the caller closes it."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self.__next__ = iter(body).__next__

    def close(self) -> None:
        """Do nothing."""


@dataclass
class KnownCallers:
    """Callers whose token was valid a moment ago: their bodies are read before it is checked."""

    until: dict[str, float] = field(default_factory=dict)

    def is_known(self, caller: str) -> bool:
        return self.until.get(caller, 0) > time.monotonic()

    def add(self, caller: str) -> None:
        if len(self.until) >= KNOWN_CALLERS:
            self.until = {}
        self.until[caller] = time.monotonic() + KNOWN_S


def takes_tokens(path: str) -> bool:
    """Return whether requests for the path carry a bearer token, rather than a session."""
    return path.startswith("/v1/") or path == "/mcp"


def caller_of(environ: Environ) -> str:
    """Return a digest of the request's token, or nothing."""
    header = environ.get("HTTP_AUTHORIZATION", "")
    return hashlib.sha256(header.encode()).hexdigest() if header else ""


def declared_size(environ: Environ) -> int | None:
    """Return the length of the body, or None if it arrives in chunks."""
    length = environ.get("CONTENT_LENGTH")
    return int(length) if length else None


def read_start(body: Any) -> tuple[bytes, Iterator[bytes] | None]:
    """Return a response's content, with the rest of a long stream; None if there is no rest."""
    if getattr(body, "streaming", True) is False:  # Django's own
        return body.content, None
    pieces, size, rest = [], 0, iter(body)
    for piece in rest:
        pieces.append(piece)
        size += len(piece)
        if size > WHOLE_RESPONSE:
            return b"".join(pieces), rest
    return b"".join(pieces), None
