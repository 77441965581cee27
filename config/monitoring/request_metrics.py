"""Count HTTP requests by operation, and what their responses say."""

import time
from collections.abc import Callable
from functools import cache

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import Counter, Histogram

from ledger.database import process_counters as counters

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class RequestMetrics:
    """Middleware that counts each request in this process's counters."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        response = self.get_response(request)
        op, status = operation_of(request), response.status_code
        count, duration = counters_of(op, status // 100)
        count.inc()
        duration.observe(time.perf_counter() - began)
        if response.has_header("Idempotency-Replayed"):
            counters.IDEMPOTENT_REPLAYS.labels(op).inc()
        return response


@cache
def counters_of(op: str, status_class: int) -> tuple[Counter, Histogram]:
    # Finding the counters costs more than counting.
    labels = (op, f"{status_class}xx")
    return counters.HTTP_REQUESTS.labels(*labels), counters.HTTP_SECONDS.labels(*labels)


def operation_of(request: HttpRequest) -> str:
    """Return the operation id of an API call, or the name of a page; "other" for all else."""
    # It comes from the address that matched and never from the request's own text.
    match = request.resolver_match
    if match is None:
        return "other"
    named = operations().get((match.route, request.method or ""))
    return named or match.url_name or "other"


@cache
def operations() -> dict[tuple[str, str], str]:
    from config.api import ROUTERS  # it is loaded after the middleware

    return {
        ("v1" + path.replace("{", "<").replace("}", ">"), method): operation.view_func.__name__
        for router in ROUTERS
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }
