"""What Tenfour says no to (pure): the parent of every anticipated error.

A refusal is defined beside the function that raises it. Its docstring is the title that people
read, `code` the name that programs match; `config/api.py` adds the HTTP status.
"""

from typing import Any


class Refusal(Exception):
    """Tenfour refused this"""

    code = "refused"
    retryable = False
    hint = ""

    def __init__(self, detail: str, *, hint: str = "", **more: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint or self.hint
        self.more = more

    @classmethod
    def title(cls) -> str:
        return (cls.__doc__ or cls.code).strip().splitlines()[0].rstrip(".")


class Invalid(Refusal):
    """A value does not fit"""

    code = "validation_error"
    hint = "Mend the values that 'errors' points to and send the request again."

    def __init__(self, pointer: str, detail: str, **more: Any) -> None:
        super().__init__(detail, errors=[{"pointer": pointer, "detail": detail}], **more)


class BadRequest(Refusal):
    """The request can't be read"""

    code = "bad_request"
    hint = "Mend what 'detail' names and send the request again."


class UnsupportedMediaType(Refusal):
    """The body is of another kind"""

    code = "unsupported_media_type"
    hint = "Send the header 'Content-Type: application/json'."


class NotFound(Refusal):
    """There is no such thing"""

    code = "not_found"
    hint = "Check the id; a token sees only what belongs to its project, an agent's only its own."


class InvalidTransition(Refusal):
    """It cannot move there from where it is"""

    code = "invalid_transition"
    hint = "Read its current state; nothing was changed."


class PayloadTooLarge(Refusal):
    """The body is too large"""

    code = "payload_too_large"
    hint = "Send less at once; large things belong into a store of yours, with a reference here."


class VersionMismatch(Refusal):
    """It has changed since you read it"""

    code = "version_mismatch"
    hint = "Read it again, then say what you want of it as it is now."


class IfMatchRequired(Refusal):
    """Say which version you have read"""

    code = "if_match_required"
    hint = "Send the header If-Match with the ETag of what you have read."
