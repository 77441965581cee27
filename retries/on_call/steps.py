"""The steps of an escalation policy: who is told, and what comes next (pure)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from retries.on_call.rotas import Schedule, Unreadable, find_on_call, split_names

MOST_TOLD = 20  # people at one step
AGAIN = timedelta(minutes=1)
STEP = re.compile(r"(\d{1,5})(?:\s*+min)?\s++(tell|remind|answer)\b\s*+(.*)")
HOW = "Write a step as '15 tell rota:nights, mara', '30 remind' or '60 answer retry'"
TARGETS = ("rota", "group", "role")
CONDITIONS = ("reason", "severity", "agent", "plan", "type", "pattern")


class StepAction(StrEnum):
    """The effect of a step."""

    # the next person gets it
    TELL = "tell"
    # the person who has it is told again
    REMIND = "remind"
    # the answer that a person wrote into the policy is given
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a policy, and how long after the escalation opened it is due."""

    after: timedelta
    action: StepAction
    to: tuple[str, ...] = ()  # usernames, or rota:NAME, group:NAME and role:NAME
    answer: str = ""  # an answer on one line, as a person would send it


@dataclass(frozen=True, slots=True)
class Directory:
    """The people of a project who may answer, and their rotas, groups and roles."""

    people: Sequence[str]
    rotas: Mapping[str, Schedule] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def resolve(self, targets: Iterable[str], at: datetime) -> list[str]:
        """Return the people that targets name at an instant, without those who may not answer."""
        found: list[str] = []
        for target in targets:
            kind, _, name = target.partition(":")
            if kind == "rota" and name in self.rotas:
                found += find_on_call(self.rotas[name], at)
            elif kind in TARGETS:
                found += self.groups.get(target, ())
            else:
                found.append(target)
        return [name for name in dict.fromkeys(found) if name in self.people]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The columns of an open escalation that its policy's steps read and write."""

    opened_at: datetime
    step: int = 0
    told: tuple[str, ...] = ()
    assignee: str | None = None
    is_routed: bool = False  # the policy, not a person, assigned it


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The result of a step: who is told, who has it now, and when the next step is due."""

    case: Case
    next_at: datetime | None
    tells: tuple[str, ...] = ()
    is_reminder: bool = False
    answer: str = ""


def take_turn(case: Case, steps: Sequence[Step], directory: Directory, *, now: datetime) -> Turn:
    # The time between two steps is kept when the clock was away: everyone who is told has as long
    # to answer as the policy says.
    if case.step >= len(steps):
        return Turn(case=case, next_at=None)
    step, following = steps[case.step], steps[case.step + 1 : case.step + 2]
    if (due := case.opened_at + step.after) > now:
        return Turn(case=case, next_at=due)
    next_at = next((now + (each.after - step.after) for each in following), None)
    is_taken = bool(case.assignee) and not case.is_routed and case.assignee in directory.people
    told, assignee, is_routed = case.told, case.assignee, case.is_routed
    tells: list[str] = []
    if step.action == StepAction.TELL and not is_taken:
        tells = [name for name in directory.resolve(step.to, now) if name not in told][:MOST_TOLD]
        if not tells and not told:  # all who may answer, before none is told
            tells = list(directory.people[:MOST_TOLD])
        if not tells and not told:  # no one may answer yet
            return Turn(case=case, next_at=now + AGAIN)
        if tells:
            told, assignee, is_routed = (*told, *tells), tells[0], True
    is_reminder = not tells
    if is_reminder:
        tells = list_reminded(case, directory)
    if not tells and directory.people:  # none of those who know of it may still answer
        is_reminder, tells = False, list(directory.people[:MOST_TOLD])
        told, assignee, is_routed = (*told, *tells), tells[0], True
    if tells and assignee and assignee not in directory.people:
        assignee, is_routed = tells[0], True
    after = Case(
        opened_at=case.opened_at,
        step=case.step + 1,
        told=told,
        assignee=assignee,
        is_routed=is_routed,
    )
    return Turn(
        case=after, next_at=next_at, tells=tuple(tells), is_reminder=is_reminder, answer=step.answer
    )


def list_reminded(case: Case, directory: Directory) -> list[str]:
    """Return the person who has a case, or else those who were told of it and may answer."""
    if case.assignee and case.assignee in directory.people:
        return [case.assignee]
    return [name for name in case.told if name in directory.people][:MOST_TOLD]


# ---- conditions


def matches(conditions: str, facts: Mapping[str, Sequence[str]]) -> bool:
    """Return whether an escalation's facts fulfill a policy's conditions.

    >>> facts = {"agent": ["deploy-1"], "severity": ["high"]}
    >>> [matches(each, facts) for each in ("", "agent:deploy-*", "agent:a,b", "type:x")]
    [True, True, False, False]
    """
    return all(
        any(fnmatchcase(fact, value) for fact in facts.get(key, ()) for value in values)
        for key, values in parse_conditions(conditions)
    )


def parse_conditions(text: str) -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for term in text.split():
        key, colon, values = term.partition(":")
        if key not in CONDITIONS or not colon or not split_names(values):
            raise Unreadable(
                f"'{term[:60]}' is not a condition. Write agent:deploy-* severity:high; "
                f"the keys are {', '.join(CONDITIONS)}."
            )
        found.append((key, split_names(values)))
    return found


# ---- steps as lines


def parse_step(line: str) -> Step:
    """Return the step that a line describes; raise Unreadable.

    >>> parse_step("15 tell rota:nights, mara").to
    ('rota:nights', 'mara')
    >>> format_step(parse_step("60 min  answer  fix: pin numpy"))
    '60 answer fix: pin numpy'
    """
    match = STEP.fullmatch(line.strip())
    if match is None:
        raise Unreadable(f"{HOW}, not '{line.strip()[:60]}'.")
    after, action, rest = timedelta(minutes=int(match[1])), StepAction(match[2]), match[3].strip()
    if bool(rest) == (action == StepAction.REMIND):
        raise Unreadable(f"{HOW}: '{action}' {'takes no' if rest else 'needs a'} text after it.")
    if action == StepAction.TELL:
        return Step(after, action, to=split_names(rest))
    return Step(after, action, answer=rest)


def format_step(step: Step) -> str:
    rest = ", ".join(step.to) or step.answer
    return f"{int(step.after.total_seconds()) // 60} {step.action} {rest}".strip()
