"""The list of standing instructions: `agent:coder followed:<70% holds:yes changelog`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.frame.access import may_open
from dashboard.frame.rendering import Visit
from dashboard.listing import Column, ListPage, State
from dashboard.lists.query_box import ANY, Names, StateQuery, Values, has_value
from dashboard.lists.query_values import Period, is_in_period, read_period
from dashboard.lists.sorting import SortColumn, largest
from dashboard.memory_listing import FoundRows, MemoryListing
from dashboard.standing_instructions import queries
from dashboard.standing_instructions.queries import ListedRule
from dashboard.standing_instructions.records import Record
from ledger.models import StandingInstruction
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


class RuleList(MemoryListing[RuleQuery]):
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
        Column("Sent, 7 d", "r c-sm", "sent", largest(lambda rule: rule.record.fired)),
        Column("Followed", "r", "followed", SortColumn(lambda rule: rule.record.share)),
        Column("Reminders", template="standing_instructions/_steps_heading.html"),
        Column("Holds stop", "c-lg"),
        Column("Last", "r c-sm", "last", largest(lambda rule: rule.last_fired_at)),
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

    def list_every(self, visit: Visit) -> list[ListedRule]:
        """Return the rules with their records of the last seven days."""
        return queries.list_rules(visit.scope.project, now=visit.now)

    def fits(self, row: ListedRule, query: RuleQuery, *, now: datetime) -> bool:
        rule, share, text = row.row, row.record.share, row.row.content.lower()
        return (
            has_value(query.agent, rule.agent.name if rule.agent else "")
            and has_value(query.project, rule.project.name)
            and has_value(query.holds, "yes" if rule.hold_stop else "no")
            and (query.under is None or (share is not None and share < query.under))
            and (query.over is None or (share is not None and share > query.over))
            and (query.fired is None or is_in_period(row.last_fired_at, query.fired, now=now))
            and (not query.ids or rule.pk in query.ids)
            and all(word.lower() in text for word in query.words)
        )

    def states_of(self, row: ListedRule) -> list[str]:
        return [name for name, state in STATES.items() if state == row.row.state]

    def title_of(self, counts: FoundRows) -> str:
        return f"Standing · {self.heading}"

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        person = visit.request.user
        return {
            "whole": sum((each.record for each in page.counts.every), Record()),
            "most_holds": MOST_HOLDS,
            "may_add": may_open(person, "rule_new"),
            "may_act": may_open(person, "rule_act"),
            "may_edit": may_open(person, "rule_edit"),
        }

    def list_values(self, row: ListedRule) -> Iterator[Any]:
        rule, record = row.row, row.record
        yield from (rule.pk, rule.project.name, rule.agent.name if rule.agent else "")
        yield from ("".join(self.states_of(row)), rule.content, rule.event, rule.signal_type)
        yield from (rule.match, rule.task_type, rule.plan.ref if rule.plan else "")
        yield from (rule.interval_s, rule.expect_type, rule.expect_match, rule.max_retries)
        yield from (rule.on_failed, rule.once_per, rule.hold_stop)
        yield from (record.fired, sum(record.followed), record.ignored, record.held)
        yield from (row.last_fired_at, rule.created_by_name, rule.created_at)


RULES = RuleList()
