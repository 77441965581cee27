"""The query box of Operations (pure): `state:stopped by:mara older:1d wrong branch`.

Words without a key are searched in the reason and in the filter that chose the rows.
"""

from dataclasses import dataclass
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period
from retries.models.operation import OperationState

KEYS: Keys = {
    "state": Names(tuple(OperationState.values)),
    "by": Names(),
    "older": read_age("older"),
    "started": read_period("started"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationQuery(StateQuery):
    by: Values = ANY
    older: timedelta | None = None  # since its rows were counted
    started: Period | None = None


def parse(text: str) -> OperationQuery:
    """Return the query in `text`; never fails."""
    return OperationQuery.read(text, KEYS)
