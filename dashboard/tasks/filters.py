"""The query boxes of Tasks and Dead letters (pure): `agent:coder state:retry attempts:>1`.

Words without a key are searched in the title and the type.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, Names, StateQuery, Values, only_value
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
    type: Values = ANY
    plan: Values = ANY
    reason: Values = ANY
    proof: Values = ANY
    error: Values = ANY
    pattern: Values = ANY
    older: timedelta | None = None  # since the last change
    changed: Period | None = None
    created: Period | None = None
    failed: Period | None = None  # of a dead letter
    attempts_over: int | None = None
    attempts_under: int | None = None

    @property
    def one_agent(self) -> str:
        """The agent's name if exactly one is asked for, else an empty string."""
        return only_value(self.agent)

    @property
    def one_pattern(self) -> str:
        """The pattern's name if exactly one is asked for, else an empty string."""
        return only_value(self.pattern)

    def agentless(self) -> "TaskQuery":
        """Return the query for any agent, which the counts of the agents need."""
        return replace(self, text="", agent=ANY)

    def patternless(self) -> "TaskQuery":
        """Return the query for any failure pattern, which the counts of the patterns need."""
        return replace(self, text="", pattern=ANY)

    def changeless(self) -> "TaskQuery":
        """Return the query for any time of change, which the counts of the periods need."""
        return replace(self, text="", changed=None)


KEYS: Keys = {
    "agent": Names(),
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
}


def parse(text: str, keys: Keys = KEYS) -> TaskQuery:
    """Return the query in `text`; never fails."""
    return TaskQuery.read(text, keys)
