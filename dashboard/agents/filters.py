"""The query box of Agents (pure): `state:tripped older:1h coder`.

Words without a key are searched in the name.
"""

from dataclasses import dataclass
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values
from dashboard.lists.query_values import read_age

STATES = ("tripped", "half-open", "silent", "paused", "working")
KEYS: Keys = {
    "agent": Names(),
    "state": Names(STATES),
    "older": read_age("older"),
    "newer": read_age("newer"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentQuery(StateQuery):
    agent: Values = ANY
    older: timedelta | None = None  # since it was seen last
    newer: timedelta | None = None

    @property
    def is_state_alone(self) -> bool:
        """Whether the query asks for nothing but one state."""
        others = self.words or self.agent != ANY or self.older or self.newer
        return bool(self.one_state) and not others


def parse(text: str) -> AgentQuery:
    """Return the query in `text`; never fails."""
    return AgentQuery.read(text, KEYS)
