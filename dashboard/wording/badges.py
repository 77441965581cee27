"""The label, icon and CSS class of each state, urgency and answer, in one place."""

from dataclasses import dataclass

from ledger.models.plan import PlanState
from ledger.models.standing_instruction import RuleState
from ledger.states import (
    BlockedReason,
    BreakerState,
    FailureType,
    InstructionState,
    Outcome,
    Proof,
    TaskState,
    Urgency,
    urgency_of,
)
from retries.models.notification_delivery import DeliveryState
from retries.states import Answer, PatternState, Reason


@dataclass(frozen=True, slots=True)
class Badge:
    """A label, a symbol of icons.svg and a CSS class."""

    label: str
    icon: str
    css: str


STATES = {
    InstructionState.QUEUED: Badge("Queued", "s-queued", "st--queued"),
    InstructionState.DELIVERED: Badge("Delivered", "s-delivered", "st--delivered"),
    InstructionState.ACKNOWLEDGED: Badge("Acknowledged", "s-acked", "st--acked"),
    InstructionState.FAILED: Badge("Gave up", "s-failed", "st--gaveup"),
    InstructionState.CANCELLED: Badge("Cancelled", "s-aborted", "st--aborted"),
}
TASK_STATES = {
    TaskState.QUEUED: Badge("Queued", "s-queued", "st--queued"),
    TaskState.RUNNING: Badge("Running", "s-running", "st--running"),
    TaskState.RETRY: Badge("Retry", "s-retry", "st--retry"),
    TaskState.BLOCKED: Badge("Blocked", "s-blocked", "st--blocked"),
    TaskState.ESCALATED: Badge("Needs you", "s-escalated", "st--escalated"),
    TaskState.DONE: Badge("Done", "s-done", "st--done"),
    TaskState.FAILED: Badge("Failed", "s-failed", "st--failed"),
    TaskState.SKIPPED: Badge("Skipped", "s-skipped", "st--skipped"),
    TaskState.ABORTED: Badge("Aborted", "s-aborted", "st--aborted"),
}
PROOFS = {
    Proof.PROVEN: Badge("Proven", "check", "chip--green"),
    Proof.STALE: Badge("Stale", "clock", "chip--amber"),
    Proof.CLAIMED: Badge("Claimed", "ear", "chip--line"),
    Proof.PERSON: Badge("By a person", "person", ""),
}
PLAN_STATES = {
    PlanState.ACTIVE: Badge("Active", "play", "st--active"),
    PlanState.PAUSED: Badge("Paused", "pause", "st--paused"),
    PlanState.COMPLETED: Badge("Completed", "s-done", "st--done"),
    PlanState.ABORTED: Badge("Aborted", "s-aborted", "st--aborted"),
}
RULE_STATES = {
    RuleState.ACTIVE: Badge("On", "play", "st--closed"),
    RuleState.PAUSED: Badge("Paused", "pause", "st--paused"),
    RuleState.DRAFT: Badge("Draft", "pen", "st--queued"),
    RuleState.RETIRED: Badge("Retired", "trash", "st--aborted"),
}
DELIVERY_STATES = {
    DeliveryState.PENDING: Badge("Pending", "s-queued", "st--queued"),
    DeliveryState.RETRYING: Badge("Retrying", "s-retry", "st--retry"),
    DeliveryState.DELIVERED: Badge("Delivered", "s-done", "st--done"),
    DeliveryState.GAVE_UP: Badge("Gave up", "s-failed", "st--failed"),
    DeliveryState.NOT_SENT: Badge("Not sent", "s-skipped", "st--skipped"),
    DeliveryState.HELD: Badge("Held back", "pause", "st--queued"),
    DeliveryState.SUMMARIZED: Badge("In a summary", "s-skipped", "st--skipped"),
}
BREAKER_STATES = {
    BreakerState.CLOSED: Badge("Closed", "c-closed", "st--closed"),
    BreakerState.OPEN: Badge("Open", "c-open", "st--open"),
    BreakerState.HALF_OPEN: Badge("Half open", "c-half", "st--half"),
}
PATTERN_STATES = {
    PatternState.OPEN: Badge("Open", "n-patterns", "st--calm"),
    PatternState.REGRESSED: Badge("Came back", "undo", "st--failed"),
    PatternState.IGNORED: Badge("Ignored", "s-skipped", "st--skipped"),
    PatternState.RESOLVED: Badge("Resolved", "s-done", "st--done"),
}
# derived from a session's row, most urgent first; a good state is gray
SESSION_STATES = {
    "failed": Badge("Batch failed", "s-failed", "st--failed"),
    "processing": Badge("Processing", "s-running", "st--running"),
    "buffering": Badge("Buffering", "clock", "st--queued"),
    "up-to-date": Badge("Up to date", "check", "st--calm"),
    "stored": Badge("Stored only", "file", "st--blocked"),
}
BATCH_STATES = {
    "running": Badge("Processing", "s-running", "st--running"),
    "success": Badge("Processed", "s-done", "st--done"),
    "failed": Badge("Failed", "s-failed", "st--failed"),
    "lost": Badge("Worker lost", "s-aborted", "st--failed"),
}
# the outcomes of attempts that did not fail
OUTCOME_LABELS = {
    Outcome.SUCCESS: "done",
    Outcome.RELEASED: "released",
    Outcome.BLOCKED: str(BlockedReason.REPORTED.label),
    Outcome.ESCALATED: "escalated",
    Outcome.ABORTED: "aborted",
}
FAILURE_ICONS = {
    FailureType.EXECUTION_ERROR: "f-exec",
    FailureType.VERIFICATION_FAILED: "f-verify",
    FailureType.TIMEOUT: "f-timeout",
    FailureType.ARCHITECT_REJECTED: "f-architect",
}
# the labels and icons of escalations
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
    Reason.NEEDS_PERMISSION: ("Needs permission", "f-permission"),
    Reason.NO_RETRY_HELPS: ("A retry can’t help", "s-escalated"),
    Reason.SAME_FAILURE_AGAIN: ("Same failure again", "s-escalated"),
    Reason.UNPROVEN: ("Done without proof", "ear"),
    Reason.PERMISSION_REQUEST: ("May I?", "f-permission"),
    Reason.BUDGET_USED: ("Budget used up", "clock"),
}
ANSWER_ICONS = {
    Answer.FIX: "pen",
    Answer.RETRY: "s-retry",
    Answer.SKIP: "s-skipped",
    Answer.ABORT: "s-aborted",
    Answer.ANSWER: "pen",
    Answer.ACCEPT: "check",
    Answer.ALLOW: "check",
    Answer.DENY: "x",
    Answer.GRANT: "plus",
}
URGENCIES = {
    Urgency.FIRST: Badge("First delivery", "u-0", ""),
    Urgency.AGAIN: Badge("Again", "u-again", "urg--again"),
    Urgency.IMPORTANT: Badge("IMPORTANT", "u-1", "urg--1"),
    Urgency.URGENT: Badge("URGENT", "u-2", "urg--2"),
}
# icons of coding agents' tools
TOOL_ICONS = {
    **dict.fromkeys(
        ("Bash", "shell", "exec_command", "local_shell", "shell_command", "KillShell"), "f-exec"
    ),
    **dict.fromkeys(("Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch"), "pen"),
    **dict.fromkeys(("Read", "NotebookRead", "Glob", "Grep", "LS"), "tool-read"),
    **dict.fromkeys(("WebFetch", "WebSearch"), "link"),
    "AskUserQuestion": "help",
    "ExitPlanMode": "n-plans",
}
GAVE_UP = Badge("Gave up", "u-3", "urg--3")


def state_badge(state: str) -> Badge:
    return STATES[InstructionState(state)]


def task_badge(state: str) -> Badge:
    return TASK_STATES[TaskState(state)]


def proof_badge(proof: str) -> Badge:
    return PROOFS[Proof(proof)]


def plan_badge(state: str) -> Badge:
    return PLAN_STATES[PlanState(state)]


def delivery_badge(state: str) -> Badge:
    return DELIVERY_STATES[DeliveryState(state)]


def rule_badge(state: str) -> Badge:
    return RULE_STATES[RuleState(state)]


def breaker_badge(state: str) -> Badge:
    return BREAKER_STATES[BreakerState(state)]


def pattern_badge(state: str) -> Badge:
    return PATTERN_STATES[PatternState(state)]


def session_badge(state: str) -> Badge:
    return SESSION_STATES[state]


def batch_badge(state: str) -> Badge:
    return BATCH_STATES[state]


def outcome_label(outcome: str | None) -> str:
    """Return how an attempt ended, or an empty string if it failed or has not ended."""
    return OUTCOME_LABELS.get(Outcome(outcome), "") if outcome else ""


def failure_icon(type: str) -> str:
    return FAILURE_ICONS[FailureType(type)]


def escalation_icon(reason: str, failure_type: str | None) -> str:
    # The icon of the last failure may say more than that of the reason.
    _, icon = REASON_LABELS[Reason(reason)]
    return failure_icon(failure_type) if failure_type and icon == "s-escalated" else icon


def tool_icon(tool: str) -> str:
    """Return the icon of a coding agent's tool.

    >>> tool_icon("Bash"), tool_icon("mcp__mail__send")
    ('f-exec', 'plug')
    """
    return "plug" if tool.startswith("mcp__") else TOOL_ICONS.get(tool, "f-permission")


def urgency_badge(retry_count: int, *, gave_up: bool = False) -> Badge:
    # Three bars mean that Tenfour gave up.
    badge = URGENCIES[urgency_of(retry_count)]
    return Badge(badge.label, GAVE_UP.icon, GAVE_UP.css) if gave_up else badge
