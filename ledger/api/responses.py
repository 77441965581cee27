"""How endpoints answer: JSON straight from rows, and the same answer under the same key."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from ledger import idempotency
from ledger.api.auth import PrincipalRequest
from ledger.api.cursors import Page
from ledger.idempotency import StoredResponse
from ledger.timestamps import written

JSON = "application/json"


def plain(value: Any) -> str:
    """An id, or a moment of UTC, as JSON writes it."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return written(value)
    raise TypeError(f"JSON has no form for {value!r}")


encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=plain).encode


def answer(value: Any, status: int = 200) -> HttpResponse:
    """A JSON answer. The declared schemas are held by tests, not built anew at every call."""
    return HttpResponse(encode(value), status=status, content_type=JSON)


def base_of(request: HttpRequest) -> str:
    """The address that this Tenfour is reached at, without a slash at its end."""
    return settings.TENFOUR_URL or f"{request.scheme}://{request.get_host()}"


def linked(request: HttpRequest, shown: dict[str, Any]) -> dict[str, Any]:
    """What has a page, with the whole address of it."""
    return shown | {"url": base_of(request) + shown["url"]}


def listed(page: Page, data: Iterable[Any]) -> dict[str, Any]:
    """A page of a list."""
    return {"data": list(data), "next_cursor": page.next_cursor, "has_more": page.has_more}


def idempotent(request: PrincipalRequest, work: Callable[[], tuple[int, Any]]) -> HttpResponse:
    """Answer with what `work` returns, (status, value); once, where the caller sends a key."""
    key = request.headers.get("Idempotency-Key")
    if not key:
        status, value = work()
        return answer(value, status)

    def done() -> StoredResponse:
        status, value = work()
        return StoredResponse(status, encode(value))

    given = idempotency.run_once(
        key,
        token_id=request.auth.token_id,
        fingerprint=idempotency.fingerprint_request(
            request.method or "", request.get_full_path(), canonical(request)
        ),
        now=timezone.now(),
        work=done,
    )
    response = HttpResponse(given.body, status=given.status, content_type=JSON)
    if given.replayed:
        response["Idempotency-Replayed"] = "true"
    return response


def canonical(request: PrincipalRequest) -> bytes:
    """The body without the accidents of spacing and order; as it is where it is no JSON."""
    try:
        return json.dumps(json.loads(request.body or b"null"), sort_keys=True).encode()
    except (ValueError, RecursionError):
        return request.body
