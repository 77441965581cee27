"""Problems: the HTTP status of every error code, and the one response format (RFC 9457)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.sign_in.throttle import network_of
from ledger.access import auth_failures
from ledger.database import optional_cache
from ledger.database.process_counters import AUTH_FAILURES, RATE_LIMITED
from ledger.errors import Refusal

PROBLEM = "application/problem+json"

# Each code belongs to a refusal, which has the title, the hint, and whether a retry can help.
STATUS = {
    "bad_request": 400,
    "bad_cursor": 400,
    "token_missing": 401,
    "token_invalid": 401,
    "token_expired": 401,
    "token_revoked": 401,
    "scope_missing": 403,
    "human_required": 403,
    "not_found": 404,
    "invalid_transition": 409,
    "nothing_to_change": 409,
    "name_taken": 409,
    "pool_has_tasks": 409,
    "pool_removed": 409,
    "pool_task": 409,
    "breaker_open": 409,
    "concurrency_limit": 409,
    "agent_waits": 409,
    "task_locked": 409,
    "lease_lost": 409,
    "session_locked": 409,
    "attempt_already_reported": 409,
    "already_resolved": 409,
    "plan_ambiguous": 409,
    "plan_changed": 409,
    "idempotency_in_progress": 409,
    "escalation_expired": 410,
    "version_mismatch": 412,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "validation_error": 422,
    "bad_ref": 422,
    "duplicate_ref": 422,
    "dependency_cycle": 422,
    "unknown_dependency": 422,
    "malformed_task": 422,
    "verification_missing": 422,
    "reason_required": 422,
    "unknown_agent": 422,
    "not_a_pool": 422,
    "tool_call_refused": 422,
    "idempotency_key_reused": 422,
    "if_match_required": 428,
    "rate_limited": 429,
    "too_many_auth_failures": 429,
    "flush_exhausted": 503,
    "traces_busy": 503,
    "project_moving": 503,
}


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """An error code's status, title, hint, and whether the same request may succeed later."""

    status: int
    title: str
    retryable: bool
    hint: str = ""


# Problems that no refusal raises.
FRAMEWORK_PROBLEMS = {
    "method_not_allowed": ProblemKind(
        405, "Method not allowed", False, "Use one of the methods in the Allow header."
    ),
    "request_timeout": ProblemKind(
        408, "Request timeout", True, "Retry the request, and send its body without a pause."
    ),
    "length_required": ProblemKind(
        411,
        "Length required",
        False,
        "Send Content-Length instead of Transfer-Encoding. With curl, use --data-binary @FILE.",
    ),
    "internal_error": ProblemKind(
        500, "Internal server error", True, "Report the request_id to the operator."
    ),
    "temporarily_unavailable": ProblemKind(
        503,
        "Temporarily unavailable",
        True,
        "Retry the request. With the same Idempotency-Key it takes effect only once.",
    ),
}


@cache
def problem_kinds() -> dict[str, ProblemKind]:
    """Return every kind of problem by its code; call it after the API is imported."""
    refusals = {refusal.code: refusal for refusal in subclasses_of(Refusal)}
    return FRAMEWORK_PROBLEMS | {
        code: ProblemKind(
            status, refusals[code].title(), refusals[code].retryable, refusals[code].hint
        )
        for code, status in STATUS.items()
    }


def subclasses_of(kind: type[Refusal]) -> Iterator[type[Refusal]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses_of(child)


def problem_response(
    request: HttpRequest, code: str, detail: str, *, hint: str = "", **more: Any
) -> HttpResponse:
    """Return a problem; `more` are extension members, and `retry_after_s` is also a header."""
    kind = problem_kinds()[code]
    body = {
        "type": f"{settings.LINK_URL}/problems/{code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": request.path,
        "code": code,
        "retryable": kind.retryable,
        "hint": hint or kind.hint,
        "request_id": getattr(request, "id", ""),
        **more,
    }
    response = JsonResponse(body, status=kind.status, content_type=PROBLEM)
    if "retry_after_s" in more:
        response["Retry-After"] = str(more["retry_after_s"])
    if kind.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def refusal_response(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    return problem_response(
        request, refusal.code, refusal.detail, hint=refusal.hint, **refusal.more
    )


def count_auth_failure(request: HttpRequest, refusal: Refusal) -> int:
    """Count and note a failed authentication; return the seconds to wait if there were too many."""
    AUTH_FAILURES.labels(refusal.code).inc()
    network = network_of(request.META.get("REMOTE_ADDR", ""))
    count = optional_cache.increment(f"auth-failures:{network}", seconds=60)
    if count > auth_failures.PER_MINUTE:
        RATE_LIMITED.labels("failed_token").inc()
        return 60
    auth_failures.note_failure(request.META, refusal)
    return 0
