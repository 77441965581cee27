"""What a person answered and what came of it, in words (pure)."""

from dataclasses import dataclass

from dashboard.badges import ANSWER_ICONS
from dashboard.formatting import counted
from ledger.models import Instruction
from ledger.states import InstructionState, TaskState
from retries.escalations.answer_outcome import Aftermath, here
from retries.models import Escalation
from retries.states import Answer, EscalationState, OnExpiry


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an answer is told: `who` `did`, and `came` of it (nothing where nothing was sent)."""

    who: str
    did: str
    icon: str
    came: str = ""
    tone: str = ""


CAME = {
    InstructionState.QUEUED: "Queued",
    InstructionState.DELIVERED: "Delivered, no answer yet",
    InstructionState.ACKNOWLEDGED: "Acknowledged",
    InstructionState.FAILED: "Ignored again",
    InstructionState.CANCELLED: "Cancelled since",
}
TONES = {InstructionState.ACKNOWLEDGED: "green", InstructionState.FAILED: "red"}
ABORTED_PLAN = "aborted its plan"
DID_TO_TASK = {
    Answer.ANSWER: "answered",
    Answer.FIX: "sent a fix",
    Answer.RETRY: "granted a retry",
    Answer.SKIP: "skipped it",
    Answer.ABORT: "aborted it",
}
TONES_OF_TASK = {TaskState.DONE: "green", TaskState.FAILED: "red"}
DONE_TO_TASK = {
    Answer.FIX: "The task gets one more attempt with your message.",
    Answer.RETRY: "The task gets another round of attempts.",
    Answer.SKIP: "Skipped.",
    Answer.ABORT: "Aborted. The task will not run again.",
    Answer.ANSWER: "The agent continues with your answer.",
}
PLAN_ABORTED = "The whole plan is aborted. Running tasks are told to stop."


def verdict(escalation: Escalation, since: Aftermath | None = None) -> Verdict:
    """The answer to a closed one; `since` is what came of it where another row has taken its
    task's place."""
    if escalation.action is None:
        return unanswered(escalation)
    action, sent = Answer(escalation.action), escalation.resent_as
    who = escalation.answered_by_name or escalation.answered_by_type
    if escalation.task:
        since = since or here(escalation.task, asked_again=getattr(escalation, "asked_again", None))
        said, tone = came_of_task(action, since)
        is_of_plan = action == Answer.ABORT and escalation.task.plan_id
        did_so = ABORTED_PLAN if is_of_plan else DID_TO_TASK[action]
        return Verdict(who, did_so, ANSWER_ICONS[action], said, tone)
    return Verdict(
        who=who,
        did=did(action, escalation.cancelled),
        icon=ANSWER_ICONS[action],
        came=came(sent) if sent else "",
        tone=TONES.get(InstructionState(sent.state), "") if sent else "",
    )


def unanswered(escalation: Escalation) -> Verdict:
    """One that was closed without an answer."""
    match escalation.state:
        case EscalationState.EXPIRED:
            then = EXPIRED[OnExpiry(escalation.on_expiry or "")]
            return Verdict("No answer", f"came in time{then}", "clock", tone="red")
        case EscalationState.WITHDRAWN if escalation.question and not escalation.is_of_checkpoint:
            return Verdict(escalation.agent.name, "no longer needs an answer", "s-aborted")
    return Verdict("No answer", "was needed: the task ended first", "s-aborted")


EXPIRED = {
    OnExpiry.RETRY: ", so the task resumed",
    OnExpiry.SKIP: ", so the task was skipped",
    OnExpiry.ABORT: ", so the task was aborted",
    OnExpiry.FAIL: ", so the task failed",
}


def came_of_task(action: Answer, since: Aftermath) -> tuple[str, str]:
    """What the attempts after the answer did, and its tone; nothing where none was to come."""
    came = since.told(action)
    if not came:
        return "", ""
    bad = since.asked_again is not None
    return came, "red" if bad else TONES_OF_TASK.get(TaskState(since.state), "")


def did(action: Answer, cancelled: int | None) -> str:
    match action:
        case Answer.FIX:
            return "sent a new message"
        case Answer.RETRY:
            return "sent it again"
        case Answer.SKIP:
            return "left it as is"
        case Answer.ABORT:
            return f"cancelled {counted(cancelled or 0, 'instruction')}"
        case Answer.ANSWER:
            return "answered"


def came(sent: Instruction) -> str:
    """What became of what was sent again."""
    if sent.state == InstructionState.ACKNOWLEDGED and sent.outcome == "declined":
        return "Declined"
    return CAME[InstructionState(sent.state)]


def done(escalation: Escalation) -> str:
    """The sentence for whoever has just answered."""
    if escalation.task and escalation.task.plan_id and escalation.action == Answer.ABORT:
        return PLAN_ABORTED
    if escalation.task_id and escalation.action:
        return DONE_TO_TASK[Answer(escalation.action)]
    match escalation.action:
        case Answer.FIX | Answer.RETRY if not is_of_this(escalation):
            return "The same message was already queued, so nothing was sent twice."
        case Answer.FIX:
            return "Your message is first in the queue."
        case Answer.RETRY:
            return "Sent again, first in the queue."
        case Answer.SKIP:
            return "Left as is. Nothing was sent."
    if not escalation.cancelled:
        return "Nothing was pending, so nothing was cancelled."
    were = "was" if escalation.cancelled == 1 else "were"
    return f"{counted(escalation.cancelled, 'instruction')} {were} cancelled."


def is_of_this(escalation: Escalation) -> bool:
    """Whether the instruction was sent for this answer: one of the same words answers for it."""
    sent = escalation.resent_as
    return sent is not None and sent.resend_of_id == escalation.instruction_id
