"""The query box of Plans (pure): `state:active agent:coder created:7d billing`.

Words without a key are searched in the ref and the title.
"""

from dataclasses import dataclass
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period
from ledger.models.plan import PlanState

STATES = tuple(PlanState.values)
KEYS: Keys = {
    "agent": Names(),
    "plan": Names(),
    "state": Names(STATES),
    "older": read_age("older"),
    "changed": read_period("changed"),
    "created": read_period("created"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery(StateQuery):
    agent: Values = ANY
    plan: Values = ANY
    older: timedelta | None = None  # since the last change
    changed: Period | None = None
    created: Period | None = None


def parse(text: str) -> PlanQuery:
    """Return the query in `text`; never fails."""
    return PlanQuery.read(text, KEYS)
