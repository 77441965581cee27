"""The query box of the list of rules (pure): `agent:coder followed:<70% holds:yes changelog`."""

import re
from dataclasses import dataclass
from typing import Any

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_period
from ledger.models.standing_instruction import RuleState

STATES = {"on": RuleState.ACTIVE, "paused": RuleState.PAUSED, "draft": RuleState.DRAFT}
SHARE = re.compile(r"(?P<sign>[<>])(?P<percent>\d{1,3})%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQuery(StateQuery):
    agent: Values = ANY
    project: Values = ANY
    holds: Values = ANY
    over: float | None = None
    under: float | None = None
    fired: Period | None = None  # when it last sent an instruction


def read_share(value: str) -> dict[str, Any]:
    found = SHARE.fullmatch(value)
    if found is None:
        raise ValueError(f"“followed:{value}” is not a share. Try followed:<70%.")
    name = "under" if found["sign"] == "<" else "over"
    return {name: int(found["percent"]) / 100}


KEYS: Keys = {
    "agent": Names(),
    "project": Names(),
    "state": Names(tuple(STATES)),
    "holds": Names(("yes", "no")),
    "followed": read_share,
    "fired": read_period("fired"),
}


def parse(text: str) -> RuleQuery:
    """Return the query in `text`; never fails."""
    return RuleQuery.read(text, KEYS)
