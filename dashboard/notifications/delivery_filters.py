"""The query box of Deliveries (pure): `channel:mirror event:task.* code:503 older:2h`.

Words without a key are searched in the titles.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from dashboard import query_box
from dashboard.query_box import ANY, BoxQuery, Keys, Names, Values, only_value, split_ids
from dashboard.query_values import read_age

# the name of a state in the box -> the states of deliveries that it stands for
STATES = {
    "retrying": ("pending", "retrying"),
    "gave-up": ("gave_up",),
    "delivered": ("delivered",),
    "not-sent": ("not_sent",),
    "held": ("held", "summarized"),
}
CODE = re.compile(r"(?P<class>[1-5])xx|\d{3}|none")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQuery(BoxQuery):
    channel: Values = ANY
    event: Values = ANY
    state: Values = ANY
    code: tuple[int, int] | None = None  # from and to; (0, 0) for no answer
    older: timedelta | None = None
    ids: tuple[UUID, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def segment(self) -> str:
        """The list's button for the state: "all", a key of STATES, or an empty string."""
        return "all" if self.state == ANY else only_value(self.state)

    def with_state(self, name: str) -> str:
        return self.having("state", f"state:{name}" if name else "")

    def stateless(self) -> "DeliveryQuery":
        """Return the query for any state, which the counts on the list's buttons need."""
        return replace(self, text="", state=ANY)


def read_code(value: str) -> Mapping[str, Any]:
    """Return the range of status codes that a value means.

    >>> read_code("503"), read_code("4xx"), read_code("none")
    ({'code': (503, 503)}, {'code': (400, 499)}, {'code': (0, 0)})
    """
    match = CODE.fullmatch(value)
    if match is None:
        raise ValueError(f"“code:{value}” is not a status. Try code:503, code:5xx or code:none.")
    if value == "none":
        return {"code": (0, 0)}
    start = int(match["class"]) * 100 if match["class"] else int(value)
    return {"code": (start, start + 99 if match["class"] else start)}


KEYS: Keys = {
    "channel": Names(),
    "event": Names(),
    "state": Names(tuple(STATES)),
    "code": read_code,
    "older": read_age("older"),
}


def parse(text: str) -> DeliveryQuery:
    """Return the query in `text`; never fails."""
    parsed = query_box.parse(text, KEYS)
    ids, words = split_ids(parsed.rest, parsed.problems)
    return DeliveryQuery(
        text=parsed.text,
        channel=parsed.names.get("channel", ANY),
        event=parsed.names.get("event", ANY),
        state=parsed.names.get("state", ANY),
        code=parsed.read.get("code"),
        older=parsed.read.get("older"),
        ids=ids,
        words=words,
        problems=tuple(parsed.problems),
    )
