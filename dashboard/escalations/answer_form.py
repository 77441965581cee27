"""Read a posted answer, submit or undo it, and return the panel's reply."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from ledger.errors import Invalid, InvalidTransition, VersionMismatch
from ledger.journal import person, stamp_of
from ledger.values.text import normalize_newlines
from retries.escalations import answering, choices, typed_answers
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired, UndoTooLate
from retries.escalations.options import Option, list_options
from retries.escalations.response_schema import ANSWER_POINTER, parse_values
from retries.models import Escalation
from retries.states import TEXT_ANSWERS, Answer, Dependents

FIELD_PREFIX = "response."
WITH_VALUES = (Answer.ANSWER, Answer.ALLOW)  # where the question asks for them


@dataclass(frozen=True, slots=True)
class Reply:
    """The panel's reply to a posted answer; empty if none was posted."""

    status: int = 200
    message: str = ""  # as typed
    values: dict[str, str] | None = None  # typed into the fields of a response schema
    field: str = ""  # the field whose value is invalid
    error: str = ""  # the problem with the message or the field
    warning: str = ""  # the reason why nothing was changed
    question: Option | None = None  # the option to confirm
    is_done: bool = False
    is_late: bool = False  # the escalation was closed before
    is_own: bool = False  # by the same person

    @property
    def unsent(self) -> str:
        """The message, if it was not sent and the form is gone."""
        return self.message if self.is_late or self.is_done or self.question else ""


NO_REPLY = Reply()


def submit_answer(request: HttpRequest, escalation: Escalation, *, now: datetime) -> Reply:
    """Submit the posted answer unless it is invalid, is late, or needs a confirmation."""
    message = read_message(request)
    # a known fix that was filled in and not changed does not count as typed
    typed = "" if message == read_message(request, "filled") else message
    if request.POST.get("action") not in Answer.values:
        return Reply(422, message, warning="Choose an answer. Nothing was changed.")
    values = read_values(request)
    action = Answer(request.POST["action"])
    question = find_question(escalation, action)
    if question and "confirmed" not in request.POST:
        return Reply(200, typed, question=question)
    try:
        answering.answer(
            escalation.pk,
            read_choice(request, action, message, values, schema=escalation.response_schema),
            among=Escalation.objects.all(),
            stamp=stamp_of(request, now),
            channel="page",
            version=read_version(request),
            undo_for=timedelta(seconds=settings.TENFOUR["UNDO_SECONDS"]),
        )
    except AlreadyResolved as refusal:
        first = refusal.more["resolution"] or {}
        is_own = first.get("by", {}).get("name") == person(request.user).name
        return Reply(409, typed, is_late=True, is_own=is_own)
    except EscalationExpired:
        return Reply(409, typed, is_late=True)
    except VersionMismatch:
        warning = (
            "The escalation changed while you were answering. Review it and send your answer again."
        )
        # The form keeps what the person typed.
        return Reply(412, message, values=values, warning=warning)
    except InvalidTransition as refusal:
        return Reply(409, message, warning=f"{refusal.detail} Nothing was changed.")
    except Invalid as refusal:
        place, _, field = refusal.more["errors"][0]["pointer"].rpartition("/")
        field = field if place == ANSWER_POINTER else ""
        return Reply(422, message, values=values, field=field, error=refusal.detail)
    return Reply(message="" if action in TEXT_ANSWERS else typed, is_done=True)


def undo_answer(request: HttpRequest, escalation: Escalation, *, now: datetime) -> Reply:
    try:
        answering.undo(escalation.pk, among=Escalation.objects.all(), stamp=stamp_of(request, now))
    except UndoTooLate:
        who = "the agent already has the answer"
        late = who if escalation.permission_id else "the task has already continued"
        return Reply(409, warning=f"Too late to undo: {late}.")
    if escalation.answered_by_id == person(request.user).id:
        escalation = typed_answers.reveal(escalation)
    return Reply(message=escalation.fix, warning="Answer undone. The escalation is open again.")


def read_choice(
    request: HttpRequest,
    action: Answer,
    message: str,
    values: dict[str, str],
    *,
    schema: dict[str, Any] | None,
) -> Choice:
    # The dependents of a skipped task continue by default.
    wanted = request.POST.get("dependents", "") if action == Answer.SKIP else ""
    return Choice(
        action,
        fix=message if action in TEXT_ANSWERS else "",
        dependents=wanted or Dependents.CONTINUE,
        response=parse_values(schema, values) if schema and action in WITH_VALUES else None,
    )


def read_message(request: HttpRequest, name: str = "fix") -> str:
    # browsers end lines with CR LF
    return normalize_newlines(request.POST.get(name, ""))


def read_values(request: HttpRequest) -> dict[str, str]:
    names = (name for name in request.POST if name.startswith(FIELD_PREFIX))
    return {name.removeprefix(FIELD_PREFIX): request.POST[name] for name in names}


def compose_message(request: HttpRequest, escalation: Escalation) -> str:
    """Return the text that the agent would receive for the answer as typed so far."""
    message = read_message(request)
    if not escalation.response_schema:
        return message
    values = parse_values(escalation.response_schema, read_values(request))
    return choices.compose_text(message.strip(), values)


def find_question(escalation: Escalation, action: Answer) -> Option | None:
    """Return the option of an answer that has to be confirmed, or None."""
    if not escalation.is_open:
        return None
    return next(
        (each for each in list_options(escalation) if each.name == action and each.confirm), None
    )


def read_version(request: HttpRequest) -> int:
    try:
        return int(request.POST.get("version", ""))
    except ValueError:
        # A form without a version is out of date.
        return -1
