"""What a person answered and what came of it, in words (pure)."""

from dataclasses import dataclass

from dashboard.words import counted
from ledger.models import Instruction
from ledger.states import InstructionState, TaskState
from retries.models import Escalation
from retries.states import Answer

State = InstructionState


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an answer is told: `who` `did`, and `came` of it (nothing where nothing was sent)."""

    who: str
    did: str
    icon: str
    came: str = ""
    tone: str = ""


SENT_AGAIN = (Answer.FIX, Answer.RETRY)
ICONS = {
    Answer.FIX: "pen",
    Answer.RETRY: "s-retry",
    Answer.SKIP: "s-skipped",
    Answer.ABORT: "s-aborted",
}
CAME = {
    State.QUEUED: "It waits to be delivered",
    State.DELIVERED: "Delivered, not answered yet",
    State.ACKNOWLEDGED: "Heeded",
    State.FAILED: "Ignored again",
    State.CANCELLED: "Withdrawn since",
}
TONES = {State.ACKNOWLEDGED: "green", State.FAILED: "red"}
DID_TO_TASK = {
    Answer.FIX: "sent a fix",
    Answer.RETRY: "granted another round",
    Answer.SKIP: "skipped it",
    Answer.ABORT: "aborted it",
}
CAME_OF_TASK = {
    TaskState.QUEUED: "It waits for its agent",
    TaskState.RETRY: "It waits for its agent",
    TaskState.RUNNING: "It runs",
    TaskState.BLOCKED: "Blocked again",
    TaskState.ESCALATED: "Needs a person again",
    TaskState.DONE: "Done",
    TaskState.FAILED: "Failed",
}
TONES_OF_TASK = {TaskState.DONE: "green", TaskState.ESCALATED: "red", TaskState.FAILED: "red"}
DONE_TO_TASK = {
    Answer.FIX: "It is queued for one more attempt, with your words.",
    Answer.RETRY: "It is queued for another round of attempts.",
    Answer.SKIP: "Skipped. What depends on it goes on.",
    Answer.ABORT: "Aborted. It does not run again.",
}


def verdict(escalation: Escalation) -> Verdict:
    """The answer to a closed one."""
    if escalation.action is None:
        return Verdict("Nobody", f"answered: it is {escalation.state}", "info")
    action, sent = Answer(escalation.action), escalation.resent_as
    who = escalation.answered_by_name or escalation.answered_by_type
    if escalation.task:
        state = TaskState(escalation.task.state)
        said, tone = CAME_OF_TASK.get(state, ""), TONES_OF_TASK.get(state, "")
        return Verdict(who, DID_TO_TASK[action], ICONS[action], said, tone)
    return Verdict(
        who=who,
        did=did(action, escalation.cancelled),
        icon=ICONS[action],
        came=came(sent) if sent else "",
        tone=TONES.get(State(sent.state), "") if sent else "",
    )


def did(action: Answer, cancelled: int | None) -> str:
    match action:
        case Answer.FIX:
            return "sent other words"
        case Answer.RETRY:
            return "sent it again"
        case Answer.SKIP:
            return "left it"
        case Answer.ABORT:
            return f"withdrew {counted(cancelled or 0, 'instruction')}"
        case Answer.ANSWER:
            return "answered"


def came(sent: Instruction) -> str:
    """What became of what was sent again."""
    if sent.state == State.ACKNOWLEDGED and sent.outcome == "declined":
        return "Declined"
    return CAME[State(sent.state)]


def done(escalation: Escalation) -> str:
    """The sentence for whoever has just answered."""
    if escalation.task_id and escalation.action:
        return DONE_TO_TASK[Answer(escalation.action)]
    match escalation.action:
        case Answer.FIX | Answer.RETRY if not is_of_this(escalation):
            return "These very words were waiting already: nothing was sent twice."
        case Answer.FIX:
            return "Your words are first in the queue."
        case Answer.RETRY:
            return "Sent again, first in the queue."
        case Answer.SKIP:
            return "Left as it is. Nothing was sent."
    if not escalation.cancelled:
        return "Nothing waited, so nothing was withdrawn."
    were = "was" if escalation.cancelled == 1 else "were"
    return f"{counted(escalation.cancelled, 'instruction')} {were} withdrawn."


def is_of_this(escalation: Escalation) -> bool:
    """Whether the instruction was sent for this answer: one of the same words answers for it."""
    sent = escalation.resent_as
    return sent is not None and sent.resend_of_id == escalation.instruction_id
