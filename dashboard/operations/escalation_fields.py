"""The fields of an action on many rows: an answer or a time of escalations, or a person."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Left

from dashboard.escalations.queries import PEOPLE_SHOWN
from dashboard.escalations.snooze_times import SnoozeTime, list_snooze_times
from dashboard.frame.rendering import Visit
from ledger.authorization.permissions import people_who_may
from retries.states import QUESTIONS, Answer
from retries.verbs import escalations
from retries.verbs.verb import Verb

TEXT_SHOWN = 1000  # characters
# a title has only the first line of a command
CALL = Left(
    Coalesce(
        KeyTextTransform("command", "permission__input"),
        KeyTextTransform("cmd", "permission__input"),
        Cast("permission__input", TextField()),
    ),
    TEXT_SHOWN,
)


@dataclass(frozen=True, slots=True)
class EscalationFields:
    """The fields of a verb's form; all others are empty."""

    actions: list[tuple[str, str, bool]]
    text: str = ""  # the question, the instruction or the call, if all have the same
    calls: int = 0  # permission requests among them, which take different answers
    others: int = 0
    choices: tuple[str, ...] = ()  # the choices that their question offers
    times: tuple[SnoozeTime, ...] = ()
    people: tuple[str, ...] = ()

    @property
    def takes_focus(self) -> bool:
        return bool(self.actions or self.times or self.people)


def read_fields(verb: Verb, rows: QuerySet[Any], visit: Visit) -> EscalationFields:
    if verb is escalations.SNOOZE:
        return EscalationFields([], times=tuple(list_snooze_times(visit.now)))
    if "user" in verb.takes:
        return EscalationFields([], people=list_people(verb, rows))
    if verb is not escalations.ANSWER:
        return EscalationFields([])
    return read_answer(rows.order_by(), visit.request.POST.get("action", ""))


def read_answer(rows: QuerySet[Any], given: str) -> EscalationFields:
    asking = rows.filter(reason__in=QUESTIONS)
    of_questions = asking.exists()
    calls = rows.exclude(permission=None).count()
    others = rows.filter(permission=None)
    of_others = others.count()
    others = others.exclude(reason__in=QUESTIONS)
    of_tasks, of_instructions = (
        others.filter(**{f"{name}__isnull": False}).exists() for name in ("task", "instruction")
    )
    labels: dict[str, str] = {}
    if calls:
        labels |= {Answer.ALLOW: "Allow the calls once", Answer.DENY: "Deny the calls"}
    if of_questions:
        labels[Answer.ANSWER] = "Answer the questions"
    if of_tasks:
        labels[Answer.FIX] = "Send a fix and retry"
    again = " or ".join(
        name for name, is_some in (("retry", of_tasks), ("send again", of_instructions)) if is_some
    )
    if of_others:
        labels[Answer.RETRY] = (again or "continue without an answer").capitalize()
    if of_instructions and not of_tasks:
        labels[Answer.FIX] = "Send another text"
    current = given if given in labels else next(iter(labels))
    texts = rows.values_list(
        Left("question", TEXT_SHOWN), Left("instruction__content", TEXT_SHOWN), CALL
    )
    same = list(texts.distinct()[:2])
    offered = list(asking.values_list("choices", flat=True).distinct()[:2])
    return EscalationFields(
        [(name, label, name == current) for name, label in labels.items()],
        text=next(filter(None, (same[0][2], *same[0])), "") if len(same) == 1 else "",
        calls=calls,
        others=of_others,
        choices=tuple(str(each.get("title") or each["name"]) for each in offered[0])
        if len(offered) == 1
        else (),
    )


def list_people(verb: Verb, rows: QuerySet[Any]) -> tuple[str, ...]:
    # Each person can act in every project of the rows.
    projects = verb.narrow(rows).order_by().values_list("project", flat=True).distinct()
    each = [
        set(people_who_may(verb.permission, project).values_list("username", flat=True))
        for project in projects[:PEOPLE_SHOWN]
    ]
    return tuple(sorted(set.intersection(*each))) if each else ()
