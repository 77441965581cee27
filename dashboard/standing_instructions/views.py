"""The page of one rule."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.urls import reverse_lazy

from dashboard.actions import find_asked, list_allowed
from dashboard.charts.markers import read_markers
from dashboard.frame.access import may_open
from dashboard.frame.found_rows import require_row
from dashboard.frame.rendering import Crumb, PageContext, Visit, compose_page, live_page
from dashboard.sentences.event_sentence import EventSentence, EventSubject
from dashboard.sentences.rules import describe_rule_event
from dashboard.standing_instructions import queries
from dashboard.standing_instructions.listing import RULES
from dashboard.standing_instructions.queries import ListedRule
from dashboard.standing_instructions.records import Record, draw_days
from dashboard.standing_instructions.wording import ONCE_PER, describe_rule
from ledger.models import Event, StandingInstruction
from ledger.models.standing_instruction import OncePer
from retries.tasks.holds import MOST_HOLDS
from retries.verbs import rules

INSTRUCTIONS = Crumb("Instructions", reverse_lazy("dashboard:instructions"))
CRUMBS = (INSTRUCTIONS, Crumb("Standing", reverse_lazy("dashboard:rules")))
RANGES = ((1, "24 h"), (7, "7 d"), (30, "30 d"))


@dataclass(frozen=True, slots=True)
class Choice:
    """A button that chooses the range of a rule's record."""

    label: str
    value: str
    current: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the rule's own history."""

    event: Event
    sentence: EventSentence

    @property
    def text(self) -> str:
        at, said = self.event.at.astimezone(UTC), self.sentence
        return f"{at:%b} {at.day}: {said.who} {said.does}{said.tail}"


@live_page(
    "standing_instructions/detail.html",
    "standing_instructions/_rule.html",
    current="instructions",
    of=StandingInstruction,
    row="rule_id",
)
def detail(visit: Visit, rule_id: UUID) -> PageContext:
    row = require_row(queries.find_rule(rule_id), "rule", rule_id)
    days = read_days(visit.request.GET.get("days", ""))
    by_day = queries.count_days(row, now=visit.now, days=days)
    record = sum((each for _, each in by_day), Record())
    firings = queries.list_firings(row)
    changes = [
        Change(event, describe_rule_event(event, EventSubject()))
        for event in queries.list_changes(row)
    ]
    may_act = may_open(visit.request.user, "rule_act")
    actions = list_allowed(rules.VERBS, row) if may_act else []
    return compose_page(
        title=f"{row.content[:60]} · Rule",
        heading=row.content[:120],
        crumbs=CRUMBS[1:],
        list_steps=RULES.find_steps(visit, rule_id, with_shift=True),
        row=row,
        says=describe_rule(row, project=row.project.name),
        listed=ListedRule(row, record, firings[0].row.queued_at if firings else None),
        actions=actions,
        asked=find_asked(visit.request, actions),
        ranges=[Choice(label, str(number), number == days) for number, label in RANGES],
        record=record,
        days=days,
        chart=draw_days(by_day, place_changes(changes, now=visit.now, days=days)),
        markers=read_markers(row.project, start_of(visit.now, days), end_of(visit.now)),
        firings=firings,
        agents=queries.list_agents(row, now=visit.now, days=days),
        changes=changes,
        open_count=queries.count_open(row),
        once_per=ONCE_PER[OncePer(row.once_per)],
        may_edit=may_open(visit.request.user, "rule_edit"),
        may_act=may_act,
        most_holds=MOST_HOLDS,
    )


def place_changes(changes: list[Change], *, now: datetime, days: int) -> list[tuple[float, str]]:
    """Return the changes with their days from the beginning of the chart, oldest first."""
    start = start_of(now, days)
    return [((each.event.at - start) / timedelta(days=1), each.text) for each in reversed(changes)]


def start_of(now: datetime, days: int) -> datetime:
    return end_of(now) - timedelta(days=days)


def end_of(now: datetime) -> datetime:
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=1)


def read_days(text: str) -> int:
    return int(text) if text in {str(number) for number, _ in RANGES} else 7
