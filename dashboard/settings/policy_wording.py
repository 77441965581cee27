"""The name, description and figures of each policy, in words (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dashboard.wording.formatting import counted
from ledger.states import EvidenceLevel
from retries.policies.editing import EVIDENCE, EXCLUSIVE_FILES
from retries.states import PolicyScope

SCOPES: dict[str | None, str] = {
    PolicyScope.OFF: "Off",
    PolicyScope.PLANS: "On for tasks of plans",
    PolicyScope.ALL: "On for all tasks",
}
# the scopes as a choice of the form
CHOICES: dict[str, str] = {
    PolicyScope.OFF: "Off",
    PolicyScope.PLANS: "Tasks of plans",
    PolicyScope.ALL: "All tasks",
}
LEVELS: dict[str | None, str] = {
    None: "Recorded; the agent is asked once, at the end of a turn",
    EvidenceLevel.RECORD: "Recorded only",
    EvidenceLevel.ASK: "The agent is asked once, at the end of a turn",
    EvidenceLevel.REQUIRE: "Required",
}
LEVEL_CHOICES: dict[str, str] = {
    EvidenceLevel.RECORD: "Record it",
    EvidenceLevel.ASK: "Ask once",
    EvidenceLevel.REQUIRE: "Require it",
}


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy as the settings page describes it: its choices, and each as a state."""

    name: str
    title: str
    description: str
    choices: Mapping[str, str] = field(default_factory=lambda: CHOICES)
    states: Mapping[str | None, str] = field(default_factory=lambda: SCOPES)


POLICIES = (
    PolicyText(
        "ask_on_same_failure",
        "Ask a person after the same error twice",
        "When both attempts sent their files and none changed in between.",
    ),
    PolicyText(
        "ask_at_once",
        "Ask at once about credentials, quota, and credit",
        "No retry brings back a used-up quota or a missing password.",
    ),
    PolicyText(
        "obey_waits",
        "Wait as long as the error says",
        "Such as “try again in 20s” of a rate limit, at most 15 minutes.",
    ),
    PolicyText(
        EVIDENCE,
        "Ask for proof before a task is done",
        "Proof means that a check passed and that a program saw it pass. If proof is required, a "
        "task without it waits for a person. Plans and tasks can override this policy.",
        LEVEL_CHOICES,
        LEVELS,
    ),
    PolicyText(
        EXCLUSIVE_FILES,
        "Run no two tasks at once that name the same files",
        "Whatever plans and agents they belong to. A plan can override this policy for its tasks.",
    ),
)
BY_NAME = {each.name: each for each in POLICIES}


def describe_minutes(seconds: float) -> str:
    """Return a length of work in whole minutes or hours.

    >>> describe_minutes(7300)
    '2 h'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def describe_lost(lost: int, done: int) -> str:
    """Return the lost successes as part of a sentence.

    >>> describe_lost(1, 1902)
    '1 success of 1,902'
    """
    return f"{counted(lost, 'success', 'successes')} of {done:,}"
