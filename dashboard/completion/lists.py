"""The completion of keys in each list's query box."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from dashboard.activity import filters as event_filters
from dashboard.agents.listing import AGENTS
from dashboard.completion.sources import (
    Source,
    Typed,
    agents,
    known,
    list_choices,
    list_declared,
    list_patterns,
    plans,
    states,
)
from dashboard.deadletters.listing import DEADLETTERS
from dashboard.escalations.inbox import filters as inbox_filters
from dashboard.instructions.listing import INSTRUCTIONS
from dashboard.listing import Listing
from dashboard.lists.known_names import sources_of
from dashboard.lists.query_box import ANY, Keys, Names, Paths
from dashboard.notifications.delivery_listing import DELIVERIES
from dashboard.operations.listing import OPERATIONS
from dashboard.patterns.listing import PATTERNS
from dashboard.permissions.listing import PERMISSION_RULES
from dashboard.plans.listing import PLANS
from dashboard.sessions.listing import SESSIONS
from dashboard.standing_instructions.listing import RULES
from dashboard.tasks import filters as task_filters
from dashboard.tasks import queries as task_queries
from dashboard.tasks.listing.counts import count_tasks
from ledger.models import Task


@dataclass(frozen=True, slots=True)
class CompletedList:
    """The keys of a list, and the sources of those whose values are counted or described."""

    place: str  # the name of the list's URL, whose permission completing needs
    keys: Keys
    sources: Mapping[str, Source] = field(default_factory=dict)


# ---- Tasks


def tasks_of(typed: Typed) -> QuerySet[Task]:
    query = task_filters.parse(typed.text).seen_by(typed.person).agentless()
    return task_queries.filter_tasks(query, typed.project)


def tasks_in_plan(typed: Typed) -> QuerySet[Task]:
    query = replace(task_filters.parse(typed.text).seen_by(typed.person), plan=ANY)
    return task_queries.filter_tasks(query, typed.project)


def count_task_states(typed: Typed) -> Mapping[str, int | None]:
    found = count_tasks(task_filters.parse(typed.text).seen_by(typed.person), typed.project)
    return {
        name: None if found.cut & {*of} else sum(found.states.get(state, 0) for state in of)
        for name, of in task_filters.STATES.items()
    }


# ---- other lists


def states_of(listing: Listing[Any]) -> Source:
    def count(typed: Typed) -> Mapping[str, int]:
        counts = listing.count_states(listing.parse(typed.text, typed.person), typed.project)
        return {name: counts[name] for name in listing.states}

    return states(count)


def rows_of(listing: Listing[Any]) -> Callable[[Typed], QuerySet[Any]]:
    def find(typed: Typed) -> QuerySet[Any]:
        query = listing.parse(typed.text, typed.person)
        return listing.find(replace(query, agent=ANY), typed.project)

    return find


def complete(listing: Listing[Any], **sources: Source) -> CompletedList:
    return CompletedList(listing.name, listing.keys, sources)


TASKS: Mapping[str, Source] = {
    "agent": agents(tasks_of),
    "plan": plans(tasks_in_plan),
    "state": states(count_task_states),
}
# A project declares keys such as payload.order: `payload.` completes to them, without their values.
PATHS = {
    key.removesuffix("NAME"): kind
    for key, kind in task_filters.KEYS.items()
    if isinstance(kind, Paths)
}
TASK_KEYS = PATHS | {key: of for key, of in task_filters.KEYS.items() if not isinstance(of, Paths)}
# Only the names of the keys are read here, and they depend on no time.
EVENT_KEYS = event_filters.build_keys([], now=datetime.max)
OTHERS: tuple[Listing[Any], ...] = (AGENTS, DELIVERIES, OPERATIONS, PERMISSION_RULES, RULES)
LISTS = {
    each.place: each
    for each in (
        CompletedList("tasks", TASK_KEYS, {**TASKS, **dict.fromkeys(PATHS, list_declared)}),
        # the key of a group, which no one types
        CompletedList("escalations", inbox_filters.KEYS, {"same": lambda typed: []}),
        CompletedList("activity", EVENT_KEYS),
        CompletedList("audit", EVENT_KEYS),
        complete(DEADLETTERS, agent=agents(rows_of(DEADLETTERS)), state=states_of(DEADLETTERS)),
        complete(INSTRUCTIONS, agent=agents(rows_of(INSTRUCTIONS))),
        complete(PATTERNS, state=states_of(PATTERNS)),
        complete(PLANS, state=states_of(PLANS)),
        complete(SESSIONS, agent=agents(rows_of(SESSIONS))),
        *(complete(each) for each in OTHERS),
    )
}
# The sources for lists that declare none of their own for these keys.
SHARED: Mapping[str, Source] = {"agent": agents(), "plan": plans(), "pattern": list_patterns}


def find_source(listed: CompletedList, key: str) -> Source | None:
    """Return the source of a key's values, or None if its values are not names."""
    kind = listed.keys.get(key)
    if key in listed.sources or not isinstance(kind, Names):
        return listed.sources.get(key)
    if key in SHARED:
        return SHARED[key]
    if kind.choices:
        return lambda typed: list_choices(typed, kind.choices)
    return known(sources_of(listed.place)[kind.field or key].list)
