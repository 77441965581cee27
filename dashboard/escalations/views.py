"""The inbox: the list of escalations, and one of them with its evidence and the answer panel."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from dashboard.escalations import queries
from dashboard.escalations.answer_form import NO_REPLY, Reply
from dashboard.escalations.evidence import (
    ContextPreview,
    InstructionEvidence,
    TaskEvidence,
    collect_evidence,
    preview_context,
)
from dashboard.escalations.panel import AnswerForm, GivenAnswer, build_form, describe_answer
from dashboard.escalations.rows import EscalationRow, Listing, build_rows, read_listing
from dashboard.live_updates import read_inbox_live_key
from dashboard.navigation import Scope
from dashboard.rendering import PageContext, Visit, live_page, wants_part
from dashboard.shared_queries import silent_after
from ledger.models import Instruction, Task
from retries.escalations.first_view import note_view
from retries.escalations.record import load_record
from retries.models import Escalation

TEMPLATE, PART = "escalations/index.html", "escalations/_inbox.html"


def read_key(now: datetime) -> str:
    return read_inbox_live_key(now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage(PageContext):
    scope: Scope
    listing: Listing
    entries: list[EscalationRow]
    recent: list[EscalationRow]
    poll: str  # the address that the page polls
    is_missing: bool  # whether the escalation in the address does not exist
    reply: Reply
    silent_since: datetime
    escalation: Escalation | None
    row: Instruction | None
    task: Task | None
    answer_form: AnswerForm | None
    answer: GivenAnswer | None
    next_open: Escalation | None
    evidence: TaskEvidence | InstructionEvidence | None
    preview: ContextPreview | None


@live_page(TEMPLATE, PART, current="escalations", read_key=read_key)
def index(visit: Visit) -> InboxPage:
    """Show the first escalation of the list."""
    listing = read_listing(visit)
    first = listing.page.rows[0] if listing.page.rows else None
    escalation = queries.find_escalation(first.pk, now=visit.now) if first else None
    return build_page(visit, listing, escalation)


@live_page(TEMPLATE, PART, current="escalations", read_key=read_key)
def detail(visit: Visit, escalation_id: UUID) -> InboxPage:
    """Show one escalation beside the list."""
    escalation = queries.find_escalation(escalation_id, now=visit.now)
    # a script would take a 404 for a lost connection
    status = 200 if escalation or wants_part(visit.request) else 404
    return build_page(
        visit, read_listing(visit), escalation, requested=escalation_id, status_code=status
    )


def build_page(
    visit: Visit,
    listing: Listing,
    escalation: Escalation | None,
    *,
    requested: UUID | None = None,
    reply: Reply = NO_REPLY,
    status_code: int = 200,
) -> InboxPage:
    now = visit.now
    entries, recent = build_rows(listing, escalation, now=now)
    record = load_record(escalation) if escalation else None
    row = escalation.instruction if escalation else None
    is_open = escalation is not None and escalation.is_open
    if escalation and is_open and escalation.seen_at is None:
        note_view(escalation.pk, now=now)
    return InboxPage(
        title=page_title(visit.shell.needs_you),
        heading="Escalations",
        status_code=status_code,
        scope=visit.scope,
        listing=listing,
        entries=entries,
        recent=recent,
        poll=poll_url(escalation.pk if escalation else requested, listing.query),
        is_missing=requested is not None and escalation is None,
        reply=reply,
        silent_since=now - silent_after(),
        escalation=escalation,
        row=row,
        task=escalation.task if escalation else None,
        answer_form=build_form(escalation, record, reply) if escalation and is_open else None,
        answer=describe_answer(escalation, reply, now=now) if escalation and not is_open else None,
        next_open=listing.find_next_open(but=escalation) if escalation and not is_open else None,
        evidence=collect_evidence(escalation, record) if escalation else None,
        preview=preview_context(escalation, record, reply.message)
        if escalation and record and is_open
        else None,
    )


def page_title(open_count: int) -> str:
    if not open_count:
        return "Escalations"
    return f"{open_count:,} need{'s' if open_count == 1 else ''} an answer · Escalations"


def escalation_url(escalation_id: UUID, query: str) -> str:
    return reverse("dashboard:escalation", args=[escalation_id]) + query


def poll_url(shown: UUID | None, query: str) -> str:
    """Return the address that the page polls: always the escalation that it shows.

    The first one of the list may be answered elsewhere; another one must not replace it on the
    screen while a person reads.
    """
    return escalation_url(shown, query) if shown else reverse("dashboard:escalations") + query
