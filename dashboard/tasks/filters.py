"""The query boxes of Tasks and Dead letters (pure): `agent:coder state:retry attempts:>1`.

Words without a key are searched in the title and the type.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, Paths, StateQuery, Values, only_value
from dashboard.lists.query_values import Period, read_age, read_bound, read_period
from ledger.states import BlockedReason, FailureType, Proof, TaskState

# the name of a state in the box -> the states it stands for
STATES: dict[str, tuple[TaskState, ...]] = {
    "needs-you": (TaskState.ESCALATED,),
    **{state.value: (state,) for state in TaskState},
}
LETTER_STATES = ("open", "replayed", "dismissed")
ERRORS = tuple(FailureType.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery(StateQuery):
    agent: Values = ANY
    pool: Values = ANY
    type: Values = ANY
    plan: Values = ANY
    reason: Values = ANY
    proof: Values = ANY
    assignee: Values = ANY
    error: Values = ANY
    pattern: Values = ANY
    older: timedelta | None = None  # the time since the last change
    changed: Period | None = None
    created: Period | None = None
    failed: Period | None = None  # the failure time of a dead letter
    attempts_over: int | None = None
    attempts_under: int | None = None
    stored: tuple[tuple[str, Values], ...] = ()  # keys such as payload.order

    @property
    def is_searched(self) -> bool:
        return bool(self.words) or any(values.wanted for _, values in self.stored)

    @property
    def one_agent(self) -> str:
        return only_value(self.agent)

    @property
    def one_pattern(self) -> str:
        return only_value(self.pattern)

    def agentless(self) -> "TaskQuery":
        # The counts of the agents are for any agent.
        return replace(self, text="", agent=ANY)

    def patternless(self) -> "TaskQuery":
        # The counts of the patterns are for any pattern.
        return replace(self, text="", pattern=ANY)

    def changeless(self) -> "TaskQuery":
        # The counts of the periods are for any time of change.
        return replace(self, text="", changed=None)


KEYS: Keys = {
    "agent": Names(),
    "pool": Names(),
    "state": Names(tuple(STATES)),
    "type": Names(),
    "plan": Names(),
    "pattern": Names(),
    "error": Names(),
    "older": read_age("older"),
    "changed": read_period("changed"),
    "created": read_period("created"),
    "attempts": read_bound("attempts"),
    "reason": Names(tuple(BlockedReason.values)),
    "proof": Names(tuple(Proof.values)),
    "payload.NAME": Paths(),
    "result.NAME": Paths(),
    "assignee": Names(),
}
LETTER_KEYS: Keys = {
    "agent": Names(),
    "state": Names(LETTER_STATES),
    "type": Names(),
    "plan": Names(),
    "pattern": Names(),
    "error": Names(),
    "older": read_age("older"),
    "failed": read_period("failed"),
    "created": read_period("created", "failed"),
    "attempts": read_bound("attempts"),
    "reason": Names(),
    "assignee": Names(),
}


def parse(text: str, keys: Keys = KEYS) -> TaskQuery:
    return TaskQuery.read(text, keys)
