"""Describe answers and their results in words (pure)."""

from dataclasses import dataclass

from dashboard.wording.badges import ANSWER_ICONS
from dashboard.wording.formatting import counted
from ledger.models import Instruction
from ledger.states import InstructionState, TaskState
from retries.escalations.answer_outcome import TaskOutcome, outcome_of
from retries.models import Escalation
from retries.states import Answer, EscalationState, OnExpiry, PermissionState, Reason


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """A sentence about an answer, `who` `did`, and its `result`, if anything was sent."""

    who: str
    did: str
    icon: str
    result: str = ""
    tone: str = ""


NO_ANSWER = "No answer"
# the result of an answer about an instruction, by the state of the sent instruction
INSTRUCTION_RESULTS = {
    InstructionState.QUEUED: "Queued",
    InstructionState.DELIVERED: "Delivered, no answer yet",
    InstructionState.ACKNOWLEDGED: "Acknowledged",
    InstructionState.FAILED: "Ignored again",
    InstructionState.CANCELLED: "Cancelled since",
}
INSTRUCTION_TONES = {InstructionState.ACKNOWLEDGED: "green", InstructionState.FAILED: "red"}
TASK_TONES = {TaskState.DONE: "green", TaskState.FAILED: "red"}
TASK_ANSWERS = {
    Answer.ANSWER: "answered",
    Answer.FIX: "sent a fix",
    Answer.RETRY: "granted a retry",
    Answer.SKIP: "skipped it",
    Answer.ABORT: "aborted it",
    Answer.ACCEPT: "accepted it as done",
    Answer.GRANT: "granted more of the budget",
}
PERMISSION_ANSWERS = {Answer.ALLOW: "allowed the call once", Answer.DENY: "denied the call"}
ABORTED_PLAN = "aborted its plan"
EXPIRED = {
    OnExpiry.RETRY: ", so the task resumed",
    OnExpiry.SKIP: ", so the task was skipped",
    OnExpiry.ABORT: ", so the task was aborted",
    OnExpiry.FAIL: ", so the task failed",
    OnExpiry.TERMINAL: ", so nothing was allowed here",
}
TASK_CONFIRMATIONS = {
    Answer.FIX: "The task gets one more attempt with your message.",
    Answer.RETRY: "The task gets another round of attempts.",
    Answer.SKIP: "Skipped.",
    Answer.ABORT: "Aborted. The task will not run again.",
    Answer.ANSWER: "The agent continues with your answer.",
    Answer.ACCEPT: "The task is done.",
    Answer.GRANT: "The budget has more, and the task is queued.",
}
PLAN_ABORTED = "The whole plan is aborted. Running tasks are told to stop."


def describe_outcome(escalation: Escalation, aftermath: TaskOutcome | None = None) -> AnswerOutcome:
    """Describe the answer to a closed escalation."""
    # `aftermath` is given if another row has taken the task's place.
    if escalation.action is None:
        return describe_unanswered(escalation)
    action, sent = Answer(escalation.action), escalation.resent_as
    who = escalation.answered_by_name or escalation.answered_by_type
    if escalation.permission_id:
        tone = "green" if action == Answer.ALLOW else "red"
        return AnswerOutcome(who, PERMISSION_ANSWERS[action], ANSWER_ICONS[action], "", tone)
    if task := escalation.task:
        asked_again = getattr(escalation, "asked_again", None)
        result, tone = describe_task_result(
            action, aftermath or outcome_of(task, asked_again=asked_again)
        )
        ends_plan = action == Answer.ABORT and task.plan_id
        did = ABORTED_PLAN if ends_plan else TASK_ANSWERS[action]
        return AnswerOutcome(who, did, ANSWER_ICONS[action], result, tone)
    return AnswerOutcome(
        who=who,
        did=describe_instruction_answer(action, escalation.cancelled),
        icon=ANSWER_ICONS[action],
        result=describe_resent(sent) if sent else "",
        tone=INSTRUCTION_TONES.get(InstructionState(sent.state), "") if sent else "",
    )


def describe_unanswered(escalation: Escalation) -> AnswerOutcome:
    match escalation.state:
        case EscalationState.EXPIRED:
            then = EXPIRED[OnExpiry(escalation.on_expiry or "")]
            return AnswerOutcome(NO_ANSWER, f"came in time{then}", "clock", tone="red")
        case EscalationState.WITHDRAWN if request := escalation.permission:
            if request.state == PermissionState.ANSWERED_THERE:
                return AnswerOutcome("A person at the terminal", "answered first", "f-exec")
            return AnswerOutcome(escalation.agent.name, "no longer asks", "s-aborted")
        case EscalationState.WITHDRAWN if escalation.reason == Reason.BUDGET_USED:
            return AnswerOutcome(NO_ANSWER, "was needed: the budget has room again", "s-aborted")
        case EscalationState.WITHDRAWN if escalation.question and not escalation.is_of_checkpoint:
            return AnswerOutcome(escalation.agent.name, "no longer needs an answer", "s-aborted")
    return AnswerOutcome(NO_ANSWER, "was needed: the task ended first", "s-aborted")


def describe_task_result(action: Answer, aftermath: TaskOutcome) -> tuple[str, str]:
    result = aftermath.describe(action)
    if not result:
        return "", ""
    if aftermath.asked_again is not None:
        return result, "red"
    return result, TASK_TONES.get(TaskState(aftermath.state), "")


def describe_instruction_answer(action: Answer, cancelled: int | None) -> str:
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
        case Answer.ACCEPT:
            return "accepted it"
        case Answer.GRANT:
            return "granted more"
        case Answer.ALLOW | Answer.DENY:
            return PERMISSION_ANSWERS[action]


def describe_resent(sent: Instruction) -> str:
    if sent.state == InstructionState.ACKNOWLEDGED and sent.outcome == "declined":
        return "Declined"
    return INSTRUCTION_RESULTS[InstructionState(sent.state)]


def confirm_answer(escalation: Escalation) -> str:
    if escalation.task and escalation.task.plan_id and escalation.action == Answer.ABORT:
        return PLAN_ABORTED
    if escalation.reason == Reason.BUDGET_USED and escalation.action == Answer.RETRY:
        return "The task is queued at the old limit: it waits until the budget has room."
    if escalation.task_id and escalation.action:
        return TASK_CONFIRMATIONS[Answer(escalation.action)]
    match escalation.action:
        case Answer.ALLOW:
            return f"Allowed once. {escalation.agent.name} makes the call."
        case Answer.DENY:
            return f"Denied. {escalation.agent.name} does not make the call."
        case Answer.FIX | Answer.RETRY if not was_sent_for(escalation):
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


def was_sent_for(escalation: Escalation) -> bool:
    # An identical instruction may have been in the queue already; it was not sent for this answer.
    sent = escalation.resent_as
    return sent is not None and sent.resend_of_id == escalation.instruction_id
