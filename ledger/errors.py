"""Define the base class of expected errors, and the errors that several modules raise (pure).

Other errors are defined beside the functions that raise them. An error's docstring is the title
that people read and `code` is the name that programs match; `config/api_document/problems.py` adds
the status.
"""

from typing import Any
from uuid import UUID


class Refusal(Exception):
    """Request refused"""

    code = "refused"
    retryable = False
    hint = ""
    # the project of a token that was refused, where it is known
    project_id: UUID | None = None

    def __init__(
        self, detail: str, *, hint: str = "", current: str | int | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint or self.hint
        self.more = more if current is None else {"current": current, **more}

    @classmethod
    def title(cls) -> str:
        return (cls.__doc__ or cls.code).strip().splitlines()[0].rstrip(".")


class Invalid(Refusal):
    """Validation error"""

    code = "validation_error"
    hint = "Fix the values listed in 'errors' and send the request again."

    def __init__(self, pointer: str, detail: str, **more: Any) -> None:
        super().__init__(detail, errors=[{"pointer": pointer, "detail": detail}], **more)


class BadRequest(Refusal):
    """Malformed request"""

    code = "bad_request"
    hint = "Fix the problem described in 'detail' and send the request again."


class UnsupportedMediaType(Refusal):
    """Unsupported media type"""

    code = "unsupported_media_type"
    hint = "Send the header 'Content-Type: application/json'."


class NotFound(Refusal):
    """Not found"""

    code = "not_found"
    hint = (
        "Check the id. A token sees only its own project; an agent's token sees only its own agent."
    )


class InvalidTransition(Refusal):
    """Invalid state transition"""

    code = "invalid_transition"
    hint = "Nothing was changed. Read the current state and decide again."


class RateLimited(Refusal):
    """Too many requests"""

    code = "rate_limited"
    retryable = True
    hint = "Wait as long as the Retry-After header says and send the request again."


class TooManyAuthFailures(Refusal):
    """Too many failed authentications"""

    code = "too_many_auth_failures"
    # No wait makes a wrong token valid, so clients must not repeat the request.
    hint = "Fix the token and retry. Requests with a valid token are not limited."


class PayloadTooLarge(Refusal):
    """Payload too large"""

    code = "payload_too_large"
    hint = "Send less at a time. Keep large data in your own storage and send a reference."


class VersionMismatch(Refusal):
    """Version mismatch"""

    code = "version_mismatch"
    hint = "Read the current version and apply your change to it."


class IfMatchRequired(Refusal):
    """If-Match header required"""

    code = "if_match_required"
    hint = "Send an If-Match header with the ETag of the version that you read."
