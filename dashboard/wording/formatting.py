"""Format durations, numbers and times for people (pure)."""

from datetime import UTC, datetime, timedelta

from ledger.values.text import counted as counted

TOKEN_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "k"))


def duration(length: float | timedelta) -> str:
    """Format a duration, with tenths below 10 seconds.

    >>> [duration(s) for s in (0.04, 1.84, 12.4, 80, 3840, 172_800)]
    ['0.0 s', '1.8 s', '12 s', '1 m 20 s', '1 h 04 m', '2 d']
    """
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    return whole_duration(seconds)


def whole_duration(seconds: float) -> str:
    """Format a duration in whole seconds, for countdowns.

    >>> [whole_duration(s) for s in (0.2, 59.6, 119, 86_399)]
    ['0 s', '1 m', '1 m 59 s', '23 h 59 m']
    """
    left = max(round(seconds), 0)
    if left < 60:
        return f"{left} s"
    minutes, rest = divmod(left, 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s" if rest else f"{minutes} m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} m"
    return f"{hours // 24} d"


def latency(milliseconds: int) -> str:
    """Format how long an answer took.

    >>> latency(214), latency(1900), latency(80_000)
    ('214 ms', '1.9 s', '1 m 20 s')
    """
    return f"{milliseconds} ms" if milliseconds < 1000 else duration(milliseconds / 1000)


def rough_duration(seconds: float) -> str:
    """Format a duration with one unit.

    >>> [rough_duration(s) for s in (40, 380, 12_000, 200_000)]
    ['40 s', '6 m', '3 h', '2 d']
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0))} s"


def wait_duration(seconds: float) -> str:
    """Format how long something has waited: with one unit below an hour.

    >>> [wait_duration(s) for s in (40, 750, 3840, 200_000)]
    ['40 s', '12 m', '1 h 04 m', '2 d']
    """
    return whole_duration(seconds) if seconds >= 3600 else rough_duration(seconds)


def clock_time(at: datetime, *, now: datetime) -> str:
    """Format a time: 14:32:08 today, else 20 Nov 14:32, with the year if it is not this one."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b %H:%M}" if at.year == now.year else f"{at.day} {at:%b %Y %H:%M}"


def log_time(at: datetime, *, now: datetime) -> str:
    """Format a time of the log: 14:32:08.114 today, else 20 Nov 14:32:08."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    if at.date() == now.date():
        return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
    return f"{at.day} {at:%b %H:%M:%S}" if at.year == now.year else f"{at.day} {at:%b %Y %H:%M}"


def monogram(name: str) -> str:
    return "".join(char for char in name if char.isalnum())[:2].lower() or "·"


def initials(name: str) -> str:
    """Return the two characters in a person's circle.

    >>> initials("Priya Raman"), initials("Tomás de la Fuente"), initials("mara"), initials("<>")
    ('PR', 'TF', 'MA', '·')
    """
    words = [letters for word in name.split() if (letters := monogram(word)) != "·"]
    found = f"{words[0][0]}{words[-1][0]}" if len(words) > 1 else "".join(words)
    return found.upper() or "·"


COUNT_CAP = 10_000  # counting stops here


def capped(number: int, most: int = 0) -> str:
    """Format a number that was counted up to `most`, or else up to COUNT_CAP.

    >>> capped(9_999), capped(10_000), capped(1_000, 1_000)
    ('9,999', '10,000+', '1,000+')
    """
    most = most or COUNT_CAP
    return f"{most:,}+" if number >= most else f"{number:,}"


def describe_waiting(tasks: int, instructions: int) -> str:
    """Return how many tasks and instructions wait, without zeros.

    >>> describe_waiting(1, 2), describe_waiting(500, 0), describe_waiting(0, 1)
    ('1 task and 2 instructions', '500 tasks', '1 instruction')
    """
    numbers = ((tasks, "task"), (instructions, "instruction"))
    return " and ".join(counted(number, noun) for number, noun in numbers if number)


def few(number: float) -> str:
    """Format a number that may be small: with a tenth below 10, and 0 only if it is 0.

    >>> [few(each) for each in (0, 0.02, 0.25, 3, 9.96, 1204.4)]
    ['0', '<0.1', '0.2', '3', '10', '1,204']
    """
    if 0 < number < 0.05:
        return "<0.1"
    return f"{number:,.0f}" if number >= 9.95 else f"{number:.1f}".removesuffix(".0")


def percent_text(share: float) -> str:
    """Format a share in percent with a tenth, and 0% and 100% only if it is none or all.

    >>> [percent_text(each) for each in (0, 0.0004, 0.123, 0.5, 0.99996, 1)]
    ['0%', '<0.1%', '12.3%', '50.0%', '>99.9%', '100%']
    """
    if 0 < share < 0.0005:
        return "<0.1%"
    if 0.9995 <= share < 1:
        return ">99.9%"
    return f"{100 * share:.0f}%" if share in (0, 1) else f"{100 * share:.1f}%"


def count_tokens(number: float) -> str:
    """Return a number of tokens with three digits.

    >>> [count_tokens(each) for each in (0, 999, 1_840, 52_100, 999_999, 412_000_000)]
    ['0', '999', '1.84 k', '52.1 k', '1 M', '412 M']
    """
    for size, unit in TOKEN_UNITS:
        if number >= size * 0.9995:
            value = number / size
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            text = f"{value:.{digits}f}"
            return f"{text.rstrip('0').rstrip('.') if digits else text} {unit}"
    return f"{number:.0f}"


def dollars(amount: float | None) -> str:
    """Format an amount, without cents where they don't matter.

    >>> [dollars(each) for each in (None, 0, 0.004, 0.21, 14.98, 1317.6)]
    ['–', '$0', '<$0.01', '$0.21', '$14.98', '$1,318']
    """
    if amount is None:
        return "–"
    if amount == 0:
        return "$0"
    if amount < 0.01:
        return "<$0.01"
    return f"${amount:,.2f}" if amount < 100 else f"${amount:,.0f}"
