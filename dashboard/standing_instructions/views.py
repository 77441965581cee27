"""The list of rules with their records, and the page of one rule."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.http import Http404
from django.urls import reverse_lazy

from dashboard.access import may_open
from dashboard.actions import Action
from dashboard.facets import Facet, build_state_facets
from dashboard.rendering import Crumb, PageContext, Visit, live_page
from dashboard.sentences.event_sentence import EventSentence, EventSubject
from dashboard.sentences.rules import describe_rule_event
from dashboard.standing_instructions import filters, queries
from dashboard.standing_instructions.actions import ACTIONS, allowed_actions
from dashboard.standing_instructions.filters import STATES, RuleQuery, is_wanted
from dashboard.standing_instructions.queries import AgentRecord, Firing, ListedRule
from dashboard.standing_instructions.records import DayChart, Record, draw_days
from dashboard.standing_instructions.wording import ONCE_PER, describe_rule
from ledger.models import Event, StandingInstruction
from ledger.models.standing_instruction import OncePer
from retries.holds import MOST_HOLDS

INSTRUCTIONS = Crumb("Instructions", reverse_lazy("dashboard:instructions"))
CRUMBS = (INSTRUCTIONS, Crumb("Standing", reverse_lazy("dashboard:rules")))
LABELS = {"all": "All", "on": "On", "paused": "Paused", "draft": "Draft"}
SORTS = (("", "Most fired"), ("followed", "Least followed"), ("name", "Name"))
RANGES = ((1, "24 h"), (7, "7 d"), (30, "30 d"))


@dataclass(frozen=True, slots=True)
class Choice:
    """A button above the list that chooses an order or a range."""

    label: str
    value: str
    current: bool


# ---- the list


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleListPage(PageContext):
    query: RuleQuery
    states: list[Facet]
    sorts: list[Choice]
    rules: list[ListedRule]
    total: int
    whole: Record
    may_add: bool
    may_act: bool
    may_edit: bool
    most_holds: int = MOST_HOLDS


@live_page(
    "standing_instructions/index.html",
    "standing_instructions/_rules.html",
    current="instructions",
    of=StandingInstruction,
)
def index(visit: Visit) -> RuleListPage:
    """Show the rules with how often each was followed in seven days."""
    params = visit.request.GET
    query = filters.parse(params.get("q", ""))
    sort = params.get("sort", "")
    every = queries.list_rules(visit.scope.project, now=visit.now)
    in_any_state = [each for each in every if fits(each, query)]
    shown = [each for each in in_any_state if not query.state.wanted or is_in_state(each, query)]
    counts = {
        name: sum(each.row.state == state for each in in_any_state)
        for name, state in STATES.items()
    }
    counts["all"] = len(in_any_state)
    return RuleListPage(
        title="Standing · Instructions",
        heading="Instructions",
        query=query,
        states=build_state_facets(LABELS, counts, query.one_state, query),
        sorts=[Choice(label, name, sort == name) for name, label in SORTS],
        rules=sort_rules(shown, sort),
        total=len(every),
        whole=sum((each.record for each in every), Record()),
        may_add=may_open(visit.request.user, "rule_new"),
        may_act=may_open(visit.request.user, "rule_act"),
        may_edit=may_open(visit.request.user, "rule_edit"),
    )


def fits(rule: ListedRule, query: RuleQuery) -> bool:
    """Return whether a rule matches the query, apart from its state."""
    row, share = rule.row, rule.record.share
    text = row.content.lower()
    return (
        is_wanted(query.agent, row.agent.name if row.agent else "")
        and is_wanted(query.project, row.project.name)
        and is_wanted(query.holds, "yes" if row.hold_stop else "no")
        and (query.under is None or (share is not None and share < query.under))
        and (query.over is None or (share is not None and share > query.over))
        and all(word.lower() in text for word in query.words)
    )


def is_in_state(rule: ListedRule, query: RuleQuery) -> bool:
    return rule.row.state in {STATES[name] for name in query.state.wanted}


def sort_rules(rules: list[ListedRule], sort: str) -> list[ListedRule]:
    match sort:
        case "name":
            return sorted(rules, key=lambda each: each.row.content.lower())
        case "followed":
            return sorted(
                rules, key=lambda each: 2.0 if each.record.share is None else each.record.share
            )
    return sorted(rules, key=lambda each: -each.record.fired)


# ---- one rule


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the rule's own history."""

    event: Event
    sentence: EventSentence

    @property
    def text(self) -> str:
        at, said = self.event.at.astimezone(UTC), self.sentence
        return f"{at:%b} {at.day}: {said.who} {said.does}{said.tail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePage(PageContext):
    row: StandingInstruction
    says: str
    listed: ListedRule
    actions: list[Action]
    asked: Action | None
    ranges: list[Choice]
    record: Record
    days: int
    chart: DayChart
    firings: list[Firing]
    agents: list[AgentRecord]
    changes: list[Change]
    open_count: int
    once_per: str
    may_edit: bool
    may_act: bool
    most_holds: int = MOST_HOLDS


@live_page(
    "standing_instructions/detail.html",
    "standing_instructions/_rule.html",
    current="instructions",
    of=StandingInstruction,
    row="rule_id",
)
def detail(visit: Visit, rule_id: UUID) -> RulePage:
    """Show one rule: how often it was followed, when, and by which agents."""
    row = queries.find_rule(rule_id)
    if row is None:
        raise Http404(f"There is no rule {rule_id}.")
    days = read_days(visit.request.GET.get("days", ""))
    by_day = queries.count_days(row, now=visit.now, days=days)
    record = sum((each for _, each in by_day), Record())
    firings = queries.list_firings(row)
    changes = [
        Change(event, describe_rule_event(event, EventSubject()))
        for event in queries.list_changes(row)
    ]
    may_act = may_open(visit.request.user, "rule_act")
    actions = allowed_actions(row.state) if may_act else []
    wanted = ACTIONS.get(visit.request.GET.get("ask", ""))
    return RulePage(
        title=f"{row.content[:60]} · Rule",
        heading=row.content[:120],
        crumbs=CRUMBS,
        row=row,
        says=describe_rule(row, project=row.project.name),
        listed=ListedRule(row, record, firings[0].row.queued_at if firings else None),
        actions=actions,
        asked=wanted if wanted in actions and wanted and wanted.question else None,
        ranges=[Choice(label, str(number), number == days) for number, label in RANGES],
        record=record,
        days=days,
        chart=draw_days(by_day, place_changes(changes, now=visit.now, days=days)),
        firings=firings,
        agents=queries.list_agents(row, since=visit.now - timedelta(days=days)),
        changes=changes,
        open_count=queries.count_open(row),
        once_per=ONCE_PER[OncePer(row.once_per)],
        may_edit=may_open(visit.request.user, "rule_edit"),
        may_act=may_act,
    )


def place_changes(changes: list[Change], *, now: datetime, days: int) -> list[tuple[float, str]]:
    """Return the changes with their days from the beginning of the chart, oldest first."""
    last = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = last - timedelta(days=days - 1)
    return [((each.event.at - start) / timedelta(days=1), each.text) for each in reversed(changes)]


def read_days(text: str) -> int:
    return int(text) if text in {str(number) for number, _ in RANGES} else 7
