"""The query box of the list of rules (pure): `agent:coder followed:<70% holds:yes changelog`."""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from dashboard import query_box
from dashboard.query_box import ANY, BoxQuery, Names, Values, only_value
from ledger.models.standing_instruction import RuleState

STATES = {"on": RuleState.ACTIVE, "paused": RuleState.PAUSED, "draft": RuleState.DRAFT}
SHARE = re.compile(r"(?P<sign>[<>])(?P<percent>\d{1,3})%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQuery(BoxQuery):
    agent: Values = ANY
    project: Values = ANY
    state: Values = ANY
    holds: Values = ANY
    over: float | None = None
    under: float | None = None
    words: tuple[str, ...] = ()

    @property
    def one_state(self) -> str:
        return only_value(self.state)


def parse(text: str) -> RuleQuery:
    """Return the query in `text`; never fails."""
    parsed = query_box.parse(
        text,
        {
            "agent": Names(),
            "project": Names(),
            "state": Names(tuple(STATES)),
            "holds": Names(("yes", "no")),
            "followed": read_share,
        },
    )
    _, words = query_box.split_ids(parsed.rest, parsed.problems)
    return RuleQuery(
        text=parsed.text,
        agent=parsed.names.get("agent", ANY),
        project=parsed.names.get("project", ANY),
        state=parsed.names.get("state", ANY),
        holds=parsed.names.get("holds", ANY),
        over=parsed.read.get("over"),
        under=parsed.read.get("under"),
        words=words,
        problems=tuple(parsed.problems),
    )


def read_share(value: str) -> dict[str, Any]:
    found = SHARE.fullmatch(value)
    if found is None:
        raise ValueError(f"“followed:{value}” is not a share. Try followed:<70%.")
    name = "under" if found["sign"] == "<" else "over"
    return {name: int(found["percent"]) / 100}


def is_wanted(values: Values, actual: str) -> bool:
    """Return whether a value is among those asked for."""
    lower = actual.lower()
    names = partial(map, str.lower)
    return (not values.wanted or lower in names(values.wanted)) and lower not in names(
        values.unwanted
    )
