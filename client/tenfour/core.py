"""From a call to its result: every step decided here, none of them taken (no I/O, no sleep)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from tenfour.exchange import Answer, NoAnswer, Request, Wait
from tenfour.problems import TenfourError, server_away
from tenfour.resend import retry_after, wait_before_next
from tenfour.settings import Settings
from tenfour.version import __version__

T = TypeVar("T")

JSON = "application/json"

Steps = Generator[Request | Wait, Answer | NoAnswer | None, T]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of the API and how its answer is read: from JSON, or as the text that it is."""

    method: str
    path: str
    read: Callable[[Any], T]
    # JSON, or text that goes out as it is
    body: Mapping[str, Any] | str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    # Set on calls that create something: the same key goes with every try.
    idempotency_key: str | None = None
    # of a body that is text
    media: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON


def new_key() -> str:
    return str(uuid.uuid4())


def steps(
    call: Call[T], *, settings: Settings, retries: int, rand: Callable[[], float]
) -> Steps[T]:
    """Yields what to send or wait for, is sent the replies, returns the result.

    Raises TenfourError when the last reply is a refusal, ServerAway when there is none.
    """
    request = request_for(call, settings)
    sent = 0
    while True:
        reply = yield request
        sent += 1
        if reply is None:
            raise TypeError("a request needs a reply")
        wait = wait_before_next(reply, sent=sent, retries=retries, rand=rand())
        if wait is None:
            return result_of(call, reply, url=settings.url)
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
        **call.headers,
    }
    if call.body is not None:
        plain = isinstance(call.body, str)
        headers["Content-Type"] = f"{call.media}; charset=utf-8" if plain else JSON
    if call.idempotency_key is not None:
        headers["Idempotency-Key"] = call.idempotency_key
    return headers


def result_of(call: Call[T], reply: Answer | NoAnswer, *, url: str) -> T:
    """What the call was for; raises TenfourError or ServerAway."""
    if isinstance(reply, NoAnswer):
        raise server_away(url, reason=reply.reason, connected=reply.connected)
    if not 200 <= reply.status < 300:
        raise refusal(reply, url=url)
    try:
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
        retryable=answer.status == 429 or answer.status >= 500,
        request_id=answer.headers.get("x-request-id", ""),
        retry_after_s=retry_after(answer),
    )
