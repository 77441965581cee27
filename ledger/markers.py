"""Set and delete markers, and find the one before a time."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction

from ledger import journal
from ledger.database import sql
from ledger.errors import Invalid
from ledger.journal import Kind, Stamp
from ledger.models import Marker, Project
from ledger.secrets.notes import clean_note, clean_title
from ledger.secrets.redaction import redacted

NAME_LENGTH, KIND_LENGTH, LINK_LENGTH, TEXT_LENGTH = 120, 32, 500, 2000
DEPLOY = "deploy"
EARLIEST = timedelta(days=400)
LATEST = timedelta(days=1)  # ahead of now
DELETED = 1_000  # markers of one statement
CAUSE = timedelta(hours=24)  # the longest time between a marker and what may follow from it


@transaction.atomic
def create_marker(
    name: str,
    *,
    project: Project,
    kind: str = DEPLOY,
    at: datetime | None = None,
    link: str = "",
    text: str = "",
    stamp: Stamp,
) -> Marker:
    """Set a marker, now or at another time; raises Invalid."""
    name, kind = clean_title(name)[:NAME_LENGTH], clean_title(kind)[:KIND_LENGTH]
    if not name:
        raise Invalid("/name", "Say what happened, such as “deploy 2024.11”.")
    if not kind:
        raise Invalid("/kind", "Give the marker a kind, such as deploy or change.")
    moment = at or stamp.at
    if not stamp.at - EARLIEST <= moment <= stamp.at + LATEST:
        raise Invalid(
            "/at",
            f"A marker’s time lies within the last {EARLIEST.days} days, or up to a day ahead.",
        )
    marker = Marker.objects.create(
        project=project,
        name=name,
        kind=kind,
        at=moment,
        link=check_link(link),
        text=clean_note(text, limit=TEXT_LENGTH),
        created_by=stamp.actor.name,
    )
    record_event(Kind.MARKER_CREATED, marker, stamp=stamp)
    return marker


def check_link(link: str) -> str:
    link = redacted(link.strip())
    if not link:
        return ""
    try:
        parts = urlsplit(link)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    is_plain = link.isprintable() and " " not in link and len(link) <= LINK_LENGTH
    if not is_web or not is_plain or "@" in parts.netloc:
        raise Invalid(
            "/link",
            f"The link must be an http or https address of at most {LINK_LENGTH} characters, "
            "without a user name.",
        )
    return link


@transaction.atomic
def delete_marker(marker: Marker, *, stamp: Stamp) -> bool:
    deleted, _ = Marker.objects.filter(pk=marker.pk).delete()
    if deleted:
        record_event(Kind.MARKER_DELETED, marker, stamp=stamp)
    return bool(deleted)


def record_event(kind: Kind, marker: Marker, *, stamp: Stamp) -> None:
    data = {"name": marker.name, "kind": marker.kind, "at": marker.at.isoformat()}
    link = {"link": marker.link} if marker.link else {}
    journal.record_about("marker", marker, kind, stamp=stamp, data=data | link)


BEFORE = """select p.id as of, m.id, m.project_id, m.name, m.kind, m.at, m.link, m.text,
    m.created_by, m.created_at
from unnest(%(ids)s::uuid[], %(projects)s::uuid[], %(times)s::timestamptz[]) p (id, project, at)
cross join lateral (
    select * from ledger_marker
    where project_id = p.project and at <= p.at and at > p.at - %(longest)s
    order by at desc, id desc limit 1
) m"""


def find_markers_before(times: Collection[tuple[UUID, UUID, datetime]]) -> Mapping[UUID, Marker]:
    """Return the last marker before each time; a time comes with an id and its project."""
    ids, projects, moments = ([*each] for each in zip(*times, strict=True)) if times else ([],) * 3
    rows = sql.run(BEFORE, ids=ids, projects=projects, times=moments, longest=CAUSE)
    return {row.pop("of"): Marker(**row) for row in rows}


DELETE_EXPIRED = """delete from ledger_marker where id = any(array(
    select id from ledger_marker where at < %(before)s order by at limit %(most)s
    for update skip locked)) returning id"""


def delete_expired(*, before: datetime) -> int:
    return len(sql.run(DELETE_EXPIRED, before=before, most=DELETED))
