"""Decide whether a call is retried, and after how long (pure)."""

from __future__ import annotations

from tenfour.http.exchange import Answer, NoAnswer

RETRIES = 2
LONGEST_RETRY_AFTER_S = 60.0
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0


def wait_before_next(
    reply: Answer | NoAnswer, *, sent: int, retries: int = RETRIES, rand: float
) -> float | None:
    """Return the seconds to wait before try `sent + 1`, or None to accept this reply.

    `rand` in [0, 1) is the jitter: passed in, so that the same inputs give the same delay.
    """
    if sent > retries or not worth_resending(reply):
        return None
    backoff = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (sent - 1)) * (0.5 + rand / 2)
    asked = retry_after(reply) if isinstance(reply, Answer) else None
    if asked is None:
        return backoff
    # If the server asks for more than a minute, the caller decides.
    return None if asked > LONGEST_RETRY_AFTER_S else max(asked, backoff)


def worth_resending(reply: Answer | NoAnswer) -> bool:
    """Return whether the call certainly had no effect, or the server asks to send it again."""
    if isinstance(reply, NoAnswer):
        return not reply.connected
    if reply.status == 409:
        return reply.problem().get("code") == "idempotency_in_progress"
    if reply.status not in (408, 429) and reply.status < 500:
        return False
    # Waiting does not help where the server says so, such as after too many wrong tokens.
    return reply.problem().get("retryable") is not False


def retry_after(answer: Answer) -> float | None:
    """Return the seconds of the Retry-After header, in either of its forms."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    if not value:
        return None
    # Imported for a date only: it takes long to import.
    from email.utils import parsedate_to_datetime

    try:
        # Relative to the server's own Date, so that a wrong local clock does no harm.
        until, since = (parsedate_to_datetime(v) for v in (value, answer.headers.get("date", "")))
        return max(0.0, (until - since).total_seconds())
    except (TypeError, ValueError):
        return None
