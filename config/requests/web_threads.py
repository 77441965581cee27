"""A worker's threads: many that receive bodies, a few that run the application.

granian calls `receive` in one of its own threads, which only wait: for a body, or for a token or a
session to be checked before its body is read. The application runs in as many threads as there are
database connections, and gets a body only when all of it has arrived, so no client can hold one of
them. A body of unknown length is refused: granian can't tell its end from a broken connection.
"""

import hashlib
import logging
import mmap
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import chain
from queue import SimpleQueue
from threading import BoundedSemaphore, Lock, Thread
from typing import Any

from config import environment
from config.requests.body_deadlines import (
    BODY_S,
    BYTES_PER_S,
    CLOSE,
    AwaitedBody,
    BodyDeadlines,
    Reply,
)
from config.requests.body_slots import BodySlots
from config.requests.client_addresses import find_client_address, find_client_network

logger = logging.getLogger(__name__)

# Slots for bodies, for each thread of the application: callers with a token, people who are signed
# in, and all others, such as people who sign in, have slots of their own. The last have many,
# because an attacker has many addresses, but few for large bodies.
SMALL_SLOTS, LARGE_SLOTS, PERSON_SLOTS, STRANGER_SLOTS, REFUSED_SLOTS, CHECKS = 4, 1, 2, 8, 1, 8
# Threads of granian for each thread of the application, started on demand: one for each slot, and
# another one that waits for it.
RECEIVERS = (
    2 * (SMALL_SLOTS + PERSON_SLOTS + STRANGER_SLOTS + 3 * LARGE_SLOTS) + REFUSED_SLOTS + CHECKS
)
SMALL_BODY = 65_536
DRAINED = 1024 * 1024
BODY_CAP = 8 * 1024 * 1024
PROXIES = environment.read("TRUSTED_PROXIES")
# Up to this size, the reader of a stream holds no thread, and an error in its middle is a 500:
# granian ends a stream that raised like any other. `dashboard.lists.export` relies on it.
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
# Set in a request whose body is not read: the code of the problem that the application responds.
REFUSED = "tenfour.refused"
# Set in a request for its caller to be checked before its body is read, and then by the
# application: that its token is valid, or the name of the person whose session it has.
UNREAD, TOKEN_CHECKED, PERSON = "tenfour.unread", "tenfour.token_checked", "tenfour.person"

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


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a body: the holder of a token, a person who is signed in, or a stranger."""

    name: str
    kind: str


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
        # Large bodies are kept in memory until they are handled.
        small, large, people, strangers = (
            each * threads for each in (SMALL_SLOTS, LARGE_SLOTS, PERSON_SLOTS, STRANGER_SLOTS)
        )
        self.slots = {
            "token": (BodySlots(small, most=small // 2), BodySlots(large, most=large // 2)),
            "person": (BodySlots(people, most=people // 2), BodySlots(large, most=large // 2)),
            "stranger": (BodySlots(strangers, most=threads // 2), BodySlots(large // 4, most=1)),
        }
        self.deadlines = BodyDeadlines(self.respond_late)
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
        # The response may be sent after the return.
        environ |= BASE_ENVIRON
        length = environ.get("CONTENT_LENGTH")
        if "HTTP_TRANSFER_ENCODING" in environ:
            environ["wsgi.input"] = BytesIO()
            self.refuse(proto, environ, "length_required")
        elif length in (None, "0", "") or environ["REQUEST_METHOD"] == "HEAD":
            environ["wsgi.input"] = BytesIO()
            self.jobs.put(Job(proto, environ))
        else:
            self.receive_with_body(proto, environ, int(length))

    def receive_with_body(self, proto: Any, environ: Environ, size: int) -> None:
        source = environ["wsgi.input"]
        environ["wsgi.input"] = UnreadBody()
        caller = self.find_caller(proto, environ, source)
        if caller is None:
            return
        if size > BODY_CAP:
            self.jobs.put(Job(proto, environ))  # refused for its size
            return
        is_small = size <= SMALL_BODY
        slots = self.slots[caller.kind][not is_small]
        if not slots.take(caller.name):
            self.refuse_busy(proto, environ)
            return
        done: Callable[[], None] | None = None
        try:
            is_stranger = caller.kind == "stranger"
            seconds = BODY_S if is_stranger else BODY_S + size / BYTES_PER_S
            awaited = AwaitedBody(proto, environ, seconds, crowd=slots if is_stranger else None)
            body = self.deadlines.read(source, size, awaited)
            if body is None:
                return
            if len(body) < size:
                self.refuse(proto, environ, "bad_request")
                return
            environ["wsgi.input"] = BytesIO(body)
            if not is_small:
                done = partial(slots.give_back, caller.name)
            self.jobs.put(Job(proto, environ, done))
        finally:
            if done is None:
                slots.give_back(caller.name)

    def find_caller(self, proto: Any, environ: Environ, source: Any) -> Caller | None:
        """Return who sends a body; None if the request was answered without it."""
        has_token = takes_tokens(environ["PATH_INFO"])
        known_by = digest_of(environ.get("HTTP_AUTHORIZATION" if has_token else "HTTP_COOKIE", ""))
        if caller := self.callers.find(known_by):
            return caller
        if has_token or known_by:
            reply = Reply()
            job = self.check_caller(reply, environ)
            if job is None:
                self.refuse_busy(proto, environ)
                return None
            if has_token and not job.needs_body:
                self.drain(proto, environ, source, reply)
                return None
            person: str = job.environ.get(PERSON, "")
            if has_token or person:
                caller = Caller(known_by, "token") if has_token else Caller(person, "person")
                self.callers.add(known_by, caller)
                return caller
        address = find_client_address(environ, proxies=PROXIES)
        return Caller(find_client_network(address), "stranger")

    def check_caller(self, reply: Reply, environ: Environ) -> Job | None:
        """Have the application check a token or a session, and maybe respond without the body.

        None is returned if too many wait for that.
        """
        if not self.checks.acquire(blocking=False):
            return None
        try:
            checked = Lock()
            checked.acquire()
            job = Job(reply, environ | {UNREAD: True}, checked.release)
            self.strangers.put(job)
            checked.acquire()
        finally:
            self.checks.release()
        return job

    def drain(self, proto: Any, environ: Environ, source: Any, reply: Reply) -> None:
        """Send a response, after reading a moderate body."""
        # A sender that is still writing would not see the response.
        waits = reply.status >= 400 and "HTTP_EXPECT" not in environ
        if waits and self.refused.acquire(blocking=False):
            try:
                awaited = AwaitedBody(proto, environ, BODY_S, reply=reply)
                self.deadlines.read(source, DRAINED, awaited)
            finally:
                self.refused.release()
        proto.response_bytes(reply.status, reply.headers, reply.content)

    def refuse_busy(self, proto: Any, environ: Environ) -> None:
        if (now := time.monotonic()) > self.warned + WARN_S:
            self.warned = now
            logger.warning("too many requests wait for their bodies; the next ones get a 503")
        self.refuse(proto, environ, "temporarily_unavailable")

    def refuse(self, proto: Any, environ: Environ, code: str) -> None:
        self.strangers.put(Job(proto, environ | {REFUSED: code}))

    def respond_late(self, awaited: AwaitedBody) -> Reply:
        reply = Reply()
        job = Job(reply, awaited.environ | {REFUSED: "request_timeout"})
        copy_context().run(self.run, job)  # without the request's ID in later log lines
        return reply

    # -- in the application's threads

    def work(self, jobs: "SimpleQueue[Job]") -> None:
        while True:
            job = jobs.get()
            try:
                self.run(job)
            finally:
                if job.done:
                    job.done()

    def run(self, job: Job) -> None:
        try:
            self.respond(job)
        except BodyNotRead:
            is_checked = TOKEN_CHECKED in job.environ or PERSON in job.environ
            job.needs_body = UNREAD in job.environ and is_checked
            if not job.needs_body:
                job.proto.response_bytes(413, [], b"")
        except BaseException:
            logger.exception("the response could not be sent")
            job.proto.response_bytes(500, [], b"")

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
    """Callers whose token or session was valid recently: their bodies are read at once."""

    until: dict[str, tuple[float, Caller]] = field(default_factory=dict)

    def find(self, known_by: str) -> Caller | None:
        until, caller = self.until.get(known_by, (0, None))
        return caller if until > time.monotonic() else None

    def add(self, known_by: str, caller: Caller) -> None:
        if len(self.until) >= KNOWN_CALLERS:
            self.until = {}
        self.until[known_by] = time.monotonic() + KNOWN_S, caller


def takes_tokens(path: str) -> bool:
    return path.startswith("/v1/") or path == "/mcp"


def digest_of(header: str) -> str:
    """Return a digest of a header that holds a token or a session, or nothing without one."""
    return hashlib.sha256(header.encode()).hexdigest() if header else ""


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
