"""The query box of Plans (pure): `state:active agent:coder created:7d billing`.

Words without a key are searched in the ref and the title.
"""

import uuid
from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard import query_box
from dashboard.query_box import ANY, BoxQuery, Keys, Names, Values, only_value, split_ids
from dashboard.query_values import Period, read_age, read_period
from ledger.models.plan import PlanState

STATES = tuple(PlanState.values)
KEYS: Keys = {
    "agent": Names(),
    "state": Names(STATES),
    "older": read_age("older"),
    "changed": read_period("changed"),
    "created": read_period("created"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuery(BoxQuery):
    agent: Values = ANY
    state: Values = ANY
    older: timedelta | None = None  # since the last change
    changed: Period | None = None
    created: Period | None = None
    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def one_state(self) -> str:
        """The state if exactly one is asked for, "all" if none is, else an empty string."""
        return "all" if self.state == ANY else only_value(self.state)

    @property
    def one_agent(self) -> str:
        """The agent's name if exactly one is asked for, else an empty string."""
        return only_value(self.agent)

    def with_state(self, name: str) -> str:
        """Return the query's text with another state, or with any state."""
        return self.having("state", f"state:{name}" if name != "all" else "")

    def stateless(self) -> "PlanQuery":
        """Return the query for any state, which the counts on the list's buttons need."""
        return replace(self, text="", state=ANY)


def parse(text: str) -> PlanQuery:
    """Return the query in `text`; never fails."""
    parsed = query_box.parse(text, KEYS)
    ids, words = split_ids(parsed.rest, parsed.problems)
    return PlanQuery(
        text=parsed.text,
        **parsed.names,
        older=parsed.read.get("older"),
        changed=parsed.read.get("changed"),
        created=parsed.read.get("created"),
        ids=ids,
        words=words,
        problems=tuple(parsed.problems),
    )
