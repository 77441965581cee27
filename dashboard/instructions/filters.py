"""The query box of Instructions (pure): `agent:gemini urgency:urgent ack:>30s some words`.

Words without a key are searched in the instruction's content.
"""

import re
import uuid
from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard import query_box
from dashboard.query_box import ANY, BoxQuery, Keys, Names, Values, only_value, split_ids
from dashboard.query_values import Period, read_age, read_period
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
class InstructionQuery(BoxQuery):
    agent: Values = ANY
    sender: Values = ANY
    state: Values = ANY
    urgency: Values = ANY
    ack_over: float | None = None
    ack_under: float | None = None
    older: timedelta | None = None  # since it was sent
    sent: Period | None = None
    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def one_agent(self) -> str:
        """The agent's name if exactly one is asked for, else an empty string."""
        return only_value(self.agent)

    @property
    def segment(self) -> str:
        """The list's button for the state: "all", a key of STATES, or an empty string."""
        return "all" if self.state == ANY else only_value(self.state)

    def with_state(self, name: str) -> str:
        """Return the query's text with another state, or with any state."""
        return self.having("state", f"state:{name}" if name else "")

    def stateless(self) -> "InstructionQuery":
        """Return the query for any state, which the counts on the list's buttons need."""
        return replace(self, text="", state=ANY)


def read_ack(value: str) -> dict[str, float]:
    """Return a bound on the time to the acknowledgement: {">": seconds} or {"<": seconds}."""
    match = ACK.fullmatch(value)
    if match is None:
        raise ValueError(f"“ack:{value}” is not a duration. Try ack:>30s or ack:<2m.")
    return {match["op"]: float(match["number"]) * SECONDS[match["unit"] or "s"]}


KEYS: Keys = {
    "agent": Names(),
    "state": Names(tuple(STATES)),
    "from": Names(),
    "urgency": Names(tuple(URGENCIES)),
    "older": read_age("older"),
    "sent": read_period("sent"),
    "ack": read_ack,
}


def parse(text: str) -> InstructionQuery:
    """Return the query in `text`; never fails."""
    parsed = query_box.parse(text, KEYS)
    ids, words = split_ids(parsed.rest, parsed.problems)
    return InstructionQuery(
        text=parsed.text,
        agent=parsed.names.get("agent", ANY),
        sender=parsed.names.get("from", ANY),
        state=parsed.names.get("state", ANY),
        urgency=parsed.names.get("urgency", ANY),
        ack_over=parsed.read.get(">"),
        ack_under=parsed.read.get("<"),
        older=parsed.read.get("older"),
        sent=parsed.read.get("sent"),
        ids=ids,
        words=words,
        problems=tuple(parsed.problems),
    )
