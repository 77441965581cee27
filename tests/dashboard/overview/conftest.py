"""Half hours for the charts of Overview."""

from datetime import UTC, datetime

from dashboard.overview import queries as overview_queries
from dashboard.overview.queries import HalfHour, first_half_hour

NOW = datetime(2026, 11, 21, 14, 40, tzinfo=UTC)


def a_day(**more: int) -> list[HalfHour]:
    return [
        HalfHour(first_half_hour(NOW) + n * overview_queries.HALF_HOUR, **more)
        for n in range(overview_queries.HALF_HOURS_SHOWN)
    ]
