"""The query box of Sessions (pure): `agent:coder state:failed task:03-01:task-11 older:1h`.

Words without a key are searched in the first prompt.
"""

import re
import uuid
from dataclasses import dataclass, replace

from dashboard import query_box
from dashboard.query_box import ANY, BoxQuery, Names, Reader, Values, only_value, split_ids

# the states of a session as the list derives them, most urgent first
STATES = ("failed", "processing", "buffering", "up-to-date", "stored")
ATTEMPTS = ("linked", "none")
TRACKERS = ("todo", "llm", "none")
AGE = re.compile(r"(?P<number>\d{1,4})(?P<unit>s|m|h|d)")
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery(BoxQuery):
    agent: Values = ANY
    state: Values = ANY
    attempt: Values = ANY
    tracker: Values = ANY
    task: Values = ANY
    older: int | None = None  # seconds since the last activity
    newer: int | None = None
    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()

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

    @property
    def one_state(self) -> str:
        """The state if exactly one is asked for, "all" if none is, else an empty string."""
        return "all" if self.state == ANY else only_value(self.state)

    def anything(self) -> "SessionQuery":
        """Return the query without the keys of the facets, which their counts need."""
        return replace(self, text="", state=ANY, agent=ANY, attempt=ANY, tracker=ANY)


def read_age(key: str) -> Reader:
    """Return the reader of a bound on the last activity: seconds by key."""

    def read(value: str) -> dict[str, int]:
        match = AGE.fullmatch(value)
        if match is None:
            raise ValueError(f"“{key}:{value}” is not a duration. Try {key}:1h or {key}:2d.")
        return {key: int(match["number"]) * SECONDS[match["unit"]]}

    return read


KEYS: dict[str, Names | Reader] = {
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
    parsed = query_box.parse(text, KEYS)
    ids, words = split_ids(parsed.rest, parsed.problems)
    return SessionQuery(
        text=parsed.text,
        **parsed.names,
        older=parsed.read.get("older"),
        newer=parsed.read.get("newer"),
        ids=ids,
        words=words,
        problems=tuple(parsed.problems),
    )
