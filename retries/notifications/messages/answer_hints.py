"""Find hints that help a person answer an escalation, for a message about it.

A likely cause and a fix that worked before may repeat what a program printed, so without details
only Tenfour's own words and the counts are sent.
"""

from dataclasses import dataclass, replace

from ledger.database.sql import Row
from ledger.models import Failure
from ledger.values.text import truncate
from retries.escalations.options import name_answers
from retries.failures import grouping, known_errors
from retries.failures.fixes import suggestions
from retries.failures.fixes.reading import FixState, LearnedFix, find_learned_fixes, pick_learned
from retries.models import Escalation
from retries.notifications.messages.subjects import Subjects, facts_of
from retries.notifications.messages.wording import Facts, is_question, one_line
from retries.states import TEXT_ANSWERS

# the parts of an escalation's page that the links lead to
TEXT_FORM, OTHER_ANSWERS = "#fix", "#other-answers"
FIX_LENGTH = 160


@dataclass(frozen=True, slots=True)
class AnswerHints:
    """The likely cause of a failure, its remedy, the fix that worked, and the possible answers."""

    cause: str = ""
    for_person: str = ""
    worked: str = ""
    answers: tuple[tuple[str, str], ...] = ()


def facts_with_hints(event: Row, about: Subjects, *, with_details: bool) -> Facts:
    facts = facts_of(event, about, with_details=with_details)
    escalation = about.escalations.get(event["subject_id"])
    if escalation is None or not escalation.is_open or not is_question(facts):
        return facts
    hints = find_hints(escalation, url=facts.url, with_details=with_details)
    return replace(
        facts,
        cause=hints.cause,
        for_person=hints.for_person,
        worked=hints.worked,
        answers=hints.answers,
    )


def find_hints(escalation: Escalation, *, url: str, with_details: bool) -> AnswerHints:
    """Return the hints for one open escalation."""
    # Three queries for a task that failed, and three more if people have given fixes for such
    # failures; none for an instruction or a question.
    answers = tuple(
        (title, url + (TEXT_FORM if name in TEXT_ANSWERS else OTHER_ANSWERS))
        for name, title in name_answers(escalation)
    )
    if escalation.task_id is None or escalation.is_question:
        return AnswerHints(answers=answers)
    failure = suggestions.find_last_failures([escalation.task_id]).get(escalation.task_id)
    if failure is None:
        return AnswerHints(answers=answers)
    learned = pick_learned(failure, find_learned_fixes([failure.pk]))
    return AnswerHints(
        cause=word_cause(failure, with_details=with_details),
        for_person=word_remedy(failure, with_details=with_details),
        worked=word_worked(learned, with_details=with_details),
        answers=answers,
    )


def word_cause(failure: Failure, *, with_details: bool) -> str:
    # The agent or the table of known errors names the cause.
    if not with_details:
        known = grouping.find_known_error(failure)
        return f"{known.error.title} (known error)" if known else ""
    suggestion = suggestions.suggest(failure)
    if not suggestion.cause:
        return ""
    source = "a guess" if suggestion.cause_by == "agent" else "known error"
    return f"{suggestion.cause} ({source})"


def word_remedy(failure: Failure, *, with_details: bool) -> str:
    """Return what a person has to do before a retry; empty if the agent can fix it itself."""
    known = grouping.find_known_error(failure)
    if known is None:
        return ""
    return known.for_person if with_details else known_errors.word_for_person(known.error)


def word_worked(learned: list[LearnedFix], *, with_details: bool) -> str:
    best = next((each for each in learned if is_proven(each)), None)
    if best is None:
        return ""
    fix = f"“{truncate(one_line(best.fix), FIX_LENGTH)}”" if with_details else "A fix"
    return f"{fix}, {best.counts} times"


def is_proven(fix: LearnedFix) -> bool:
    return fix.state != FixState.RETIRED and bool(fix.counts.worked)
