"""Problems: every error code with its HTTP status, and the one answer they all take (RFC 9457)."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from ledger.api.responses import base_of
from ledger.errors import Refusal

PROBLEM = "application/problem+json"

# code -> HTTP status, title, whether the same request may succeed later
CODES: dict[str, tuple[int, str, bool]] = {
    "bad_request": (400, "Malformed request", False),
    "bad_cursor": (400, "This cursor does not belong to this list", False),
    "token_missing": (401, "Authentication required", False),
    "token_invalid": (401, "Invalid token", False),
    "token_expired": (401, "Expired token", False),
    "token_revoked": (401, "Revoked token", False),
    "scope_missing": (403, "Insufficient scope", False),
    "human_required": (403, "Only a person may answer this", False),
    "not_found": (404, "Not found", False),
    "method_not_allowed": (405, "This address does not take that method", False),
    "invalid_transition": (409, "Invalid state transition", False),
    "breaker_open": (409, "The agent's circuit breaker is open", True),
    "concurrency_limit": (409, "The agent runs as many attempts as it may", True),
    "lease_lost": (409, "This attempt is no longer live", False),
    "attempt_already_reported": (
        409,
        "This attempt was reported before, with something else",
        False,
    ),
    "already_resolved": (409, "Somebody has answered this already", False),
    "plan_changed": (409, "The plan exists with different content", False),
    "escalation_expired": (410, "Nobody answered in time", False),
    "idempotency_in_progress": (409, "Request in progress", True),
    "version_mismatch": (412, "Version mismatch", False),
    "if_match_required": (428, "If-Match header required", False),
    "payload_too_large": (413, "Payload too large", False),
    "unsupported_media_type": (415, "Unsupported media type", False),
    "validation_error": (422, "Validation error", False),
    "bad_ref": (422, "Malformed ref", False),
    "duplicate_ref": (422, "Duplicate ref", False),
    "dependency_cycle": (422, "Dependency cycle", False),
    "unknown_dependency": (422, "Unknown dependency", False),
    "verification_missing": (422, "This task must be verified", False),
    "unknown_agent": (422, "Unknown agent", False),
    "idempotency_key_reused": (422, "Idempotency key reused", False),
    "rate_limited": (429, "Too many failed attempts", True),
    "internal_error": (500, "Tenfour made a mistake", True),
    "temporarily_unavailable": (503, "Tenfour can't reach its database", True),
}


def problem(
    request: HttpRequest, code: str, detail: str, *, hint: str = "", **more: Any
) -> HttpResponse:
    """A problem+json answer; `more` are extension members, `retry_after_s` becomes a header too."""
    status, title, retryable = CODES[code]
    body = {
        "type": f"{base_of(request)}/problems/{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request.path,
        "code": code,
        "retryable": retryable,
        "hint": hint,
        "request_id": getattr(request, "id", ""),
        **more,
    }
    response = JsonResponse(body, status=status, content_type=PROBLEM)
    if "retry_after_s" in more:
        response["Retry-After"] = str(more["retry_after_s"])
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def refused(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    return problem(request, refusal.code, refusal.detail, hint=refusal.hint, **refusal.more)
