"""The query box of Deliveries (pure): `channel:mirror event:task.* code:503 older:2h`.

Words without a key are searched in the titles.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period

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
class DeliveryQuery(StateQuery):
    channel: Values = ANY
    event: Values = ANY
    code: tuple[int, int] | None = None  # from and to; (0, 0) for no answer
    older: timedelta | None = None
    sent: Period | None = None


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
    "sent": read_period("sent"),
}


def parse(text: str) -> DeliveryQuery:
    """Return the query in `text`; never fails."""
    return DeliveryQuery.read(text, KEYS)
