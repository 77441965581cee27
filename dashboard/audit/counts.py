"""Count the records that the quick filters of the audit log lead to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet, TextField, Value

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.audit.queries import (
    COUNT_CAP,
    cache_key,
    filter_admin_log,
    filter_sign_ins,
    select_events,
    shows_instance,
)
from dashboard.frame.navigation import Scope
from dashboard.lists.query_box import ANY
from dashboard.lists.shared_queries import name_params
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow


@dataclass(frozen=True, slots=True)
class ChoiceCounts:
    """The numbers of records by quick filter; `are_some` if older ones were not counted."""

    of: Counter[str]
    are_some: bool


@dataclass(frozen=True, slots=True)
class Choices:
    """The values of the quick filters: nouns, periods, and who acted (empty for anyone)."""

    nouns: Sequence[str]
    periods: Mapping[str, timedelta]
    actors: Sequence[str]


def count_choices(
    query: EventQuery, scope: Scope, choices: Choices, *, now: datetime
) -> ChoiceCounts:
    """Count the newest records of each quick filter, with the query's other keys."""
    return get_or_compute_slow(
        cache_key("audit-counts", query, scope), lambda: read_counts(query, scope, choices, now=now)
    )


def read_counts(
    query: EventQuery, scope: Scope, choices: Choices, *, now: datetime
) -> ChoiceCounts:
    # what the choices replace must not limit the rows that they are counted among
    anything = replace(query, kind=ANY, by=ANY, since=None)
    sources: list[QuerySet[Any]] = [
        rows.order_by("-id").values("kind", "actor_type", "at")
        for rows in select_events(anything, scope)
    ]
    if shows_instance(replace(query, by=ANY), scope):
        none, people = Value(None, TextField()), Value("user", TextField())
        for rows, time in (
            (filter_admin_log(anything), "action_time"),
            (filter_sign_ins(anything), "at"),
        ):
            sources.append(rows.order_by("-id").values(kind=none, actor=people, time=F(time)))
    return count_newest(sources, build_choices(query, choices, now=now))


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows of a quick filter: of these kinds and actors, not before this time."""

    kinds: list[str] | None
    actors: list[str] | None
    since: datetime | None


def build_choices(query: EventQuery, choices: Choices, *, now: datetime) -> dict[str, Choice]:
    asked = Choice(filters.kinds(query.kind), filters.actor_types(query.by), query.since)
    return {
        **{noun: replace(asked, kinds=list(filters.KINDS[noun])) for noun in choices.nouns},
        **{name: replace(asked, since=now - age) for name, age in choices.periods.items()},
        **{
            name: replace(asked, actors=list(filters.ACTORS[name]) if name else None)
            for name in choices.actors
        },
    }


def count_newest(sources: Sequence[QuerySet[Any]], choices: Mapping[str, Choice]) -> ChoiceCounts:
    """Count which of the newest rows of each source are of a choice.

    A row is its kind, the type of its actor, and its time.
    """
    newest = [rows.annotate(source=Value(at))[:COUNT_CAP] for at, rows in enumerate(sources)]
    matching, params = name_params(newest[0].union(*newest[1:], all=True))
    columns = [
        f"count(*) filter (where source = {at}) >= {COUNT_CAP} as capped{at}"
        for at in range(len(newest))
    ]
    for at, choice in enumerate(choices.values()):
        params |= {
            f"kinds{at}": choice.kinds,
            f"actors{at}": choice.actors,
            f"since{at}": choice.since,
        }
        columns.append(
            f"""count(*) filter (where (%(kinds{at})s::text[] is null or kind = any(%(kinds{at})s))
                and (%(actors{at})s::text[] is null or actor = any(%(actors{at})s))
                and (%(since{at})s::timestamptz is null or at >= %(since{at})s)) as n{at}"""
        )
    statement = f"select {', '.join(columns)} from ({matching}) newest(kind, actor, at, source)"
    (row,) = sql.run_custom_plan(statement, **params)
    return ChoiceCounts(
        Counter({name: row[f"n{at}"] for at, name in enumerate(choices)}),
        any(row[f"capped{at}"] for at in range(len(newest))),
    )
