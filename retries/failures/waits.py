"""Find how long a rate limit says to wait (pure)."""

import re
from datetime import UTC, datetime, timedelta

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
UNIT = (
    r"(?P<unit>milliseconds?|millis|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\b"
)
NUMBER = r"(?P<number>\d{1,9}(?:\.\d{1,9})?)"
# "try again in 20s", "Please retry after 30 seconds", "wait 2 minutes": a number without a unit is
# in seconds; "in 1m26.4s" has two units
SPOKEN = re.compile(
    r"(?:try(?:ing)? again|retry(?:ing)?|wait(?:ing)?|available again|resets?|back ?off)"
    r"(?: (?:after|in|for|at least|about))* ?(?:approximately |~ ?)?"
    rf"(?:(?P<minutes>\d{{1,4}}) ?m(?:in(?:ute)?s?)?,? ?(?=\d))?{NUMBER}"
    rf"(?: ?{UNIT}|(?=\s*(?:[.,;)\]}}\"']|$)))",
    re.IGNORECASE | re.MULTILINE,
)
# Retry-After: 20, "retry_after_s": 20, retryDelay: "20s", x-ratelimit-reset-after: 3.5
FIELD = re.compile(
    r"\b(?:retry[-_ ]?after|retry[-_]?delay|ratelimit-reset-after)"
    rf"(?P<suffix>[-_]?(?:ms|milliseconds|seconds|secs|s))?[\"']?\s*[:=]\s*[\"']?{NUMBER}"
    rf"(?:{UNIT})?(?![\w:-])",
    re.IGNORECASE,
)
# Retry-After: Wed, 21 Oct 2026 07:28:00 GMT, "resets at 2026-10-21T07:28:00Z",
# "resets at 15:30 UTC" and "reset: 1792567680"; a time without a zone says nothing
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
STAMP = re.compile(
    r"(?:resets?|retry[-_ ]?after|try again|available)(?: (?:again|at|on|after))*[\"']?\s*+:?\s*+"
    r"[\"']?(?:(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?"
    r"(?:Z| ?UTC|[+-]\d\d:\d\d))"
    r"|[a-z]{3}, (?P<day>\d\d) (?P<month>[a-z]{3}) (?P<year>\d{4}) (?P<time>\d\d:\d\d:\d\d) GMT"
    r"|(?P<epoch>1[6-9]\d{8}|2\d{9})\b"
    r"|(?P<clock>\d{1,2}:\d\d)(?::\d\d)? ?(?:\(?UTC\)?|GMT|Z\b))",
    re.IGNORECASE,
)


def find_wait_s(text: str, *, now: datetime) -> float | None:
    """Return the longest wait in seconds that a text names, or None.

    >>> find_wait_s("Please try again in 1m26.4s.", now=datetime(2026, 11, 22, tzinfo=UTC))
    86.4
    """
    found = [read_amount(match) for form in (SPOKEN, FIELD) for match in form.finditer(text)]
    stamps = (read_stamp(match, now=now) for match in STAMP.finditer(text))
    found += [max(0.0, (at - now).total_seconds()) for at in stamps if at]
    return max(found, default=None)


def read_amount(match: re.Match[str]) -> float:
    """Return the seconds of an amount; its unit stands behind it or in the field's name."""
    groups = match.groupdict()
    unit = groups.get("unit") or (groups.get("suffix") or "s").strip("-_")
    seconds = float(groups["number"]) * UNITS[short_unit(unit)]
    return round(seconds + 60 * int(groups.get("minutes") or 0), 3)


def short_unit(unit: str) -> str:
    unit = unit.lower()
    return "ms" if unit.startswith(("ms", "milli")) else unit[0]


def read_stamp(match: re.Match[str], *, now: datetime) -> datetime | None:
    """Return the time that a match names; None if there is no such time."""
    groups = match.groupdict()
    try:
        if text := groups["iso"]:
            return datetime.fromisoformat(re.sub(r" ?UTC$", "+00:00", text, flags=re.IGNORECASE))
        if groups["epoch"]:
            return datetime.fromtimestamp(int(groups["epoch"]), UTC)
        if groups["clock"]:
            hour, minute = map(int, groups["clock"].split(":"))
            at = now.astimezone(UTC).replace(hour=hour, minute=minute, second=0, microsecond=0)
            return at if at >= now else at + timedelta(days=1)
        month = MONTHS.index(groups["month"].lower()) + 1
        text = f"{groups['year']}-{month:02}-{groups['day']}T{groups['time']}+00:00"
        return datetime.fromisoformat(text)
    except ValueError:
        return None
