"""The query box of Instructions (pure): `agent:gemini urgency:urgent ack:>30s some words`.

Words without a key are searched in the instruction's content.
"""

import re
from dataclasses import dataclass
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_age, read_period
from ledger.states import LEVELS, InstructionState

# the name of a state in the box -> the states it stands for
STATES: dict[str, tuple[InstructionState, ...]] = {
    "waiting": (InstructionState.QUEUED, InstructionState.DELIVERED),
    **{state.value: (state,) for state in InstructionState},
    "gave-up": (InstructionState.FAILED,),
}
URGENCIES = {level.value: number for number, level in enumerate(LEVELS)}
ACK = re.compile(r"(?P<op>[<>])(?P<number>\d{1,6}(?:\.\d+)?)(?P<unit>ms|s|m|h)?")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionQuery(StateQuery):
    agent: Values = ANY
    # for the task that it names
    type: Values = ANY
    plan: Values = ANY
    pattern: Values = ANY
    error: Values = ANY
    sender: Values = ANY
    urgency: Values = ANY
    ack_over: float | None = None
    ack_under: float | None = None
    older: timedelta | None = None  # the time since it was sent
    sent: Period | None = None


def read_ack(value: str) -> dict[str, float]:
    """Return a bound on the seconds to the acknowledgment, as ack_over or ack_under."""
    match = ACK.fullmatch(value)
    if match is None:
        raise ValueError(f"“ack:{value}” is not a duration. Try ack:>30s or ack:<2m.")
    name = "ack_over" if match["op"] == ">" else "ack_under"
    return {name: float(match["number"]) * SECONDS[match["unit"] or "s"]}


KEYS: Keys = {
    "agent": Names(),
    "state": Names(tuple(STATES)),
    "type": Names(),
    "plan": Names(),
    "pattern": Names(),
    "error": Names(),
    "from": Names(field="sender"),
    "urgency": Names(tuple(URGENCIES)),
    "older": read_age("older"),
    "sent": read_period("sent"),
    "created": read_period("created", "sent"),
    "ack": read_ack,
}


def parse(text: str) -> InstructionQuery:
    return InstructionQuery.read(text, KEYS)
