"""The labels of the inbox: groups, reasons with their icons, quick filters, and orders."""

from dashboard.escalations.inbox_queries import ASKS, CONFLICT, NO_ANSWER, SINGLES
from retries.states import Reason

KINDS = {
    ASKS: "Questions from agents",
    NO_ANSWER: "No acknowledgment",
    CONFLICT: "Conflicting requirements",
    SINGLES: "One of a kind",
}
REASON_LABELS = {
    Reason.INSTRUCTION_IGNORED: ("No acknowledgment", "ear"),
    Reason.MAX_RETRIES_EXCEEDED: ("Failed every attempt", "s-escalated"),
    Reason.PERMISSION_DENIED: ("Permission denied", "f-permission"),
    Reason.SERVICE_UNAVAILABLE: ("Service unavailable", "broken"),
    Reason.CONFLICTING_REQUIREMENTS: ("Conflicting requirements", "f-conflict"),
    Reason.IMPOSSIBLE: ("Reported as impossible", "s-blocked"),
    Reason.NEEDS_CONFIRMATION: ("Needs a confirmation", "help"),
    Reason.BLOCKED: ("Reported blocked", "s-blocked"),
    Reason.NON_RETRYABLE: ("Not worth a retry", "s-escalated"),
    Reason.RELEASES_EXHAUSTED: ("Put back too often", "s-escalated"),
    Reason.AGENT_QUESTION: ("Asks a question", "help"),
    Reason.QUESTIONS_EXHAUSTED: ("Asks too many questions", "help"),
    Reason.NEEDS_QUOTA: ("Needs quota", "f-permission"),
    Reason.NEEDS_CREDENTIALS: ("Needs credentials", "f-permission"),
    Reason.SAME_FAILURE_AGAIN: ("Same failure again", "s-escalated"),
}
# quick filters: the term, its label, its icon
CHIPS = (
    ("reason:failed", "Failed", "s-escalated"),
    ("reason:permission", "Permission denied", "f-permission"),
    ("reason:asks", "Asks", "help"),
    ("reason:no-answer", "No acknowledgment", "ear"),
    ("reason:conflict", "Conflict", "f-conflict"),
    ("reason:stuck", "Stuck", "s-blocked"),
    ("blocks:yes", "Blocks other tasks", ""),
    ("older:1h", "Older than 1 h", ""),
    ("assignee:me", "Assigned to me", ""),
    ("assignee:none", "Unassigned", ""),
)
GROUP_LABELS = {
    "pattern": "Pattern",
    "reason": "Reason",
    "agent": "Agent",
    "plan": "Plan",
    "none": "No groups",
}
SORT_LABELS = {
    "waiting": "Most tasks waiting",
    "oldest": "Oldest first",
    "newest": "Newest first",
    "pattern": "Pattern, A to Z",
}
