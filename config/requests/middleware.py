"""Middleware: request ids, the content security policy, and problems for the API's own errors."""

import logging
import re
import uuid
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

import structlog
from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponsePermanentRedirect,
)
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.shortcuts import render
from django.views.defaults import bad_request

from config.api_document.problems import PROBLEM, problem_kinds, problem_response, refusal_response
from config.requests.client_addresses import find_client_address
from config.requests.content_types import UTF_8
from config.requests.web_threads import REFUSED, takes_tokens
from ledger.errors import Refusal
from ledger.secrets.redaction import holds_secret
from ledger.tracing.trace_context import parse_traceparent, received

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

    One with a secret is replaced, too. The caller's trace is noted as well, for the attempts that
    the request opens.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Not request.headers, which would copy all headers of every request.
        header = request.META.get("HTTP_X_REQUEST_ID", "")
        is_taken = REQUEST_ID.fullmatch(header) and not holds_secret(header)
        request.id = header if is_taken else uuid.uuid4().hex  # type: ignore[attr-defined]
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
            request.META["REMOTE_ADDR"] = find_client_address(request.META, proxies=proxies)
        return self.get_response(request)


class HostNames(CommonMiddleware):
    """Refuse a host name that is not in TENFOUR_HOSTS, but not from probes and Prometheus."""

    def process_request(  # type: ignore[override]
        self, request: HttpRequest
    ) -> HttpResponseBase | None:
        if request.path in FOR_ANY_HOST:
            return None
        try:
            redirect: HttpResponsePermanentRedirect | None = super().process_request(request)
        except DisallowedHost as error:
            # Django would log a traceback, and strangers could fill the log with them.
            logger.warning("refused: %s", error)
            response = bad_request(request, error)
            response._has_been_logged = True  # type: ignore[attr-defined]
            return response
        return redirect


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


class UnreadBodies:
    """Refuse requests whose bodies the web server has not read: see `web_threads`."""

    DETAILS = {
        "bad_request": "The request's body ended before its declared length.",
        "request_timeout": "The request's body did not arrive in time.",
        "length_required": "The request has no Content-Length, or also a Transfer-Encoding.",
        "temporarily_unavailable": "Too many requests wait for their bodies to arrive.",
    }
    HINT = "Retry the request, and send its whole body without a pause."

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        code = request.META.get(REFUSED)
        if not code:
            return self.get_response(request)
        kind, detail = problem_kinds()[code], self.DETAILS[code]
        more = {"retry_after_s": 1} if kind.retryable else {}
        if takes_tokens(request.path_info):
            hint = "" if code == "length_required" else self.HINT
            detail = f"{detail} It has not taken effect."
            response = problem_response(request, code, detail, hint=hint, **more)
        else:
            response = render_refusal(request, kind.title, detail, status=kind.status)
            for seconds in more.values():
                response["Retry-After"] = str(seconds)
        response._has_been_logged = True  # type: ignore[attr-defined]
        return response


class ApiProblems:
    """Turn the framework's own 404, 405, and 400 under /v1 into problems.

    It also gives views `request.refusal_response`, because `ledger` can't import this package.
    """

    ALL = "GET /v1/docs lists all operations."
    AS_JSON = "Send the body as JSON in UTF-8."
    CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
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
        return render_refusal(request, exception.title(), exception.detail, status=status)


def render_refusal(request: HttpRequest, title: str, detail: str, *, status: int) -> HttpResponse:
    if request.headers.get("HX-Request") == "true":
        text = f"{detail} Nothing was changed."
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    return render(request, "refused.html", {"title": title, "detail": detail}, status=status)


def is_page(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is not None and match.namespace == "dashboard"
