"""The query box of Agents (pure): `state:tripped older:1h coder`.

Words without a key are searched in the name.
"""

import uuid
from dataclasses import dataclass
from datetime import timedelta

from dashboard import query_box
from dashboard.query_box import ANY, BoxQuery, Keys, Names, Values, only_value, split_ids
from dashboard.query_values import read_age

STATES = ("tripped", "half-open", "silent", "paused", "working")
KEYS: Keys = {"state": Names(STATES), "older": read_age("older"), "newer": read_age("newer")}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentQuery(BoxQuery):
    state: Values = ANY
    older: timedelta | None = None  # since it was seen last
    newer: timedelta | None = None
    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def one_state(self) -> str:
        """The state if exactly one is asked for, "all" if none is, else an empty string."""
        return "all" if self.state == ANY else only_value(self.state)

    def with_state(self, name: str) -> str:
        """Return the query's text with another state, or with any state."""
        return self.having("state", f"state:{name}" if name != "all" else "")


def parse(text: str) -> AgentQuery:
    """Return the query in `text`; never fails."""
    parsed = query_box.parse(text, KEYS)
    ids, words = split_ids(parsed.rest, parsed.problems)
    return AgentQuery(
        text=parsed.text,
        **parsed.names,
        older=parsed.read.get("older"),
        newer=parsed.read.get("newer"),
        ids=ids,
        words=words,
        problems=tuple(parsed.problems),
    )
