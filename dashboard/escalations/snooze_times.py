"""The times until which an escalation can be snoozed, and reading the one that was chosen."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from django.http import QueryDict
from django.utils import timezone

from ledger.errors import Invalid

MORNING, EVENING = 9, 18


@dataclass(frozen=True, slots=True)
class SnoozeTime:
    """An entry of the menu."""

    name: str
    label: str
    at: datetime


def list_snooze_times(now: datetime) -> list[SnoozeTime]:
    """Return the entries of the menu in the current time zone.

    >>> [each.name for each in list_snooze_times(datetime(2026, 11, 22, 12, tzinfo=UTC))]
    ['hour', 'evening', 'tomorrow', 'week']
    """
    here = timezone.localtime(now)
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    evening = midnight.replace(hour=EVENING)
    morning = midnight.replace(hour=MORNING)
    monday = morning + timedelta(days=7 - here.weekday())
    times = [
        SnoozeTime("hour", "In 1 hour", now.replace(second=0, microsecond=0) + timedelta(hours=1)),
        SnoozeTime("evening", "This evening", evening),
        SnoozeTime("tomorrow", "Tomorrow morning", morning + timedelta(days=1)),
        SnoozeTime("week", "Next week", monday),
    ]
    return [each for each in times if each.name != "evening" or evening > now]


def read_snooze_time(given: QueryDict, now: datetime) -> datetime | None:
    """Return the chosen time, or None to bring the escalation back; raise Invalid."""
    text = given.get("own", "") if given.get("until") == "own" else given.get("until", "")
    if text == "now":
        return None
    for each in list_snooze_times(now):
        if each.name == text:
            return each.at
    try:
        at = datetime.fromisoformat(text)
        # A time without a zone is meant in the zone that the browser sends.
        return at if at.tzinfo else at.replace(tzinfo=read_zone(given)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid("/until", "Choose a date and a time.") from None


def read_zone(given: QueryDict) -> tzinfo:
    try:
        return ZoneInfo(given.get("zone", ""))
    except (ValueError, KeyError, OSError):
        return timezone.get_current_timezone()
