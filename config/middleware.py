"""Middleware: request ids, the content security policy, and problems for the API's own errors."""

import ipaddress
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import structlog
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.problems import PROBLEM, problem_response, refusal_response
from ledger.trace_context import parse_traceparent, received

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

GetResponse = Callable[[HttpRequest], HttpResponseBase]


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


class ApiProblems:
    """Turn the framework's own 404, 405, and 400 under /v1 into problems.

    It answers requests whose body the web server could not wait for. It also gives views
    `request.refusal_response`, because `ledger` can't import this package.
    """

    BUSY = "Too many requests wait for their bodies to arrive. This one has not taken effect."
    LATER = "Retry the request, and send its body without a pause."
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
        detail = f"The API has no operation {request.method} {request.path}."
        hint = "GET /v1/docs lists all operations."
        problem = problem_response(request, code, detail, hint=hint)
        if allowed:
            problem["Allow"] = allowed
        return problem
