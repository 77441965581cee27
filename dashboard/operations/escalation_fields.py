"""The fields of an action on many escalations: their answer, a time, or a person."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left

from dashboard.escalations.queries import PEOPLE_SHOWN
from dashboard.escalations.snooze_times import SnoozeTime, list_snooze_times
from dashboard.frame.rendering import Visit
from ledger.authorization.permissions import people_who_may
from retries.states import QUESTIONS, Answer
from retries.verbs import escalations
from retries.verbs.verb import Verb

TEXT_SHOWN = 1000  # characters


@dataclass(frozen=True, slots=True)
class EscalationFields:
    """What a verb asks for; everything else is empty."""

    actions: list[tuple[str, str, bool]]
    text: str = ""  # the question or the instruction, if all have the same
    choices: tuple[str, ...] = ()  # that their question offers
    times: tuple[SnoozeTime, ...] = ()
    people: tuple[str, ...] = ()

    @property
    def takes_focus(self) -> bool:
        return bool(self.actions or self.times or self.people)


def read_fields(verb: Verb, rows: QuerySet[Any], visit: Visit) -> EscalationFields:
    if verb is escalations.SNOOZE:
        return EscalationFields([], times=tuple(list_snooze_times(visit.now)))
    if verb is escalations.ASSIGN:
        return EscalationFields([], people=list_people(verb, rows))
    if verb is not escalations.ANSWER:
        return EscalationFields([])
    return read_answer(rows.order_by(), visit.request.POST.get("action", ""))


def read_answer(rows: QuerySet[Any], given: str) -> EscalationFields:
    asking = rows.filter(reason__in=QUESTIONS)
    of_questions = asking.exists()
    others = rows.exclude(reason__in=QUESTIONS)
    of_tasks, of_instructions = (
        others.filter(**{f"{name}__isnull": False}).exists() for name in ("task", "instruction")
    )
    labels: dict[str, str] = {}
    if of_questions:
        labels[Answer.ANSWER] = "Answer the questions"
    if of_tasks:
        labels[Answer.FIX] = "Send a fix and retry"
    again = " or ".join(
        name for name, is_some in (("retry", of_tasks), ("send again", of_instructions)) if is_some
    )
    labels[Answer.RETRY] = (again or "continue without an answer").capitalize()
    if of_instructions and not of_tasks:
        labels[Answer.FIX] = "Send another text"
    current = given if given in labels else next(iter(labels))
    texts = rows.values_list(Left("question", TEXT_SHOWN), Left("instruction__content", TEXT_SHOWN))
    same = list(texts.distinct()[:2])
    offered = list(asking.values_list("choices", flat=True).distinct()[:2])
    return EscalationFields(
        [(name, label, name == current) for name, label in labels.items()],
        text=next(filter(None, same[0]), "") if len(same) == 1 else "",
        choices=tuple(str(each.get("title") or each["name"]) for each in offered[0])
        if len(offered) == 1
        else (),
    )


def list_people(verb: Verb, rows: QuerySet[Any]) -> tuple[str, ...]:
    """Return the people to whom the rows of every project can be assigned."""
    projects = verb.narrow(rows).order_by().values_list("project", flat=True).distinct()
    each = [
        set(people_who_may(verb.permission, project).values_list("username", flat=True))
        for project in projects[:PEOPLE_SHOWN]
    ]
    return tuple(sorted(set.intersection(*each))) if each else ()
