"""Count the records that the quick filters of the audit log lead to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet

from dashboard.activity import filters
from dashboard.activity.filters import EventQuery
from dashboard.audit.queries import (
    COUNT_CAP,
    filter_admin_log,
    filter_sign_ins,
    select_events,
    shows_instance,
)
from dashboard.navigation import Scope
from dashboard.query_box import ANY
from dashboard.shared_queries import hash_of
from ledger.optional_cache import get_or_compute_slow


@dataclass(frozen=True, slots=True)
class ChoiceCounts:
    """The numbers of records by noun or period; `are_some` if older ones were not counted."""

    of: Mapping[str, int]
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
        f"audit-counts:{scope.project.id if scope.project else 'all'}:{hash_of(query.text)}",
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
    kinds = filters.kinds(query.kind)
    in_kinds = Q() if kinds is None else Q(kind__in=kinds)
    in_range = Q(at__gte=query.since) if query.since else Q()
    starts = {name: now - age for name, age in periods.items()}
    of_events = {noun: in_range & Q(kind__in=filters.KINDS[noun]) for noun in nouns} | {
        name: in_kinds & Q(at__gte=start) for name, start in starts.items()
    }
    counted = [count_newest(rows, of_events) for rows in select_events(anything, scope)]
    if shows_instance(query, scope):
        for rows, time in (
            (filter_admin_log(anything), "action_time"),
            (filter_sign_ins(anything), "at"),
        ):
            since = {name: Q(**{f"{time}__gte": start}) for name, start in starts.items()}
            counted.append(count_newest(rows, since))
    total = sum(counted, Counter[str]())
    return ChoiceCounts(total, any(each[READ] >= COUNT_CAP for each in counted))


READ = ""  # the number of rows among which the others were counted


def count_newest(rows: QuerySet[Any], conditions: Mapping[str, Q]) -> Counter[str]:
    """Count which of the newest rows meet each condition, and how many rows these are."""
    names = {f"n{at}": name for at, name in enumerate(conditions)}
    wanted = {each: Count("pk", filter=conditions[name]) for each, name in names.items()}
    found = rows.order_by("-id")[:COUNT_CAP].aggregate(read=Count("pk"), **wanted)
    return Counter({READ: found["read"]} | {name: found[each] for each, name in names.items()})
