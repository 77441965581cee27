"""Read numbers and times that forms and addresses hold as text; anything can be sent."""

from datetime import UTC, datetime, time

from ledger.values.text import truncate

MAX_DIGITS = 9  # numbers up to this length fit every integer column
LARGEST = 999_999  # the largest number that a form accepts
TYPED_SHOWN = 2_000
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def read_whole_number(text: str, *, digits: int = MAX_DIGITS) -> int | None:
    """Return the number in a text of so many digits at most, or None for any other text.

    >>> [read_whole_number(text) for text in ("7", "0012", "", "-1", "²", "٣", "1234567890")]
    [7, 12, None, None, None, None, None]
    """
    is_number = text.isascii() and text.isdecimal() and len(text) <= digits
    return int(text) if is_number else None


def read_form_number(text: str) -> int | None:
    """Return the number in a form's field, or None for other text or above LARGEST."""
    number = read_whole_number(text)
    return None if number is None or number > LARGEST else number


def quote_typed(text: str) -> str:
    """Return the end of a refusal: what was typed into a form that is not shown again.

    >>> quote_typed(" Ask Tom "), quote_typed(" ")
    (' You typed: “Ask Tom”', '')
    """
    text = text.replace("\0", "").strip()
    return f" You typed: “{truncate(text, TYPED_SHOWN)}”" if text else ""


def read_clock_time(text: str) -> time | None:
    """Return the time of day in a text, or None if it is empty; raise ValueError for a bad one."""
    text = text.strip()
    try:
        at = time.fromisoformat(text) if text else None
    except ValueError:
        at = time(tzinfo=UTC)
    # A time with a zone could not be compared with others.
    if at and at.tzinfo:
        raise ValueError(f"“{text[:20]}” is not a time such as 22:00.")
    return at


def read_past_time(text: str, *, now: datetime) -> datetime | None:
    """Return the time with a zone in a text, if it is neither before 1970 nor after `now`."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    # PostgreSQL stores times that Python can't read again.
    return at if at.tzinfo and EARLIEST <= at <= now else None
