"""Read the audit log: what people and tokens did, changes of tokens, and who signed in.

It merges the journal, the admin's own log and the records of sign-ins.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from dashboard.activity.filters import EventQuery, actor_types
from dashboard.activity.queries import EventEntry, describe_events, filter_events, with_extras
from dashboard.frame.navigation import Scope
from dashboard.lists.pagination import PAGE
from dashboard.lists.query_box import ANY
from dashboard.lists.shared_queries import CountOf, hash_of, match_groups, match_values, of_project
from dashboard.wording.formatting import COUNT_CAP as COUNT_CAP
from ledger.database.optional_cache import get_or_compute_slow
from ledger.journal import Kind
from ledger.models import Project, SignInOutcome, SignInRecord, Token
from ledger.models.event import BY_PERSON, TOKEN_ACT, EventQuerySet
from ledger.models.token import TokenKind
from ledger.people.browsers import describe_browser
from ledger.values.ids import SLACK, first_id

TYPE_PAUSES = (Kind.PROJECT_TYPE_PAUSED, Kind.PROJECT_TYPE_RESUMED)
BATCH = 500  # records that an export reads at a time
ADMIN_VERBS = {1: "added", 2: "changed", 3: "deleted"}


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Something that a person or a token did; `id` is its place in the log."""

    id: UUID
    at: datetime
    who: str
    kind: str
    did: str
    what: str
    reason: str
    source: str
    subject_type: str
    subject_id: str
    from_state: str
    to_state: str
    request_id: str
    icon: str = "info"
    page: str = ""
    data: Any = None


def acts_of_people(events: EventQuerySet) -> EventQuerySet:
    # A partial index has them.
    return events.filter(BY_PERSON)


def acts_of_tokens(events: EventQuerySet, scope: Scope) -> EventQuerySet:
    """Return what operators' and producers' tokens did to others' work."""
    # A partial index has these, too.
    agents = Token.objects.order_by().filter(kind=TokenKind.AGENT)
    own = of_project(agents, scope.project).annotate(text=Cast("pk", TextField())).values("text")
    return events.filter(TOKEN_ACT).exclude(actor_id__in=own)


def events_of_tokens(events: EventQuerySet, scope: Scope) -> EventQuerySet:
    """Return the events about tokens that no person caused, and tokens' pauses of task types."""
    # The index of subjects has them.
    tokens = of_project(Token.objects.order_by(), scope.project).values("pk")
    projects = Project.objects.order_by()
    projects = projects.filter(pk=scope.project.pk) if scope.project else projects
    pauses = Q(subject_type="project", kind__in=TYPE_PAUSES, actor_type="token")
    return events.filter(
        Q(subject_type="token") & ~Q(actor_type="user") | pauses,
        subject_id__in=tokens.union(projects.values("pk"), all=True),
    )


def select_events(query: EventQuery, scope: Scope) -> list[EventQuerySet]:
    events = filter_events(query, scope.project)
    return [acts_of_people(events), acts_of_tokens(events, scope), events_of_tokens(events, scope)]


@dataclass(frozen=True, slots=True)
class Walk:
    """An order of records and where to start: after the record with this id, or at the first."""

    after: UUID | None = None
    is_oldest_first: bool = False
    batch: int = BATCH

    def is_next(self, id: UUID) -> bool:
        return self.after is None or (id > self.after if self.is_oldest_first else id < self.after)


def list_records(query: EventQuery, scope: Scope, walk: Walk) -> list[AuditRecord]:
    walk = replace(walk, batch=PAGE + 1)
    return list(islice(read_records(query, scope, walk), PAGE + 1))


def read_records(query: EventQuery, scope: Scope, walk: Walk) -> Iterator[AuditRecord]:
    sources = [read_events(rows, walk) for rows in select_events(query, scope)]
    if shows_instance(query, scope):
        sources += [read_admin_log(query, walk), read_sign_ins(query, walk)]
    return merge(*sources, key=lambda record: record.id, reverse=not walk.is_oldest_first)


def read_batches(rows: QuerySet[Any], walk: Walk) -> Iterator[list[Any]]:
    order, beyond = ("id", "id__gt") if walk.is_oldest_first else ("-id", "id__lt")
    last: Any = walk.after
    while True:
        further = rows.filter(**{beyond: last}) if last else rows
        found = list(further.order_by(order)[: walk.batch])
        yield found
        if len(found) < walk.batch:
            return
        last = found[-1].pk


def shows_instance(query: EventQuery, scope: Scope) -> bool:
    """Return whether acts without a project belong to it: those in the admin, and sign-ins.

    They have no kind and no agent that a filter could name, and people caused them.
    """
    if not may_show_instance(query) or scope.is_limited:
        return False
    return scope.project is None or not scope.is_choice


def may_show_instance(query: EventQuery) -> bool:
    if query.kind != ANY or query.agent != ANY or query.about:
        return False
    types = actor_types(query.by)
    return types is None or "user" in types


def match_instance(query: EventQuery, name: str, time: str) -> Q:
    """Return the condition of the groups of a query for acts without a project."""

    def match(each: EventQuery) -> Q:
        if not may_show_instance(each):
            return Q(pk__in=[])
        found = match_values(each.actor, name)
        if each.since:
            found &= Q(**{f"{time}__gte": each.since})
        return found & Q(**{f"{time}__lt": each.until}) if each.until else found

    return match_groups(query, match)


def read_events(events: EventQuerySet, walk: Walk) -> Iterator[AuditRecord]:
    for found in read_batches(with_extras(events), walk):
        yield from map(describe_record, describe_events(found))


def describe_record(entry: EventEntry) -> AuditRecord:
    event, sentence = entry.event, entry.sentence
    data = event.data if isinstance(event.data, dict) else {}
    return AuditRecord(
        id=event.pk,
        at=event.at,
        who=event.actor_name,
        kind=event.kind,
        did=sentence.does,
        what=f"{sentence.quote}{sentence.tail}".lstrip(":, ")
        or ("" if entry.agent in sentence.does else entry.agent),
        reason=str(data.get("note") or data.get("reason") or ""),
        source="journal",
        subject_type=event.subject_type,
        subject_id=str(event.subject_id),
        from_state=event.from_state or "",
        to_state=event.to_state or "",
        request_id=event.request_id,
        icon=sentence.icon,
        page=entry.page,
        data=data,
    )


def read_admin_log(query: EventQuery, walk: Walk) -> Iterator[AuditRecord]:
    rows = filter_admin_log(query).select_related("user", "content_type")
    # its own ids are numbers: a record's place follows from its time
    for found in read_batches(rows, replace(walk, after=None)):
        yield from (record for record in map(admin_record, found) if walk.is_next(record.id))


def filter_admin_log(query: EventQuery) -> QuerySet[LogEntry]:
    rows = LogEntry.objects.filter(match_values(query.actor, "user__username"))
    if query.since:
        rows = rows.filter(action_time__gte=query.since)
    if query.until:
        rows = rows.filter(action_time__lt=query.until)
    return rows.filter(match_instance(query, "user__username", "action_time"))


def admin_record(row: LogEntry) -> AuditRecord:
    noun = row.content_type.name if row.content_type else "object"
    verb = ADMIN_VERBS.get(row.action_flag, "changed")
    return AuditRecord(
        id=UUID(int=first_id(row.action_time).int | row.pk),
        at=row.action_time,
        who=row.user.get_username(),
        kind=f"admin.{verb}",
        did=f"{verb} {noun} in the admin",
        what=row.object_repr,
        reason=row.get_change_message(),
        source="admin",
        subject_type=noun,
        subject_id=str(row.object_id or ""),
        from_state="",
        to_state="",
        request_id="",
        icon="n-settings",
    )


SIGN_INS = {
    SignInOutcome.SIGNED_IN: ("signed in", "person"),
    SignInOutcome.SIGNED_OUT: ("signed out", "out"),
    SignInOutcome.REFUSED: ("was refused at sign-in", "s-failed"),
}


def read_sign_ins(query: EventQuery, walk: Walk) -> Iterator[AuditRecord]:
    for found in read_batches(filter_sign_ins(query), walk):
        yield from map(describe_sign_in, found)


def filter_sign_ins(query: EventQuery) -> QuerySet[SignInRecord]:
    rows = SignInRecord.objects.filter(match_values(query.actor, "username"))
    if query.since:
        rows = rows.filter(id__gte=first_id(query.since - SLACK), at__gte=query.since)
    if query.until:
        rows = rows.filter(id__lt=first_id(query.until + SLACK), at__lt=query.until)
    return rows.filter(match_instance(query, "username", "at"))


def describe_sign_in(row: SignInRecord) -> AuditRecord:
    did, icon = SIGN_INS[SignInOutcome(row.outcome)]
    browser = describe_browser(row.user_agent)
    return AuditRecord(
        id=row.pk,
        at=row.at,
        who=row.username or "no account",
        kind=f"sign_in.{row.outcome}",
        did=did,
        what=f"from {row.address or 'an unknown address'}, {browser}",
        reason="",
        source="sign-in",
        subject_type="account",
        subject_id=row.username,
        from_state="",
        to_state="",
        request_id="",
        icon=icon,
        data={"method": row.method, "address": row.address, "user_agent": row.user_agent},
    )


def count_records(query: EventQuery, scope: Scope) -> int:
    key = cache_key("audit-count", query, scope)
    return get_or_compute_slow(key, lambda: read_count(query, scope))


def cache_key(name: str, query: EventQuery, scope: Scope) -> str:
    """Return the key of a number about a query's records, which depend on the scope, too."""
    seen = (scope.project and scope.project.pk, scope.is_limited, scope.is_choice)
    return f"{name}:{hash_of((seen, query.text))}"


def read_count(query: EventQuery, scope: Scope) -> int:
    sources: list[QuerySet[Any]] = [*select_events(query, scope)]
    if shows_instance(query, scope):
        sources += [filter_admin_log(query), filter_sign_ins(query)]
    counts = {
        f"n{at}": CountOf(rows.order_by().values("pk")[:COUNT_CAP])
        for at, rows in enumerate(sources)
    }
    found = Project.objects.order_by().annotate(**counts).values_list(*counts)[:1]
    return min(COUNT_CAP, sum(next(iter(found), ())))
