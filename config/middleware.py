"""What every request passes: its id, and what a page may load."""

import re
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from config.problems import PROBLEM, problem

SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

type_of_next = Callable[[HttpRequest], HttpResponseBase]


class RequestId:
    """Takes a sane X-Request-Id or makes one; it is in every answer, problem and log line."""

    def __init__(self, get_response: type_of_next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Not request.headers: that would copy every header, at every request.
        asked = request.META.get("HTTP_X_REQUEST_ID", "")
        request.id = asked if SANE_ID.fullmatch(asked) else uuid.uuid4().hex  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(request_id=request.id)  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-Id"] = request.id  # type: ignore[attr-defined]
        return response


class ContentSecurityPolicy:
    """No inline script, no inline style, nothing from elsewhere."""

    def __init__(self, get_response: type_of_next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.setdefault("Content-Security-Policy", POLICY)
        return response


class ApiProblems:
    """Under /v1 the framework's own 404, 405 and 400 are problems too."""

    CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}

    def __init__(self, get_response: type_of_next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        code = self.CODES.get(response.status_code)
        if not code or not request.path.startswith("/v1/") or response["Content-Type"] == PROBLEM:
            return response
        allowed = response.get("Allow")
        detail = f"{request.method} {request.path} is not something Tenfour offers."
        answer = problem(request, code, detail, hint="GET /v1/docs lists every call.")
        if allowed:
            answer["Allow"] = allowed
        return answer
