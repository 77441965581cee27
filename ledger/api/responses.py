"""Responses: JSON straight from rows, and the same response for the same idempotency key."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse

from ledger import idempotency, tokens
from ledger.api.auth import BearerRequest, PrincipalRequest
from ledger.api.cursors import Page
from ledger.authorization.principal import Principal
from ledger.database import server_time
from ledger.idempotency import StoredResponse
from ledger.tokens import Bearer
from ledger.values.timestamps import format_timestamp

JSON = "application/json"


def encode_value(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return format_timestamp(value)
    raise TypeError(f"JSON has no form for {value!r}")


encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=encode_value).encode


def json_response(value: Any, status: int = 200, *, version: int | None = None) -> HttpResponse:
    """Return a JSON response, with the version as its ETag if there is one."""
    # Tests compare responses with the declared schemas, so calls skip that validation.
    # As bytes: for a string, Django searches the content type for its character set.
    response = HttpResponse(encode(value).encode(), status=status, content_type=JSON)
    if version is not None:
        response["ETag"] = f'"v{version}"'
    return response


def complete_url(body: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the path in `url` replaced by the whole address."""
    return body | {"url": settings.LINK_URL + body["url"]}


def page_body(page: Page, data: Iterable[Any]) -> dict[str, Any]:
    return {"data": list(data), "next_cursor": page.next_cursor, "has_more": page.has_more}


def respond_once(
    request: PrincipalRequest | BearerRequest, work: Callable[[], tuple[int, Any]]
) -> HttpResponse:
    """Return the status and body that `work` returns; a repeated Idempotency-Key replays them."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        status, value = work()
        return json_response(value, status)

    def answer() -> StoredResponse:
        status, value = work()
        return StoredResponse(status, encode(value))

    stored = idempotency.run_once(
        key,
        token_id=token_id_of(request.auth),
        fingerprint=idempotency.fingerprint_request(
            request.method or "", request.get_full_path(), canonical_body(request)
        ),
        now=server_time.now(),
        work=answer,
    )
    response = HttpResponse(stored.body, status=stored.status, content_type=JSON)
    if stored.replayed:
        response["Idempotency-Replayed"] = "true"
    return response


def token_id_of(caller: Principal | Bearer) -> UUID:
    # The id is looked up only for callers that send a key.
    if isinstance(caller, Bearer):
        caller = tokens.fetch_principal(caller, now=server_time.now())
    return caller.token_id


def canonical_body(request: PrincipalRequest | BearerRequest) -> bytes:
    """Return a JSON body independent of its spacing and key order; any other body unchanged."""
    try:
        return json.dumps(json.loads(request.body or b"null"), sort_keys=True).encode()
    except (ValueError, RecursionError):
        return request.body
