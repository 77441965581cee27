"""The answer panel: the form of an open escalation, or the answer to a closed one."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.escalations.answer_form import NO_REPLY, Reply
from dashboard.escalations.evidence import find_known_fix, suggest_fixes
from dashboard.escalations.outcome import AnswerOutcome, confirm_answer, describe_outcome
from dashboard.escalations.queries import find_listed, read_aftermaths
from dashboard.frame.rendering import Visit
from dashboard.lists.query_box import as_id
from dashboard.wording.badges import ANSWER_ICONS
from retries.escalations import answer_outcome, typed_answers
from retries.escalations.choices import FIX_LENGTH
from retries.escalations.options import Option, list_options
from retries.escalations.record import Record
from retries.escalations.response_schema import Field, list_fields
from retries.failures.fixes.reading import LearnedFix
from retries.failures.fixes.suggestions import FixOffer, suggest
from retries.models import Escalation
from retries.states import Answer

# the key that chooses each answer
KEYS = {
    Answer.FIX: "f",
    Answer.RETRY: "r",
    Answer.SKIP: "s",
    Answer.ABORT: "a",
    Answer.ANSWER: "f",
    Answer.ACCEPT: "d",
    Answer.GRANT: "f",
}


@dataclass(frozen=True, slots=True)
class AnswerButton:
    """An option with its key and icon."""

    option: Option
    key: str
    icon: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """The answers to an open escalation: those that send the message, and the others."""

    send: AnswerButton
    other_sends: list[AnswerButton]
    others: list[AnswerButton]
    suggestions: list[FixOffer]
    for_person: str  # what a person has to do before a retry
    fields: list[Field]
    text: str  # the typed text, or the known fix
    filled: LearnedFix | None  # the known fix, if it is filled in
    secret_warning: str  # about a secret in the text
    max_length: int = FIX_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswer:
    """The answer to a closed escalation and the current state of its task."""

    outcome: AnswerOutcome
    side_effects: str
    task_id: object
    task_state: str
    confirmation: str
    undo_seconds: float | None


def build_form(escalation: Escalation, record: Record | None, reply: Reply) -> AnswerForm:
    buttons = [
        AnswerButton(option, KEYS[option.name], ANSWER_ICONS[option.name])
        for option in list_options(escalation, record)
    ]
    send, *other_sends = [button for button in buttons if button.option.requires_text]
    filled = None
    if record and reply is NO_REPLY and send.option.name == Answer.FIX:
        filled = find_known_fix(record)
    return AnswerForm(
        send=send,
        other_sends=other_sends,
        others=[button for button in buttons if not button.option.requires_text],
        suggestions=suggest_fixes(record) if record else [],
        for_person=suggest(record.failures[0]).for_person if record and record.failures else "",
        fields=list_fields(escalation.response_schema or {}, reply.values),
        text=filled.fix if filled else reply.message,
        filled=filled,
        secret_warning=warn_of_secret(escalation, reply.message),
    )


def warn_of_secret(escalation: Escalation, text: str) -> str:
    """Return the warning about a secret in the text for an answer; empty without one."""
    return typed_answers.find_warning(text, about=typed_answers.name_subject(escalation))


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The answer that a person has just given to another escalation, and how to undo it."""

    escalation: Escalation
    icon: str
    undo_seconds: float


def find_last_answer(visit: Visit) -> LastAnswer | None:
    """Return the answer that the address names, while it can be undone."""
    id = as_id(visit.request.GET.get("answered", ""))
    escalation = find_listed(id) if id else None
    until = find_undo_time(escalation) if escalation and not escalation.is_open else None
    if escalation is None or until is None or until <= visit.now or escalation.action is None:
        return None
    left = round((until - visit.now).total_seconds(), 1)
    return LastAnswer(escalation, ANSWER_ICONS[Answer(escalation.action)], left)


def find_undo_time(escalation: Escalation) -> datetime | None:
    """Return until when the answer can be undone, or None."""
    request = escalation.permission
    # Once an agent has taken the answer, it can't be undone.
    return None if request and request.taken_at else escalation.undo_until


def describe_answer(escalation: Escalation, reply: Reply, *, now: datetime) -> GivenAnswer:
    until = find_undo_time(escalation)
    left = (until - now).total_seconds() if until else 0
    aftermath = read_aftermaths([escalation]).get(escalation.pk)
    state = escalation.task.state if escalation.task else ""
    return GivenAnswer(
        outcome=describe_outcome(escalation, aftermath),
        side_effects=answer_outcome.describe_consequence(escalation),
        task_id=aftermath.task_id if aftermath else escalation.task_id,
        task_state=aftermath.state if aftermath else state,
        confirmation=confirm_answer(escalation) if reply.is_done else "",
        undo_seconds=round(left, 1) if left > 0 else None,
    )
