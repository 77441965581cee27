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
from dashboard.navigation import Scope
from dashboard.query_box import ANY
from dashboard.shared_queries import name_params
from ledger import sql
from ledger.optional_cache import get_or_compute_slow


@dataclass(frozen=True, slots=True)
class ChoiceCounts:
    """The numbers of records by noun or period; `are_some` if older ones were not counted."""

    of: Counter[str]
    are_some: bool


def count_choices(
    query: EventQuery,
    scope: Scope,
    *,
    nouns: Sequence[str],
    periods: Mapping[str, timedelta],
    now: datetime,
) -> ChoiceCounts:
    """Count the newest records of each noun and of each period, with the query's other keys."""
    return get_or_compute_slow(
        cache_key("audit-counts", query, scope),
        lambda: read_counts(query, scope, nouns=nouns, periods=periods, now=now),
    )


def read_counts(
    query: EventQuery,
    scope: Scope,
    *,
    nouns: Sequence[str],
    periods: Mapping[str, timedelta],
    now: datetime,
) -> ChoiceCounts:
    # what the choices replace must not limit the rows that they are counted among
    anything = replace(query, kind=ANY, since=None)
    kinds, starts = filters.kinds(query.kind), {name: now - age for name, age in periods.items()}
    choices = {noun: Choice(list(filters.KINDS[noun]), query.since) for noun in nouns} | {
        name: Choice(None if kinds is None else list(kinds), start)
        for name, start in starts.items()
    }
    sources: list[QuerySet[Any]] = [
        rows.order_by("-id").values("kind", "at") for rows in select_events(anything, scope)
    ]
    if shows_instance(query, scope):
        none = Value(None, TextField())
        for rows, time in (
            (filter_admin_log(anything), "action_time"),
            (filter_sign_ins(anything), "at"),
        ):
            sources.append(rows.order_by("-id").values(kind=none, time=F(time)))
    return count_newest(sources, choices)


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows that a quick filter leads to: of these kinds, and not before this time."""

    kinds: list[str] | None
    since: datetime | None


def count_newest(sources: Sequence[QuerySet[Any]], choices: Mapping[str, Choice]) -> ChoiceCounts:
    """Count which of the newest rows of each source, with their kind and time, are of a choice."""
    newest = [rows.annotate(source=Value(at))[:COUNT_CAP] for at, rows in enumerate(sources)]
    matching, params = name_params(newest[0].union(*newest[1:], all=True))
    columns = [
        f"count(*) filter (where source = {at}) >= {COUNT_CAP} as capped{at}"
        for at in range(len(newest))
    ]
    for at, choice in enumerate(choices.values()):
        params |= {f"kinds{at}": choice.kinds, f"since{at}": choice.since}
        columns.append(
            f"""count(*) filter (where (%(kinds{at})s::text[] is null or kind = any(%(kinds{at})s))
                and (%(since{at})s::timestamptz is null or at >= %(since{at})s)) as n{at}"""
        )
    statement = f"select {', '.join(columns)} from ({matching}) newest(kind, at, source)"
    (row,) = sql.run_custom_plan(statement, **params)
    return ChoiceCounts(
        Counter({name: row[f"n{at}"] for at, name in enumerate(choices)}),
        any(row[f"capped{at}"] for at in range(len(newest))),
    )
