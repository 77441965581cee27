"""The query box of the inbox (pure): `reason:failed severity:high assignee:me older:1h lxml`.

Words without a key are searched in the title, the error, the question and the instruction.
"""

from dataclasses import dataclass
from datetime import timedelta

from dashboard.lists.query_box import ANY, Keys, ListQuery, Names, Values
from dashboard.lists.query_values import Period, read_age, read_period
from retries.states import QUESTIONS, Reason

R = Reason

# the name of a reason in the box -> the reasons it stands for
REASONS: dict[str, tuple[str, ...]] = {
    "failed": (
        R.MAX_RETRIES_EXCEEDED,
        R.NON_RETRYABLE,
        R.NO_RETRY_HELPS,
        R.SAME_FAILURE_AGAIN,
        R.RELEASES_EXHAUSTED,
        R.SERVICE_UNAVAILABLE,
    ),
    "permission": (R.PERMISSION_DENIED, R.NEEDS_PERMISSION, R.NEEDS_CREDENTIALS, R.NEEDS_QUOTA),
    "may-i": (R.PERMISSION_REQUEST,),
    "asks": (*QUESTIONS, R.NEEDS_CONFIRMATION),
    "no-answer": (R.INSTRUCTION_IGNORED,),
    "conflict": (R.CONFLICTING_REQUIREMENTS,),
    "stuck": (R.BLOCKED, R.IMPOSSIBLE),
    **{reason.value: (reason.value,) for reason in Reason},
}
YES = "yes"
SEVERITIES = ("high", "normal", "low")

KEYS: Keys = {
    "reason": Names(tuple(REASONS)),
    "severity": Names(SEVERITIES),
    "agent": Names(),
    "type": Names(),
    "plan": Names(),
    "pattern": Names(),
    "error": Names(),
    "assignee": Names(),
    "older": read_age("older"),
    "opened": read_period("opened"),
    "seen": read_period("seen"),
    "blocks": Names((YES,)),
    "same": Names(),  # the key of a group of equal questions or instructions
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxQuery(ListQuery):
    reason: Values = ANY
    severity: Values = ANY
    agent: Values = ANY
    type: Values = ANY
    plan: Values = ANY
    pattern: Values = ANY
    error: Values = ANY
    assignee: Values = ANY
    blocks: Values = ANY
    same: Values = ANY
    older: timedelta | None = None
    opened: Period | None = None
    seen: Period | None = None


def parse(text: str) -> InboxQuery:
    return InboxQuery.read(text, KEYS)
