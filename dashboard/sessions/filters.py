"""The query box of Sessions (pure): `agent:coder state:failed task:03-01:task-11 older:1h`.

Words without a key are searched in the first prompt.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values, only_value
from dashboard.lists.query_values import read_age

# the states of a session as the list derives them, most urgent first
STATES = ("failed", "processing", "buffering", "up-to-date", "stored")
ATTEMPTS = ("linked", "none")
TRACKERS = ("todo", "llm", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery(StateQuery):
    agent: Values = ANY
    attempt: Values = ANY
    tracker: Values = ANY
    task: Values = ANY
    older: timedelta | None = None  # since the last activity
    newer: timedelta | None = None

    @property
    def one_agent(self) -> str:
        """The agent's name if exactly one is asked for, else an empty string."""
        return only_value(self.agent)

    @property
    def one_attempt(self) -> str:
        return only_value(self.attempt)

    @property
    def one_tracker(self) -> str:
        return only_value(self.tracker)

    def anything(self) -> "SessionQuery":
        """Return the query without the keys of the facets, which their counts need."""
        return replace(self, text="", state=ANY, agent=ANY, attempt=ANY, tracker=ANY)


KEYS: Keys = {
    "agent": Names(),
    "state": Names(STATES),
    "attempt": Names(ATTEMPTS),
    "tracker": Names(TRACKERS),
    "task": Names(),
    "older": read_age("older"),
    "newer": read_age("newer"),
}


def parse(text: str) -> SessionQuery:
    """Return the query in `text`; never fails."""
    return SessionQuery.read(text, KEYS)
