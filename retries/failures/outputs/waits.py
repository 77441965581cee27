"""Find how long a limit says to wait (pure).

The patterns read at most 12,000 characters: the text around the line that tells the limit.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
UNIT = (
    r"(?:milliseconds?|millis|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)"
    r"(?![a-z])"
)
NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
PART = re.compile(rf"({NUMBER}) ?({UNIT})", re.I)
# "20s", "1m26.4s", "3 days 4 hours", "2 hours, 5 minutes and 3 seconds"
DURATION = rf"(?P<duration>{NUMBER} ?{UNIT}(?:,? ?(?:and )?{NUMBER} ?{UNIT}){{0,4}})"
# "try again in 20s", "Please retry after 30 seconds": a number without a unit is in seconds
SPOKEN = re.compile(
    r"(?<![\w-])(?:try(?:ing)? again|retry(?:ing)?|wait(?:ing)?|available again|available in|"
    r"resets?|renews?|back ?off)(?: (?:after|in|for|at least|about)){0,3} ?(?:approximately |~ ?)?"
    rf"(?:{DURATION}|(?P<number>{NUMBER})(?=\s{{0,9}}(?:[,;)\]}}\"']|\.(?!\d)|$)))",
    re.I | re.M,
)
# Retry-After: 20, "retry_after_s": 20, retryDelay: "20s", retryInMs: 1500
SUFFIX = r"(?P<suffix>[-_]?(?:ms|milliseconds|seconds|secs|s))?"
FIELD = re.compile(
    rf"\b(?:retry[-_ ]?after|retry[-_]?delay|retry[-_]?in){SUFFIX}[\"']?\s{{0,9}}[:=]"
    rf"\s{{0,9}}[\"']?(?:{DURATION}|(?P<number>{NUMBER}))(?![\w:-])",
    re.I,
)
# The headers and fields that name when a limit's window resets, as a duration, a number of seconds,
# an epoch or an ISO time. The windows of 5 hours and 7 days are named even when they have room.
AMOUNT = r"(?P<number>\d{1,13}(?:\.\d{1,9})?)"
ISO = r"(?P<stamp>\d{4}-\d\d-\d\d[^\s\"',]{1,32})"
HEADER = re.compile(
    r"(?<![-\w])(?!anthropic-ratelimit-unified-\d)(?:[a-z]{1,20}-){0,2}(?:rate[-_]?limit|codex)"
    r"[-_](?:[a-z]{1,20}[-_]){0,3}reset(?:[-_][a-z]{1,20}){0,3}[\"']?\s{0,9}[:=]\s{0,9}[\"']?"
    rf"(?:{ISO}|{DURATION}|{AMOUNT})(?![\w:-])",
    re.I,
)
RESET_FIELD = re.compile(
    r"\bresets?[-_]?(?:at|in|after)?[-_]?(?P<suffix>ms|seconds|secs|s)?[\"']\s{0,9}:\s{0,9}[\"']?"
    rf"(?:{ISO}|{AMOUNT})(?![\w:-])",
    re.I,
)
# "usage limit reached|1792567680"
EPOCH = r"(?P<epoch>1[6-9]\d{8}(?:\d{3})?|2\d{9})\b"
PIPED = re.compile(rf"limit reached ?\| ?{EPOCH}", re.I)

# ---- times of a clock or a calendar

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MONTH = rf"(?P<month>{'|'.join(MONTHS)})[a-z]{{0,6}}\.?"
DAY = (
    rf"(?:(?P<weekday>{'|'.join(WEEKDAYS)})[a-z]{{0,6}}|(?P<tomorrow>tomorrow)|today"
    rf"|{MONTH} (?P<day>\d\d?)(?:st|nd|rd|th)?(?:,? (?P<year>20\d\d))?)"
)
TIME = r"(?P<hour>\d\d?)(?:[:.](?P<minute>\d\d)(?::\d\d)?)? ?(?P<half>[ap]\.?m\b)?"
ZONES = {
    **dict.fromkeys(("pt", "pst", "pdt"), "America/Los_Angeles"),
    **dict.fromkeys(("mt", "mst", "mdt"), "America/Denver"),
    **dict.fromkeys(("ct", "cst", "cdt"), "America/Chicago"),
    **dict.fromkeys(("et", "est", "edt"), "America/New_York"),
    **dict.fromkeys(("cet", "cest"), "Europe/Berlin"),
    **dict.fromkeys(("utc", "gmt", "z"), "UTC"),
    "bst": "Europe/London",
    "ist": "Asia/Kolkata",
    "jst": "Asia/Tokyo",
}
ZONE = (
    r"\.? ?\(?(?P<zone>(?:utc|gmt)[+-]\d\d?(?::?\d\d)?(?!\d)"
    rf"|(?:{'|'.join(sorted(ZONES, key=len, reverse=True))})\b(?!/)"
    r"|[a-z]{2,20}(?:/[a-z_+-]{2,30}){1,2})"
)
# "resets 3:45pm (Europe/Berlin)", "try again at Dec 4th, 2026 9:12 AM", "resets Monday at 9am",
# "resets at 2026-10-21T07:28:00Z", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"
STAMP = re.compile(
    r"(?<![\w-])(?:resets?|renews?|refreshes|retry[-_ ]?after|retry|try again|available)"
    r"(?: (?:again|at|on|after|by)){0,3}[\"']?\s{0,3}[:=·∙]?\s{0,3}[\"']?(?:"
    r"(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:Z| ?UTC|[+-]\d\d:\d\d)?)"
    r"|[a-z]{3}, (?P<http_day>\d\d) (?P<http_month>[a-z]{3}) (?P<http_year>\d{4})"
    r" (?P<http_time>\d\d:\d\d:\d\d) GMT"
    rf"|{EPOCH}"
    rf"|(?:{DAY}(?:,? (?:at )?|$))?(?:{TIME}(?!\d)(?:{ZONE})?)?)",
    re.I | re.M,
)
# A report may come some minutes after the time that its text names.
LATE = timedelta(minutes=10)


def find_wait_s(text: str, *, now: datetime) -> float | None:
    """Return the longest wait in seconds that a text names, or None.

    A time without a zone is in UTC. The headers of a limit's windows count only if nothing else
    names a wait.

    >>> find_wait_s("Please try again in 1m26.4s.", now=datetime(2026, 11, 22, tzinfo=UTC))
    86.4
    """
    found: list[float | None] = [
        read_amount(match) for form in (SPOKEN, FIELD) for match in form.finditer(text)
    ]
    found += [seconds_until(read_stamp(match, now=now), now) for match in STAMP.finditer(text)]
    if not any(wait is not None for wait in found):
        found = [read_header(match, now=now) for match in HEADER.finditer(text)]
        # The first field is the limit that was hit; the others are of its windows.
        first = RESET_FIELD.search(text) or PIPED.search(text)
        found += [read_header(first, now=now)] if first else []
    return max((wait for wait in found if wait is not None), default=None)


def read_amount(match: re.Match[str]) -> float:
    # The units stand in the amount or in the field's name.
    groups = match.groupdict()
    if duration := groups.get("duration"):
        parts = PART.findall(duration)
        return round(sum(float(number) * UNITS[short_unit(unit)] for number, unit in parts), 3)
    unit = (groups.get("suffix") or "s").strip("-_")
    return round(float(groups["number"]) * UNITS[short_unit(unit)], 3)


def short_unit(unit: str) -> str:
    unit = unit.lower()
    return "ms" if unit.startswith(("ms", "milli")) else unit[0]


def read_header(match: re.Match[str], *, now: datetime) -> float | None:
    groups = match.groupdict()
    if stamp := groups.get("stamp"):
        return seconds_until(read_iso(stamp), now)
    number = groups.get("epoch") or groups.get("number")
    if number and re.fullmatch(EPOCH, number):
        return seconds_until(read_epoch(number), now)
    return read_amount(match) if groups.get("duration") or number else None


def seconds_until(at: datetime | None, now: datetime) -> float | None:
    if at is None:
        return None
    return max(0.0, (at.astimezone(UTC) - now.astimezone(UTC)).total_seconds())


def read_stamp(match: re.Match[str], *, now: datetime) -> datetime | None:
    groups = match.groupdict()
    try:
        if text := groups["iso"]:
            return read_iso(text)
        if groups["epoch"]:
            return read_epoch(groups["epoch"])
        if text := groups["http_month"]:
            month = MONTHS.index(text.lower()) + 1
            date = f"{groups['http_year']}-{month:02}-{groups['http_day']}"
            return read_iso(f"{date}T{groups['http_time']}Z")
        return read_clock(groups, now=now)
    except (ValueError, OverflowError):
        return None


def read_iso(text: str) -> datetime | None:
    # A time without a zone is in UTC.
    try:
        at = datetime.fromisoformat(re.sub(r" ?UTC\Z", "+00:00", text, flags=re.I))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def read_epoch(text: str) -> datetime:
    # An epoch with 13 digits is in milliseconds.
    return datetime.fromtimestamp(int(text) / (1_000 if len(text) == 13 else 1), UTC)


def read_clock(groups: dict[str, str | None], *, now: datetime) -> datetime | None:
    """Return the next time that the zone's clock shows this; None if it is no time."""
    has_day = groups["weekday"] or groups["tomorrow"] or groups["month"]
    has_time = groups["hour"] and (groups["minute"] or groups["half"])
    zone = read_zone(groups["zone"])
    if zone is None or not (has_day or has_time) or (groups["hour"] and not has_time):
        return None
    hour, minute = int(groups["hour"] or 0), int(groups["minute"] or 0)
    if half := groups["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half.lower().startswith("p") else 0)
    today = now.astimezone(zone).replace(hour=hour, minute=minute, second=0, microsecond=0)
    if groups["month"]:
        return of_month(today, groups)
    days = (groups["tomorrow"] and [1]) or range(9)
    if weekday := groups["weekday"]:
        ahead = (WEEKDAYS.index(weekday.lower()) - today.weekday()) % 7
        days = [ahead, ahead + 7]
    # Added to the wall's time: a day with a change of clocks has 23 or 25 hours. An hour that comes
    # twice is meant by its next occurrence.
    times = [(today + timedelta(days=each)).replace(fold=fold) for each in days for fold in (0, 1)]
    return next((at for at in times if at.astimezone(UTC) > now - LATE), None)


def of_month(today: datetime, groups: dict[str, str | None]) -> datetime:
    # A date without a year is in the nearest one.
    month = MONTHS.index((groups["month"] or "").lower()) + 1
    year = int(groups["year"] or today.year)
    at = today.replace(year=year, month=month, day=int(groups["day"] or 0))
    if not groups["year"] and abs(at - today) > timedelta(days=182):
        at = at.replace(year=year + (1 if at < today else -1))
    return at


def read_zone(name: str | None) -> tzinfo | None:
    # Without a name, the zone is UTC.
    if not name:
        return UTC
    if offset := re.fullmatch(r"(?:utc|gmt)([+-])(\d\d?):?(\d\d)?", name, re.I):
        sign, hours, minutes = offset.groups()
        ahead = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-ahead if sign == "-" else ahead) if ahead < timedelta(days=1) else None
    try:
        return ZoneInfo(ZONES.get(name.lower(), name))
    except (KeyError, ValueError, OSError):
        return None
