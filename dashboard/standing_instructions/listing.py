"""The list of standing instructions: `agent:coder followed:<70% holds:yes changelog`.

They are few, and their records are part of the query: they are chosen and sorted in memory.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard import steps
from dashboard.frame.access import may_open
from dashboard.frame.rendering import Visit
from dashboard.listing import Column, Listing, ListPage, State
from dashboard.lists.facets import Facet
from dashboard.lists.pagination import Page
from dashboard.lists.query_box import ANY, Names, StateQuery, Values, has_value
from dashboard.lists.query_values import Period, is_in_period, read_period
from dashboard.lists.sorting import SortColumn, read_sort
from dashboard.standing_instructions import queries
from dashboard.standing_instructions.queries import ListedRule
from dashboard.standing_instructions.records import Record
from dashboard.steps import Beside
from ledger.database import server_time
from ledger.models import Project, StandingInstruction
from ledger.models.standing_instruction import RuleState
from retries.tasks.holds import MOST_HOLDS

STATES = {"on": RuleState.ACTIVE, "paused": RuleState.PAUSED, "draft": RuleState.DRAFT}
SHARE = re.compile(r"(?P<sign>[<>])(?P<percent>\d{1,3})%?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQuery(StateQuery):
    agent: Values = ANY
    project: Values = ANY
    holds: Values = ANY
    over: float | None = None
    under: float | None = None
    fired: Period | None = None  # when it last sent an instruction


def read_share(value: str) -> dict[str, Any]:
    found = SHARE.fullmatch(value)
    if found is None:
        raise ValueError(f"“followed:{value}” is not a share. Try followed:<70%.")
    name = "under" if found["sign"] == "<" else "over"
    return {name: int(found["percent"]) / 100}


@dataclass(frozen=True, slots=True)
class FoundRules:
    """The rules that a query finds, in the list's order."""

    every: list[ListedRule]
    in_any_state: list[ListedRule]  # matches the query except for its state
    shown: list[ListedRule]

    @property
    def whole(self) -> Record:
        # The query does not narrow these rules.
        return sum((each.record for each in self.every), Record())

    @property
    def counts(self) -> dict[str, int]:
        found = [state_of(each) for each in self.in_any_state]
        return {name: found.count(name) for name in STATES} | {"all": len(found)}


class RuleList(Listing[RuleQuery]):
    name = "rules"
    row_page = "rule"
    current = "instructions"
    heading = "Instructions"
    label = "Standing instructions"
    nouns = "rules"
    file_name = "standing-instructions"

    model = StandingInstruction
    query = RuleQuery
    keys = {
        "agent": Names(),
        "project": Names(),
        "state": Names(tuple(STATES)),
        "holds": Names(("yes", "no")),
        "followed": read_share,
        "fired": read_period("fired"),
    }
    states = {name: State(name.capitalize()) for name in STATES}

    template = "standing_instructions/index.html"
    part = "standing_instructions/_rules.html"
    row = "standing_instructions/_row.html"
    empty = "standing_instructions/_none.html"
    bar = "listing__bar listing__bar--full"
    table = "tbl standing"
    holds = ""
    example = "agent:coder  followed:<70%  holds:yes"
    columns = (
        Column("Rule", "", "name", SortColumn(lambda rule: rule.row.content.lower())),
        Column("For", "c-md"),
        Column(
            "Sent, 7 d",
            "r c-sm",
            "sent",
            SortColumn(lambda rule: rule.record.fired, largest_first=True),
        ),
        Column("Followed", "r", "followed", SortColumn(lambda rule: rule.record.share)),
        Column("Reminders", template="standing_instructions/_steps_heading.html"),
        Column("Holds stop", "c-lg"),
        Column(
            "Last",
            "r c-sm",
            "last",
            SortColumn(lambda rule: rule.last_fired_at, largest_first=True),
        ),
        Column("State"),
    )
    default_sort = "-sent"

    export_columns = dict.fromkeys(
        (
            *("id", "project", "agent", "state", "content", "event", "signal_type", "match"),
            *("task_type", "plan", "interval_s", "expect_type", "expect_match", "max_retries"),
            *("on_failed", "once_per", "hold_stop", "sent", "followed", "given_up", "stops_held"),
            *("last_sent_at", "created_by", "created_at"),
        ),
        "",
    )

    def read_all(
        self, query: RuleQuery, project: Project | None, sort: str, *, now: datetime
    ) -> FoundRules:
        every = queries.list_rules(project, now=now)
        in_any_state = [each for each in every if fits(each, query, now=now)]
        shown = [each for each in in_any_state if has_value(query.state, state_of(each))]
        by = sort or self.default_sort
        return FoundRules(every, in_any_state, self.sort(shown, by))

    def sort(self, rules: list[ListedRule], by: str) -> list[ListedRule]:
        value = self.sorts[by.removeprefix("-")].value
        known = [each for each in rules if value(each) is not None]
        known.sort(key=value, reverse=by.startswith("-"))
        # Rules without a value come last.
        return known + [each for each in rules if value(each) is None]

    def read_rows(self, query: RuleQuery, visit: Visit) -> tuple[FoundRules, str, Page[Any]]:
        sort = read_sort(self.asked_sort(visit), self.sorts, 0)
        found = self.read_all(query, visit.scope.project, sort, now=visit.now)
        return found, sort, Page(found.shown, None, None)

    def find_total(self, counts: FoundRules, query: RuleQuery) -> int:
        return len(counts.shown)

    def build_facets(self, counts: FoundRules, query: RuleQuery) -> list[Facet]:
        return super().build_facets(counts.counts, query)

    def title_of(self, counts: FoundRules) -> str:
        return f"Standing · {self.heading}"

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        person = visit.request.user
        return {
            "whole": page.counts.whole,
            "most_holds": MOST_HOLDS,
            "may_add": may_open(person, "rule_new"),
            "may_act": may_open(person, "rule_act"),
            "may_edit": may_open(person, "rule_edit"),
        }

    def read_records(
        self, query: RuleQuery, project: Project | None, sort: str
    ) -> Iterable[Sequence[Any]]:
        found = self.read_all(query, project, sort, now=server_time.now())
        return [list(list_values(each)) for each in found.shown]

    def find_beside(self, query: RuleQuery, visit: Visit, id: UUID) -> Beside:
        found, _, _ = self.read_rows(query, visit)
        return steps.place_in([each.row.pk for each in found.shown], id)


RULES = RuleList()


def fits(rule: ListedRule, query: RuleQuery, *, now: datetime) -> bool:
    row, share = rule.row, rule.record.share
    text = row.content.lower()
    return (
        has_value(query.agent, row.agent.name if row.agent else "")
        and has_value(query.project, row.project.name)
        and has_value(query.holds, "yes" if row.hold_stop else "no")
        and (query.under is None or (share is not None and share < query.under))
        and (query.over is None or (share is not None and share > query.over))
        and (query.fired is None or is_in_period(rule.last_fired_at, query.fired, now=now))
        and (not query.ids or row.pk in query.ids)
        and all(word.lower() in text for word in query.words)
    )


def state_of(rule: ListedRule) -> str:
    return next((name for name, state in STATES.items() if state == rule.row.state), "")


def list_values(rule: ListedRule) -> Iterator[Any]:
    row, record = rule.row, rule.record
    yield from (row.pk, row.project.name, row.agent.name if row.agent else "", state_of(rule))
    yield from (row.content, row.event, row.signal_type, row.match, row.task_type)
    yield from (row.plan.ref if row.plan else "", row.interval_s, row.expect_type)
    yield from (row.expect_match, row.max_retries, row.on_failed, row.once_per, row.hold_stop)
    yield from (record.fired, sum(record.followed), record.ignored, record.held)
    yield from (rule.last_fired_at, row.created_by_name, row.created_at)
