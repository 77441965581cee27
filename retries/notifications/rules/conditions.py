"""The conditions that rules name, and the events that begin and end them (pure)."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition holds from an event of `begins` to one of `ends`.

    Without `ends` each event stands alone. Events of `reactions` show that a person reacted.
    """

    label: str
    begins: frozenset[str]
    ends: frozenset[str] = frozenset()
    reactions: frozenset[str] = frozenset()

    @property
    def lasts(self) -> bool:
        return bool(self.ends)

    @property
    def kinds(self) -> frozenset[str]:
        return self.begins | self.ends | self.reactions


CONDITIONS = MappingProxyType(
    {
        "escalation": Condition(
            "an escalation opens",
            frozenset({"escalation.opened", "escalation.reopened"}),
            frozenset({"escalation.resolved", "escalation.expired", "escalation.withdrawn"}),
            frozenset({"escalation.assigned", "escalation.commented"}),
        ),
        "breaker": Condition(
            "an agent’s breaker opens",
            frozenset({"agent.breaker_opened"}),
            frozenset({"agent.breaker_closed"}),
        ),
        "agent_silent": Condition(
            "an agent is silent", frozenset({"agent.silent"}), frozenset({"agent.heard"})
        ),
        "agent_waits": Condition(
            "an agent waits at its terminal", frozenset({"agent.needs_attention"})
        ),
        "account_limit": Condition(
            "an account is at its limit", frozenset({"limit.reached"}), frozenset({"limit.ended"})
        ),
        "budget": Condition(
            "a budget is nearly or fully used", frozenset({"budget.near", "budget.reached"})
        ),
        "plan": Condition(
            "a plan is done or stuck", frozenset({"plan.completed", "plan.stuck", "plan.aborted"})
        ),
        "dead_letter": Condition("a task fails permanently", frozenset({"task.failed"})),
        "files_outside": Condition(
            "a report names files outside of its task’s files", frozenset({"task.files_outside"})
        ),
        "instruction_failed": Condition(
            "an instruction is given up", frozenset({"instruction.failed"})
        ),
        "channel_stopped": Condition("a channel stops working", frozenset({"webhook.disabled"})),
    }
)
# what a new project is told of once it has a channel
DEFAULTS = ("escalation", "agent_silent", "breaker", "plan")


def condition_of(name: str) -> Condition:
    # An event's kind is a condition of its own.
    return CONDITIONS.get(name) or Condition(name, frozenset({name}))


def matching(names: list[str], kind: str) -> tuple[str, Condition] | None:
    for name in names:
        condition = condition_of(name)
        if kind in condition.kinds:
            return name, condition
    return None


def passes_filter(patterns: list[str], kind: str) -> bool:
    """Return whether a webhook with this filter gets events of a kind.

    >>> [passes_filter(each, "task.failed") for each in ([], ["task.*"], ["plan.*", "task"])]
    [True, True, False]
    """
    return not patterns or any(fnmatchcase(kind, pattern) for pattern in patterns)
