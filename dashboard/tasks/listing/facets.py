"""The filters beside the list of tasks."""

from dataclasses import dataclass

from dashboard.date_range import DateRange, find_dates
from dashboard.lists.facets import Facet, build_value_facets
from dashboard.lists.query_box import has_key, term
from dashboard.lists.query_values import Period
from dashboard.tasks.filters import STATES, TaskQuery
from dashboard.tasks.listing.counts import TaskCounts
from dashboard.tasks.listing.facet_counts import PERIODS, ChangeCounts, PatternCount
from dashboard.tasks.listing.order import ORDER
from dashboard.wording import badges
from ledger.states import TaskState

PERIOD_LABELS = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days"}


@dataclass(frozen=True, slots=True)
class Facets:
    """The filters beside the list; `dates` are those that the query asks for."""

    states: list[Facet]
    agents: list[Facet]
    patterns: list[Facet]
    changes: list[Facet]
    dates: DateRange


def build_facets(
    query: TaskQuery, counts: TaskCounts, patterns: list[PatternCount], changes: ChangeCounts
) -> Facets:
    total, is_cut = counts.of(query), counts.is_cut(query)
    return Facets(
        states=build_states(query, counts),
        agents=build_value_facets(
            *("agent", counts.agents, query.one_agent, query),
            are_some=counts.is_common,
            total=total,
        ),
        patterns=build_patterns(query, patterns, total, is_cut=is_cut),
        changes=build_changes(query, changes, total, is_cut=is_cut),
        dates=find_dates("changed", query.changed),
    )


def build_states(query: TaskQuery, counts: TaskCounts) -> list[Facet]:
    everything = query.one_state == "all"
    text, are_some = query.having("state", ""), bool(counts.cut)
    states = [Facet("All", text, counts.total, everything, "n-tasks", are_some=are_some)]
    for state in ORDER:
        name = "needs-you" if state == TaskState.ESCALATED else state.value
        current = state in STATES.get(query.one_state, ())
        badge = badges.task_badge(state)
        text = query.having("state", "" if current else f"state:{name}")
        count = counts.states.get(state, 0)
        are_some = state in counts.cut
        states.append(
            Facet(badge.label, text, count, current, badge.icon, badge.css, are_some=are_some)
        )
    return states


def build_patterns(
    query: TaskQuery, counted: list[PatternCount], total: int, *, is_cut: bool
) -> list[Facet]:
    one = query.one_pattern
    facets = []
    for each in counted:
        current = bool(one) and each.fingerprint.startswith(one.lower())
        facets.append(
            Facet(
                each.template,
                query.having("pattern", "" if current else term("pattern", each.fingerprint)),
                total if current else each.tasks,
                current,
                are_some=is_cut if current else each.are_some,
                title=each.template,
            )
        )
    if one and not any(facet.current for facet in facets):
        text = query.having("pattern", "")
        facets.append(Facet(one, text, total, current=True, are_some=is_cut, title=one))
    return facets


def build_changes(
    query: TaskQuery, counted: ChangeCounts, total: int, *, is_cut: bool
) -> list[Facet]:
    facets = []
    for name, age in PERIODS.items():
        current = query.changed == Period(age)
        text = query.having("changed", "" if current else f"changed:{name}")
        count = total if current else counted.tasks.get(name, 0)
        are_some = is_cut if current else counted.are_some
        facets.append(Facet(PERIOD_LABELS[name], text, count, current, are_some=are_some))
    if query.changed and not any(facet.current for facet in facets):
        days = find_dates("changed", query.changed)
        label = days.label if days else read_period_text(query)
        text = query.having("changed", "")
        facets.append(Facet(label, text, total, current=True, are_some=is_cut))
    return facets


def read_period_text(query: TaskQuery) -> str:
    terms = [token for token in query.terms if has_key(token, ("changed",))]
    return terms[-1].partition(":")[2].replace('"', "") if terms else ""
