"""The page of an operation with its progress and its result."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse

from dashboard.frame import rendering
from dashboard.frame.found_rows import require_row
from dashboard.frame.live_updates import stamp_key
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import Crumb, HtmxRequest, PageContext, Visit, compose_page
from dashboard.operations import queries
from dashboard.operations.listing import build_entry
from dashboard.operations.selections import NOUNS
from dashboard.sentences.event_sentence import EventSentence
from dashboard.sentences.operations import describe_operation_event
from dashboard.wording.formatting import duration
from ledger.database import server_time
from ledger.models import Event
from retries.models import Operation
from retries.models.operation import OperationState
from retries.verbs.escalations import ANSWER

PLACES = {noun: listed.place for noun, listed in NOUNS.items()}
LABELS = {
    "task": "Tasks",
    "dead_letter": "Dead letters",
    "instruction": "Instructions",
    "escalation": "Escalations",
    "pattern": "Patterns",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """An operation's progress, in percent of the bar's width, and its speed."""

    changed: float
    refused: float
    done: int
    per_second: float | None
    left_s: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """An event of an operation in words."""

    event: Event
    sentence: EventSentence


def detail(request: HtmxRequest, operation_id: UUID) -> HttpResponse:
    # The part polls itself until the operation is over.
    scope, now = read_scope(request), server_time.now()
    row = require_row(queries.find_operation(scope, operation_id), "operation", operation_id)
    key = build_live_key(row, now)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    visit = Visit(request, scope, PLACES[row.noun], now, key)
    page = build_page(row, now=now, ask_stop=request.GET.get("ask") == "stop")
    return rendering.respond(visit, "operations/detail.html", "operations/_operation.html", page)


def build_live_key(row: Operation, now: datetime) -> str:
    return stamp_key(now, f"{row.state}.{row.changed}.{row.refused}")


def build_page(row: Operation, *, now: datetime, ask_stop: bool) -> PageContext:
    entry = build_entry(row)
    done = row.changed + row.refused
    running = row.state == OperationState.RUNNING
    return compose_page(
        title=f"{done:,} of {row.total:,} · {entry.title}" if running else entry.title,
        heading=entry.title,
        crumbs=(Crumb(LABELS[row.noun], reverse(f"dashboard:{PLACES[row.noun]}")),),
        entry=entry,
        row=row,
        progress=measure_progress(row, now=now),
        changed=queries.list_changed(row),
        refused=queries.list_refused(row),
        steps=[Step(event, describe_operation_event(event)) for event in queries.list_steps(row)],
        projects=queries.list_project_names(row),
        list_page=f"dashboard:{PLACES[row.noun]}",
        gone=row.matching - row.total,  # rows that had changed before the operation was stored
        # the answer that it gives to escalations
        answer=row.options["action"] if row.verb == ANSWER.name else "",
        starts_in_s=max(0, round((row.starts_at - now).total_seconds())),
        ask_stop=ask_stop and row.is_under_way,
    )


def measure_progress(row: Operation, *, now: datetime) -> Progress:
    done, rate = row.changed + row.refused, None
    if row.started_at:
        seconds = ((row.ended_at or now) - row.started_at).total_seconds()
        rate = done / seconds if seconds >= 1 and done else None
    share = 100 / row.total
    left_s = row.left / rate if rate and row.state == OperationState.RUNNING else None
    return Progress(row.changed * share, row.refused * share, done, rate, left_s)


def took(row: Operation) -> str:
    if row.started_at is None or row.ended_at is None:
        return ""
    return duration((row.ended_at - row.started_at).total_seconds())
