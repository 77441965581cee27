"""From a call to its result: every step decided here, none of them taken (no I/O, no sleep)."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from tenfour.http.exchange import Answer, NoAnswer, Request, Steps, Wait
from tenfour.http.older_server import leave_out_unknown
from tenfour.http.problems import TenfourError, server_away
from tenfour.http.resend import RETRIES, retry_after, wait_before_next
from tenfour.log import log
from tenfour.settings import Settings
from tenfour.version import __version__

T = TypeVar("T")

JSON = "application/json"
TRACEPARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
# A longer wait is logged, so that it does not look like a program that hangs.
LONGEST_SILENCE_S = 8.0
OLDER_SERVER = (
    "The server is older than this client and does not accept all of its fields, such as an "
    "attempt's tokens, cost, checks, and tree. The client leaves these fields out."
)


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of the API and how its answer is read: from JSON, or as the text that it is."""

    method: str
    path: str
    read: Callable[[Any], T]
    # JSON, or text that goes out as it is
    body: Mapping[str, Any] | str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    # The same key goes with every try; a POST without one gets a new one.
    idempotency_key: str | None = None
    # of a body that is text
    media: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    # whether `read` gets the whole answer, because it needs headers
    reads_answer: bool = False


@dataclass(frozen=True)
class Core:
    """The settings that turn a call into steps."""

    settings: Settings
    retries: int = RETRIES
    rand: Callable[[], float] = random.random

    def perform(self, call: Call[T]) -> Steps[T]:
        """Send the call, again where that is safe, and return its result.

        Raises TenfourError when the last reply is a refusal, ServerAway when there is none.
        """
        request = request_for(call, self.settings)
        sent = 0
        while True:
            reply = yield request
            known = leave_out_unknown(reply, call.path, call.body)
            if known is not None:
                log.warning(OLDER_SERVER)
                call = replace(call, path=known[0], body=known[1])
                request = request_for(call, self.settings)
                continue
            sent += 1
            wait = wait_before_next(reply, sent=sent, retries=self.retries, rand=self.rand())
            if wait is None:
                return result_of(call, reply, url=self.settings.url)
            if wait > LONGEST_SILENCE_S and isinstance(reply, Answer):
                log.warning("The server answered %d. Retrying in %.0f s.", reply.status, wait)
            yield Wait(wait)


def request_for(call: Call[Any], settings: Settings) -> Request:
    """The request that makes this call."""
    query = f"?{urlencode(call.params)}" if call.params else ""
    return Request(
        method=call.method,
        url=f"{settings.url}{call.path}{query}",
        headers=_headers(call, settings),
        content=_content(call.body),
    )


def _content(body: Mapping[str, Any] | str | None) -> bytes | None:
    if body is None:
        return None
    return (body if isinstance(body, str) else json.dumps(body, allow_nan=False)).encode()


def _headers(call: Call[Any], settings: Settings) -> dict[str, str]:
    headers = {
        "Accept": call.accept,
        "Authorization": f"Bearer {settings.token}",
        "User-Agent": f"tenfour-python/{__version__}",
        # so that the server can say that this machine's clock is wrong
        "Tenfour-Clock": str(int(time.time())),
        **call.headers,
    }
    if call.body is not None:
        plain = isinstance(call.body, str)
        headers["Content-Type"] = f"{call.media}; charset=utf-8" if plain else JSON
    if call.method == "POST":
        headers["Idempotency-Key"] = call.idempotency_key or os.urandom(16).hex()
    if parent := traceparent():
        headers["traceparent"] = parent
    return headers


def traceparent() -> str | None:
    """Return the W3C header of the current span, if the program traces with OpenTelemetry.

    Otherwise it is the variable TRACEPARENT, which a traced program sets for those that it runs.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    span = trace.get_current_span().get_span_context() if trace else None
    if span is None or not span.is_valid:
        inherited = os.environ.get("TRACEPARENT", "")
        return inherited if TRACEPARENT.fullmatch(inherited) else None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


def result_of(call: Call[T], reply: Answer | NoAnswer, *, url: str) -> T:
    """Return the call's result; raise TenfourError or ServerAway."""
    if isinstance(reply, NoAnswer):
        raise server_away(url, reason=reply.reason, connected=reply.connected)
    if not 200 <= reply.status < 300:
        raise refusal(reply, url=url)
    try:
        if call.reads_answer:
            return call.read(reply)
        return call.read(reply.json() if call.accept == JSON else reply.text())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _not_tenfour(reply, url) from error


def refusal(answer: Answer, *, url: str) -> TenfourError:
    """The error that an answer outside 2xx stands for."""
    problem = answer.problem()
    if "code" not in problem:
        return _not_tenfour(answer, url)
    return TenfourError(
        str(problem.get("detail") or problem.get("title") or ""),
        status=answer.status,
        code=str(problem["code"]),
        title=str(problem.get("title") or ""),
        hint=str(problem.get("hint") or ""),
        retryable=bool(problem.get("retryable")),
        request_id=str(problem.get("request_id") or answer.headers.get("x-request-id", "")),
        errors=tuple(e for e in problem.get("errors") or () if isinstance(e, dict)),
        retry_after_s=retry_after(answer),
        problem=problem,
    )


def _not_tenfour(answer: Answer, url: str) -> TenfourError:
    where = answer.headers.get("location", "")
    return TenfourError(
        f"{url} answered {answer.status}, but not as Tenfour does"
        + (f": it points to {where}." if where else "."),
        status=answer.status,
        code="not_tenfour",
        title="Not an answer of Tenfour",
        hint="Look at TENFOUR_URL: it is the address of the server alone, without a path.",
        retryable=answer.status in (408, 429) or answer.status >= 500,
        request_id=answer.headers.get("x-request-id", ""),
        retry_after_s=retry_after(answer),
    )
