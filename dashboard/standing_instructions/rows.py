"""Choose and sort the rules of the list, whose query asks for their records too."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.lists.query_box import has_value
from dashboard.lists.query_values import is_in_period
from dashboard.lists.sorting import SortColumn
from dashboard.standing_instructions import queries
from dashboard.standing_instructions.filters import STATES, RuleQuery
from dashboard.standing_instructions.queries import ListedRule
from dashboard.standing_instructions.records import Record
from ledger.models import Project


@dataclass(frozen=True, slots=True)
class RuleList:
    """The rules that a query finds, in the list's order."""

    every: list[ListedRule]
    in_any_state: list[ListedRule]  # apart from the query's state
    shown: list[ListedRule]

    @property
    def whole(self) -> Record:
        """The record of all rules, whatever the query."""
        return sum((each.record for each in self.every), Record())

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of rules by the names of the states."""
        found = [state_of(each) for each in self.in_any_state]
        return {name: found.count(name) for name in STATES} | {"all": len(found)}


def read_rules(query: RuleQuery, project: Project | None, sort: str, *, now: datetime) -> RuleList:
    """Return the rules of a query with their records of the last seven days."""
    every = queries.list_rules(project, now=now)
    in_any_state = [each for each in every if fits(each, query, now=now)]
    shown = [each for each in in_any_state if has_value(query.state, state_of(each))]
    return RuleList(every, in_any_state, sort_rules(shown, sort or DEFAULT_SORT))


def fits(rule: ListedRule, query: RuleQuery, *, now: datetime) -> bool:
    """Return whether a rule matches the query, apart from its state."""
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
    """Return the name of a rule's state in the box."""
    return next((name for name, state in STATES.items() if state == rule.row.state), "")


COLUMNS = {
    "name": SortColumn(lambda rule: rule.row.content.lower()),
    "sent": SortColumn(lambda rule: rule.record.fired, largest_first=True),
    "followed": SortColumn(lambda rule: rule.record.share),
    "last": SortColumn(lambda rule: rule.last_fired_at, largest_first=True),
}
DEFAULT_SORT = "-sent"


def sort_rules(rules: list[ListedRule], sort: str) -> list[ListedRule]:
    """Return the rules in the order of a column; those without a value come last."""
    value = COLUMNS[sort.removeprefix("-")].value
    known = [each for each in rules if value(each) is not None]
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + [each for each in rules if value(each) is None]
