"""The labels of the inbox: groups, quick filters, and orders."""

from dashboard.escalations.inbox.selection import ASKS, CONFLICT, MAY_I, NO_ANSWER, SINGLES
from dashboard.wording.badges import REASON_LABELS as REASON_LABELS

KINDS = {
    MAY_I: "May I?",
    ASKS: "Questions from agents",
    NO_ANSWER: "No acknowledgment",
    CONFLICT: "Conflicting requirements",
    SINGLES: "One of a kind",
}
# quick filters: the term, its label, its icon
CHIPS = (
    ("opened:1h", "New in the last hour", ""),
    ("severity:high", "High", ""),
    ("reason:may-i", "May I?", "f-permission"),
    ("reason:failed", "Failed", "s-escalated"),
    ("reason:permission", "Permission denied", "shield"),
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
    "severity": "What just broke",
    "growth": "Most in the last hour",
    "size": "Largest group",
    "seen": "Last seen",
    "waiting": "Most tasks waiting",
    "oldest": "Oldest first",
    "newest": "Newest first",
    "pattern": "Pattern, A to Z",
}
