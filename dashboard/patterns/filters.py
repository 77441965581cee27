"""The query box of Patterns (pure): `state:ignored agent:coder older:7d connection refused`.

Words without a key are searched in the error. Without a state, the list has the patterns that need
attention.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, ListQuery, Names, Values, only_value
from dashboard.lists.query_values import Period, read_age, read_period
from retries.states import TROUBLING, PatternState

ALL = "all"
# the name of a state in the box -> the states it stands for
STATES: dict[str, tuple[PatternState, ...]] = {
    "open": TROUBLING,
    "ignored": (PatternState.IGNORED,),
    "resolved": (PatternState.RESOLVED,),
    "regressed": (PatternState.REGRESSED,),
    ALL: tuple(PatternState),
}
KEYS: Keys = {
    "agent": Names(),
    "state": Names(tuple(STATES)),
    "type": Names(),
    "plan": Names(),
    "pattern": Names(),
    "error": Names(),
    "older": read_age("older"),
    "seen": read_period("seen"),
    "first": read_period("first"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternQuery(ListQuery):
    agent: Values = ANY
    state: Values = ANY
    type: Values = ANY  # of its failures' tasks
    plan: Values = ANY
    pattern: Values = ANY
    error: Values = ANY
    older: timedelta | None = None  # since it was seen last
    seen: Period | None = None
    first: Period | None = None

    @property
    def one_state(self) -> str:
        """The state if exactly one is asked for or none, else an empty string."""
        return "open" if self.state == ANY else only_value(self.state)

    def stateless(self) -> "PatternQuery":
        """Return the query for any state, which the counts on the list's buttons need."""
        return replace(self, text="", state=Values((ALL,)))


def parse(text: str) -> PatternQuery:
    """Return the query in `text`; never fails."""
    return PatternQuery.read(text, KEYS)
