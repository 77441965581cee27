"""What the query boxes of Tasks and Dead letters ask for (pure): `agent:coder state:retry`.

Same grammar as `dashboard.instructions.filters`: commas mean "or", a minus excludes, other words
are matched in the text, nonsense becomes a sentence.
"""

import re
import uuid
from dataclasses import dataclass, field, replace

from dashboard.instructions.filters import (
    TOKEN,
    Values,
    clean,
    ids_and_words,
    is_about,
    merged,
    one_of,
    values_of,
)
from dashboard.instructions.filters import tokens as tokens_of
from ledger.states import BlockedReason, FailureType, TaskState

KEYS = ("agent", "type", "plan", "state", "reason", "error", "attempts")
# what a person may call a state -> the states it stands for
STATES: dict[str, tuple[TaskState, ...]] = {
    "needs-you": (TaskState.ESCALATED,),
    **{state.value: (state,) for state in TaskState},
}
TASK_STATES = tuple(STATES)
LETTER_STATES = ("open", "replayed", "dismissed")
REASONS = tuple(BlockedReason.values)
ERRORS = tuple(FailureType.values)
BOUND = re.compile(r"(?P<op>[<>])(?P<number>\d{1,4})")

ANY = Values()


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A parsed query; `text` is what the box shows."""

    text: str = ""
    agent: Values = ANY
    type: Values = ANY
    plan: Values = ANY
    state: Values = ANY
    reason: Values = ANY
    error: Values = ANY
    attempts_over: int | None = None
    attempts_under: int | None = None
    ids: tuple[uuid.UUID, ...] = ()
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=(), compare=False)

    @property
    def one_agent(self) -> str:
        """The agent's name, where exactly one is asked for."""
        return one_of(self.agent)

    @property
    def one_type(self) -> str:
        return one_of(self.type)

    @property
    def one_state(self) -> str:
        """The state, where exactly one is asked for; 'all' where none is."""
        return "all" if self.state == ANY else one_of(self.state)

    def having(self, key: str, value: str) -> str:
        """The text of the same query with another term for `key`, or none where it is empty."""
        rest = (token for token in tokens_of(self.text) if not is_about(token, key))
        return " ".join(filter(None, [*rest, value]))

    def stateless(self, states: tuple[str, ...] = ()) -> "TaskQuery":
        """The same query for any state, or for all of `states`."""
        return replace(self, text="", state=Values(states))

    def anything(self) -> "TaskQuery":
        """The same query for any state, agent and type: what the counts beside the list count."""
        return replace(self.stateless(), agent=ANY, type=ANY)


def parse(text: str, *, states: tuple[str, ...] = TASK_STATES) -> TaskQuery:
    """The query in `text`; never fails."""
    text = clean(text)
    known = {"state": states, "reason": REASONS if states is TASK_STATES else ()}
    found: dict[str, Values] = {}
    bounds: dict[str, int] = {}
    problems: list[str] = []
    words: list[str] = []
    for match in TOKEN.finditer(text):
        key = match["key"]
        if key not in KEYS:
            words.append(match["words"] if match["words"] is not None else match[0])
        elif key == "attempts":
            bounds |= bounds_of(match["value"], problems)
        else:
            names = values_of(match["value"], key, known.get(key, ()), problems)
            found[key] = merged(found.get(key, ANY), names, unwanted=bool(match["minus"]))
    ids, rest = ids_and_words(words, problems)
    return TaskQuery(
        text=text,
        **found,
        attempts_over=bounds.get(">"),
        attempts_under=bounds.get("<"),
        ids=ids,
        words=rest,
        problems=tuple(problems),
    )


def bounds_of(value: str, problems: list[str]) -> dict[str, int]:
    """How many attempts there were, as {">": number} or {"<": number}."""
    match = BOUND.fullmatch(value)
    if match is None:
        problems.append(f"“attempts:{value}” is no number: write attempts:>1 or attempts:<3.")
        return {}
    return {match["op"]: int(match["number"])}
