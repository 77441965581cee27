"""Read the audit log: what people did, from the journal and from the admin's own log."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.db.models import QuerySet

from dashboard.activity.filters import EventQuery
from dashboard.activity.queries import describe_events, filter_events, with_extras
from dashboard.navigation import Scope
from dashboard.pagination import PAGE
from dashboard.query_box import ANY
from dashboard.shared_queries import match_values
from ledger.ids import first_id
from ledger.models.event import EventQuerySet

BATCH = 500  # records that an export reads at a time
COUNT_CAP = 10_000
ADMIN_VERBS = {1: "added", 2: "changed", 3: "deleted"}


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Something that a person did; `id` is its place in the log."""

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


def acts_of_people(query: EventQuery, scope: Scope) -> EventQuerySet:
    """Return the events of a query that people caused; a partial index has them."""
    return filter_events(query, scope.project).filter(actor_type="user")


def list_records(query: EventQuery, scope: Scope, *, before: UUID | None) -> list[AuditRecord]:
    """Return a page of records, newest first, and one more if there are older ones."""
    return list(islice(read_records(query, scope, before=before, batch=PAGE + 1), PAGE + 1))


def read_records(
    query: EventQuery, scope: Scope, *, before: UUID | None = None, batch: int = BATCH
) -> Iterator[AuditRecord]:
    """Yield the records of a query, newest first, a batch at a time."""
    sources = [read_events(query, scope, before=before, batch=batch)]
    if shows_admin_log(query, scope):
        sources.append(read_admin_log(query, before=before, batch=batch))
    return merge(*sources, key=lambda record: record.id, reverse=True)


def shows_admin_log(query: EventQuery, scope: Scope) -> bool:
    """Return whether entries of the admin belong to it: they have no project, kind or agent."""
    if query.kind != ANY or query.agent != ANY or query.about or scope.is_limited:
        return False
    return scope.project is None or not scope.is_choice


def read_events(
    query: EventQuery, scope: Scope, *, before: UUID | None, batch: int
) -> Iterator[AuditRecord]:
    rows = with_extras(acts_of_people(query, scope))
    while True:
        older = rows.filter(id__lt=before) if before else rows
        found = list(older.order_by("-id")[:batch])
        for entry in describe_events(found):
            event, sentence = entry.event, entry.sentence
            data = event.data if isinstance(event.data, dict) else {}
            yield AuditRecord(
                id=event.pk,
                at=event.at,
                who=event.actor_name,
                kind=event.kind,
                did=sentence.does,
                what=f"{sentence.quote}{sentence.tail}".lstrip(":, ") or entry.agent,
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
        if len(found) < batch:
            return
        before = found[-1].pk


def read_admin_log(query: EventQuery, *, before: UUID | None, batch: int) -> Iterator[AuditRecord]:
    rows = filter_admin_log(query).select_related("user", "content_type")
    last: int | None = None
    while True:
        older = rows.filter(pk__lt=last) if last else rows
        found = list(older.order_by("-id")[:batch])
        for row in found:
            record = admin_record(row)
            if before is None or record.id < before:
                yield record
        if len(found) < batch:
            return
        last = found[-1].pk


def filter_admin_log(query: EventQuery) -> QuerySet[LogEntry]:
    rows = LogEntry.objects.filter(match_values(query.actor, "user__username"))
    if query.since:
        rows = rows.filter(action_time__gte=query.since)
    if query.until:
        rows = rows.filter(action_time__lt=query.until)
    return rows


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


def count_records(query: EventQuery, scope: Scope) -> int:
    """Return the number of records, up to COUNT_CAP."""
    events = acts_of_people(query, scope).order_by()[:COUNT_CAP].count()
    if not shows_admin_log(query, scope):
        return events
    own = filter_admin_log(query).order_by()[:COUNT_CAP].count()
    return min(COUNT_CAP, events + own)
