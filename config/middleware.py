"""Middleware: request ids, the content security policy, and problems for the API's own errors."""

import ipaddress
import logging
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponsePermanentRedirect,
)
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.shortcuts import render
from redis.exceptions import RedisError

from config.content_types import UTF_8
from config.problems import PROBLEM, problem_kinds, problem_response, refusal_response
from ledger.errors import Refusal
from ledger.trace_context import parse_traceparent, received

logger = logging.getLogger(__name__)

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# The responses name no host, and those who ask may know only the address of a container.
FOR_ANY_HOST = {"/healthz", "/readyz", "/metrics"}


class RequestId:
    """Accept a well-formed X-Request-Id or create one, for responses, problems, and log lines.

    The caller's trace is noted as well, for the attempts that the request opens.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Not request.headers, which would copy all headers of every request.
        header = request.META.get("HTTP_X_REQUEST_ID", "")
        request.id = header if REQUEST_ID.fullmatch(header) else uuid.uuid4().hex  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(request_id=request.id)  # type: ignore[attr-defined]
        received.set(parse_traceparent(request.META.get("HTTP_TRACEPARENT")))
        response = self.get_response(request)
        response["X-Request-Id"] = request.id  # type: ignore[attr-defined]
        return response


class ClientAddress:
    """Take the client's address from as many proxies as TENFOUR_TRUSTED_PROXIES says."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if proxies := settings.TENFOUR["TRUSTED_PROXIES"]:
            # Each proxy appends the address that it saw, so the client can forge all but the last.
            seen = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
            address = seen[-proxies].strip() if len(seen) >= proxies else ""
            with suppress(ValueError):  # else keep the address of the connection
                request.META["REMOTE_ADDR"] = str(ipaddress.ip_address(address))
        return self.get_response(request)


class HostNames(CommonMiddleware):
    """Refuse a host name that is not in TENFOUR_HOSTS, but not from probes and Prometheus."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        if request.path in FOR_ANY_HOST:
            return None
        return super().process_request(request)


class ContentSecurityPolicy:
    """Allow no inline scripts or styles, nothing from other hosts, and no frames."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code != HTTPStatus.NO_CONTENT:  # an idle tab gets nothing else
            response.setdefault("Content-Security-Policy", POLICY)
        response.setdefault("X-Frame-Options", "DENY")
        return response


class Utf8Only:
    """Read addresses and forms as UTF-8, whatever the request says.

    A form in another encoding is refused, because it would be stored with wrong characters.
    """

    FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.encoding:
            if request.encoding.lower() not in UTF_8 and request.content_type in self.FORMS:
                raise BadRequest("Send forms in UTF-8.")
            request.encoding = "utf-8"
        return self.get_response(request)


class ApiProblems:
    """Turn the framework's own 404, 405, and 400 under /v1 into problems.

    It answers requests whose body the web server could not wait for. It also gives views
    `request.refusal_response`, because `ledger` can't import this package.
    """

    BUSY = "Too many requests wait for their bodies to arrive. This one has not taken effect."
    LATER = "Retry the request, and send its body without a pause."
    ALL = "GET /v1/docs lists all operations."
    AS_JSON = "Send the body as JSON in UTF-8."
    CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "tenfour.busy" in request.META:  # set by config.web_threads
            busy = problem_response(
                request, "temporarily_unavailable", self.BUSY, hint=self.LATER, retry_after_s=1
            )
            busy._has_been_logged = True  # type: ignore[attr-defined]
            return busy
        request.refusal_response = partial(refusal_response, request)  # type: ignore[attr-defined]
        response = self.get_response(request)
        code = self.CODES.get(response.status_code)
        if not code or not request.path.startswith("/v1/") or response["Content-Type"] == PROBLEM:
            return response
        allowed = response.get("Allow")
        detail, hint = f"The API has no operation {request.method} {request.path}.", self.ALL
        if code == "bad_request":
            detail, hint = "The request is malformed or not in UTF-8.", self.AS_JSON
        problem = problem_response(request, code, detail, hint=hint)
        if allowed:
            problem["Allow"] = allowed
        return problem


class PageProblems:
    """Say on a page what to do about a method that a page doesn't take, and about a refusal.

    Views word most refusals themselves. The rest is what two people do at once, such as deleting
    what the other changes.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        is_empty = isinstance(response, HttpResponseNotAllowed) and not response.content
        if is_empty and is_page(request):
            page = render(request, "405.html", status=response.status_code)
            page["Allow"] = response["Allow"]
            return page
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, Refusal) or not is_page(request):
            return None
        status = problem_kinds()[exception.code].status
        if request.headers.get("HX-Request") == "true":
            text = f"{exception.detail} Nothing was changed."
            return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
        context = {"title": exception.title(), "detail": exception.detail}
        return render(request, "refused.html", context, status=status)


def is_page(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is not None and match.namespace == "dashboard"


class RedisAway:
    """Answer an action of a page that needs Redis, such as signing someone out, without it."""

    RETRY_AFTER_S = 30

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, RedisError):
            return None
        logger.warning("an action failed without Redis: %s", exception)
        response = render(request, "503.html", status=HTTPStatus.SERVICE_UNAVAILABLE)
        response["Retry-After"] = str(self.RETRY_AFTER_S)
        return response
