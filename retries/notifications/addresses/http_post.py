"""Post to a checked address: pinned, without redirects, and within a total time."""

import http.client
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ledger.database import server_time
from retries.notifications.addresses import checks as addresses

DEADLINE_SECONDS = 15
RESPONSE_BYTES = 1024
ERROR_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a try: a status and the beginning of the body, or why there is none."""

    code: int | None
    text: str = ""
    error: str = ""
    latency_ms: int = 0
    retry_after_s: int | None = None
    # the service's own ids of what it showed
    receipt: str = ""

    @property
    def succeeded(self) -> bool:
        # mail has no status: it was accepted if there is no error
        return not self.error if self.code is None else 200 <= self.code < 300


class PinnedConnection(http.client.HTTPConnection):
    """A connection to an address that was checked; Host and SNI name the host."""

    def __init__(self, host: str, port: int, address: str, context: Any, deadline: float) -> None:
        super().__init__(host, port)
        self.address, self.context, self.deadline = address, context, deadline

    def connect(self) -> None:
        left = max(0.1, self.deadline - time.monotonic())
        self.sock = socket.create_connection((self.address, self.port), timeout=left)
        # A receiver that sends a byte now and then never times out, so the deadline ends it.
        self.watch = threading.Timer(max(0.1, self.deadline - time.monotonic()), self.cut)
        self.watch.daemon = True
        self.watch.start()
        if self.context:
            self.sock = self.context.wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if hasattr(self, "watch"):
            self.watch.cancel()
        super().close()


def post(url: str, body: bytes, headers: dict[str, str], *, any_port: bool = False) -> Answer:
    """Post a body and return how it ended; never raises for a receiver's errors."""
    started = time.monotonic()
    try:
        deadline = started + DEADLINE_SECONDS
        answer = exchange(url, body, headers, deadline=deadline, any_port=any_port)
    except addresses.ForbiddenAddress as error:
        answer = Answer(None, error=str(error))
    except ssl.SSLError as error:
        answer = Answer(None, error=f"TLS failed: {error.reason or error}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        answer = Answer(None, error=describe_failure(error, started))
    took = round((time.monotonic() - started) * 1000)
    return Answer(answer.code, answer.text, answer.error[:ERROR_LENGTH], took, answer.retry_after_s)


def exchange(
    url: str, body: bytes, headers: dict[str, str], *, deadline: float, any_port: bool
) -> Answer:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or addresses.DEFAULT_PORTS[parts.scheme]
    found = addresses.resolve_checked(host, port, any_port=any_port)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    connection = connect_first(host, port, found, context, deadline)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers | {"Connection": "close"})
        response = connection.getresponse()
        return Answer(
            response.status,
            text=read_beginning(response),
            error=describe_status(response.status),
            retry_after_s=parse_retry_after(response.getheader("Retry-After")),
        )
    finally:
        connection.close()


def connect_first(
    host: str, port: int, found: list[str], context: Any, deadline: float
) -> PinnedConnection:
    for at, address in enumerate(found):
        connection = PinnedConnection(host, port, address, context, deadline)
        try:
            connection.connect()
            return connection
        except ssl.SSLError:
            connection.close()
            raise
        except OSError:
            connection.close()
            if at == len(found) - 1 or time.monotonic() >= deadline:
                raise
    raise OSError(f"{host} has no address")


def read_beginning(response: http.client.HTTPResponse) -> str:
    # A body that breaks off does not change the status.
    try:
        return readable(response.read(RESPONSE_BYTES))
    except (OSError, http.client.HTTPException):
        return ""


def readable(raw: bytes) -> str:
    # PostgreSQL can't store a NUL character.
    return raw.decode(errors="replace").replace("\x00", "�")


def describe_status(status: int) -> str:
    if 200 <= status < 300:
        return ""
    return f"HTTP {status}: redirects are not followed" if 300 <= status < 400 else f"HTTP {status}"


def describe_failure(error: Exception, started: float) -> str:
    if isinstance(error, TimeoutError) or time.monotonic() - started >= DEADLINE_SECONDS - 0.5:
        return f"no answer within {DEADLINE_SECONDS} s"
    if isinstance(error, http.client.HTTPException):
        return f"the answer is not HTTP: {type(error).__name__}"
    if isinstance(error, OSError):
        return f"no connection: {addresses.reason_of(error)}"
    return f"no answer: {error}"


def parse_retry_after(value: str | None) -> int | None:
    """Return the seconds that a Retry-After header names, as a number or as a date.

    >>> parse_retry_after("120"), parse_retry_after("soon"), parse_retry_after(None)
    (120, None, None)
    """
    if not value:
        return None
    if value.strip().isdecimal():
        return min(int(value.strip()[:9]), 10**8)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0, round((at - server_time.now()).total_seconds()))
