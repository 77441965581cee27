"""An answer that a person gives on the page: read from the form, given, and what came of it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from ledger.errors import Invalid, InvalidTransition, VersionMismatch
from ledger.journal import person
from retries.escalations import answering, choices
from retries.escalations.answering import UndoTooLate
from retries.escalations.choices import Choice
from retries.escalations.lifecycle import AlreadyResolved, EscalationExpired
from retries.escalations.options import Option, options
from retries.escalations.response_schema import ANSWERED, read
from retries.models import Escalation
from retries.states import TEXT_ANSWERS, Answer, Dependents


@dataclass(frozen=True, slots=True)
class Reply:
    """What the panel says to an answer that was just given; nothing where none was."""

    status: int = 200
    words: str = ""  # what was typed
    typed: dict[str, str] | None = None  # in the fields of a question
    field: str = ""  # the one of them that does not fit
    mistake: str = ""  # what is wrong with the words
    warning: str = ""  # why nothing was done
    question: Option | None = None  # what is asked before it is done
    is_done: bool = False
    is_late: bool = False  # it was answered, withdrawn or over before
    is_own: bool = False  # by the very same person

    @property
    def unsent(self) -> str:
        """Words that would be lost."""
        return self.words if self.is_late or self.is_done or self.question else ""


NOTHING_SAID = Reply()
FIELD = "response."


def settle(request: HttpRequest, escalation: Escalation, *, now: datetime) -> Reply:
    """Give the answer that was posted; what came of that."""
    words = words_in(request)
    if request.POST.get("action") not in Answer.values:
        return Reply(422, words, warning="Choose an answer. Nothing was changed.")
    typed = typed_in(request)
    action, actor = Answer(request.POST["action"]), person(request.user)
    question = asked_first(escalation, action)
    if question and "confirmed" not in request.POST:
        return Reply(200, words, question=question)
    try:
        answering.answer(
            escalation.pk,
            choice(request, action, words, typed=typed, schema=escalation.response_schema),
            among=Escalation.objects.all(),
            actor=actor,
            channel="page",
            version=version_of(request),
            undo_for=timedelta(seconds=settings.TENFOUR["UNDO_SECONDS"]),
            now=now,
            request_id=request.id,  # type: ignore[attr-defined]
        )
    except AlreadyResolved as refusal:
        first = refusal.more["resolution"] or {}
        is_own = first.get("by", {}).get("name") == actor.name
        return Reply(409, words, is_late=True, is_own=is_own)
    except EscalationExpired:
        return Reply(409, words, is_late=True)
    except VersionMismatch:
        warning = (
            "The escalation changed while you were answering. Review it and send your answer again."
        )
        return Reply(412, words, typed=typed, warning=warning)
    except InvalidTransition as refusal:
        return Reply(409, words, warning=f"{refusal.detail} Nothing was changed.")
    except Invalid as refusal:
        place, _, field = refusal.more["errors"][0]["pointer"].rpartition("/")
        field = field if place == ANSWERED else ""
        return Reply(422, words, typed=typed, field=field, mistake=refusal.detail)
    return Reply(words="" if action in TEXT_ANSWERS else words, is_done=True)


def choice(
    request: HttpRequest,
    action: Answer,
    words: str,
    *,
    typed: dict[str, str],
    schema: dict[str, Any] | None,
) -> Choice:
    """The answer as it was posted; the dependents of a task that is skipped go on by default."""
    wanted = request.POST.get("dependents", "") if action == Answer.SKIP else ""
    return Choice(
        action,
        fix=words if action in TEXT_ANSWERS else "",
        dependents=wanted or Dependents.CONTINUE,
        response=read(schema, typed) if schema and action == Answer.ANSWER else None,
    )


def take_back(request: HttpRequest, escalation: Escalation, *, now: datetime) -> Reply:
    """Undo the answer; its words stand in the form again."""
    try:
        answering.undo(
            escalation.pk,
            among=Escalation.objects.all(),
            actor=person(request.user),
            now=now,
            request_id=request.id,  # type: ignore[attr-defined]
        )
    except UndoTooLate:
        return Reply(409, warning="Too late to undo: the task has already continued.")
    return Reply(words=escalation.fix, warning="Answer undone. The escalation is open again.")


def words_in(request: HttpRequest) -> str:
    """What was typed; a browser sends lines that end in CR LF."""
    return request.POST.get("fix", "").replace("\r\n", "\n")


def said_in(request: HttpRequest, escalation: Escalation) -> str:
    """What the answer that is being typed would tell the agent."""
    if not escalation.response_schema:
        return words_in(request)
    values = read(escalation.response_schema, typed_in(request))
    return choices.compose_text(words_in(request).strip(), values)


def typed_in(request: HttpRequest) -> dict[str, str]:
    """What was typed into the fields that a question asks for, by their names."""
    names = (name for name in request.POST if name.startswith(FIELD))
    return {name.removeprefix(FIELD): request.POST[name] for name in names}


def asked_first(escalation: Escalation, action: Answer) -> Option | None:
    """The option, where a person is asked again before it is done."""
    if not escalation.is_open:
        return None
    found = {option.name: option for option in options(escalation)}
    return found[action] if action in found and found[action].confirm else None


def version_of(request: HttpRequest) -> int:
    """The version that was on the screen; a form without one is as good as stale."""
    try:
        return int(request.POST.get("version", ""))
    except ValueError:
        return -1
