"""The inbox: the list of escalations, and one of them with its evidence and the answer panel."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse

from dashboard.date_range import open_dates
from dashboard.escalations import queries
from dashboard.escalations.answer_form import NO_REPLY, Reply
from dashboard.escalations.calls.decision import Decision, build_decision
from dashboard.escalations.evidence import collect_evidence, preview_context
from dashboard.escalations.inbox import filters
from dashboard.escalations.inbox.address import read_address
from dashboard.escalations.inbox.page import Inbox, read_inbox
from dashboard.escalations.panel import build_form, describe_answer, find_last_answer
from dashboard.escalations.presence import find_answering, read_last_start
from dashboard.escalations.rows import build_tabs, read_listing, read_state
from dashboard.escalations.snooze_times import list_snooze_times
from dashboard.frame.live_updates import hash_part, read_inbox_live_key
from dashboard.frame.navigation import Shell
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page, wants_part
from dashboard.lists.nearest_names import suggest_names
from dashboard.lists.shared_queries import silent_after
from dashboard.saved_views.strip import ViewStrip, parse_saved, read_views
from ledger.authorization.permissions import may
from retries.escalations.lifecycle import note_view
from retries.escalations.record import load_record
from retries.models import Escalation
from retries.on_call.holders import describe_holder
from retries.verbs import escalations
from retries.verbs.verb import Verb

TEMPLATE, PART = "escalations/index.html", "escalations/_inbox.html"


def read_key(now: datetime) -> str:
    return f"{read_inbox_live_key(now=now)}.{hash_part(read_last_start())}"


@live_page(TEMPLATE, PART, current="escalations", read_key=read_key)
def index(visit: Visit) -> PageContext | HttpResponse:
    query = filters.parse(visit.request.GET.get("q", ""))
    return open_dates(visit.request, query, "opened") or build_page(visit)


@live_page(TEMPLATE, PART, current="escalations", read_key=read_key)
def detail(visit: Visit, escalation_id: UUID) -> PageContext:
    escalation = queries.find_escalation(escalation_id, visit.scope.project, now=visit.now)
    # a script would treat a 404 as a lost connection
    status = 200 if escalation or wants_part(visit.request) else 404
    return build_page(visit, escalation, requested=escalation_id, status_code=status)


def build_page(
    visit: Visit,
    escalation: Escalation | None = None,
    *,
    requested: UUID | None = None,
    reply: Reply = NO_REPLY,
    status_code: int = 200,
) -> PageContext:
    now, state = visit.now, read_state(visit)
    address = read_address(visit)
    inbox = None if state else read_inbox(visit, address, requested)
    listing = read_listing(visit, state, requested)
    if requested is None:
        first = inbox.first if inbox else next((each.row.pk for each in listing.entries), None)
        escalation = queries.find_escalation(first, visit.scope.project, now=now) if first else None
    record = load_record(escalation) if escalation else None
    row = escalation.instruction if escalation else None
    is_open = escalation is not None and escalation.is_open
    is_list = requested is None or "list" in visit.request.GET
    # a phone shows the list alone; where there is room for both, its script asks for the page
    if escalation and is_open and escalation.seen_at is None and not is_list:
        note_view(escalation.pk, now=now)
    decision = find_decision(escalation, reply, visit)
    answer_form = (
        build_form(escalation, record, reply) if escalation and is_open and not decision else None
    )
    query = inbox.link_query if inbox else listing.query
    listed = inbox.address.build() if inbox else query
    counts = inbox or listing.counts
    return compose_page(
        title=page_title(visit.shell),
        heading="Escalations",
        status_code=status_code,
        scope=visit.scope,
        tabs=build_tabs(visit, state, snoozed=counts.snoozed, answered=counts.closed),
        inbox=inbox,  # set if the list shows the open escalations
        # the inbox's views, if it can be filtered
        views=read_inbox_views(visit, inbox, escalation) if inbox and not inbox.is_small else None,
        listing=listing,  # the list of snoozed or answered escalations
        is_list=is_list,  # whether a phone shows the list instead of the escalation
        # whether the filter hides the shown escalation
        is_hidden=bool(inbox and is_open and requested and not inbox.place),
        # the address that the page polls
        poll=poll_url(
            escalation.pk if escalation else requested,
            listed if is_list else query,
            is_list=is_list,
        ),
        # whether the escalation in the address does not exist
        is_missing=requested is not None and escalation is None,
        reply=reply,
        silent_since=now - silent_after(),
        escalation=escalation,
        row=row,
        task=escalation.task if escalation else None,
        answer_form=answer_form,
        decision=decision,  # the form of a permission request
        # another person who is typing an answer
        answering=find_answering(escalation.pk, visit.request.user.get_username())
        if escalation and is_open
        else None,
        answer=describe_answer(escalation, reply, now=now) if escalation and not is_open else None,
        # the one given just before, while it can be undone
        last_answer=find_last_answer(visit) if is_open else None,
        # set if no escalation is open
        last_closed=None if escalation else queries.find_last_closed(visit.scope.project),
        next_open=find_next_open(inbox, escalation) if escalation and not is_open else None,
        snooze_times=list_snooze_times(now) if is_open else [],
        # who has it by its policy, and what comes next
        holder=describe_holder(escalation, now=now) if escalation else None,
        evidence=collect_evidence(escalation, record, now=now) if escalation else None,
        preview=preview_context(escalation, record, answer_form.text)
        if escalation and record and answer_form
        else None,
        query=query,  # the address's query string, which forms keep
        # the bulk actions that the person may start
        bulk_verbs=list_bulk_verbs(visit) if inbox else (),
        hints=suggest_names(
            inbox.query if inbox else listing.box,
            "escalations",
            visit.scope.project,
            found=bool(inbox.total if inbox else listing.entries),
        ),
    )


def find_decision(escalation: Escalation | None, reply: Reply, visit: Visit) -> Decision | None:
    if escalation is None or not (escalation.is_open and escalation.permission_id):
        return None
    return build_decision(escalation, reply, visit)


def list_bulk_verbs(visit: Visit) -> tuple[Verb, ...]:
    project = visit.scope.project.pk if visit.scope.project else None
    person = visit.request.user
    needed = ("retries.add_operation", escalations.ANSWER.permission)
    return escalations.VERBS if all(may(person, each, project) for each in needed) else ()


def read_inbox_views(visit: Visit, inbox: Inbox, escalation: Any) -> ViewStrip:
    # The escalation's statement has read the saved views.
    saved = parse_saved(escalation.saved_views) if escalation else None
    return read_views(visit, "escalations", inbox.query.text, inbox.address.shown_sort, saved=saved)


def find_next_open(inbox: Inbox | None, escalation: Escalation) -> Escalation | None:
    id = (inbox.next or inbox.first) if inbox else None
    return queries.find_listed(id) if id and id != escalation.pk else None


def page_title(shell: Shell) -> str:
    if not shell.needs_you:
        return "Escalations"
    needs = "needs" if shell.needs_you == 1 else "need"
    return f"{shell.needs_you_number} {needs} an answer · Escalations"


def escalation_url(escalation_id: UUID, query: str) -> str:
    return reverse("dashboard:escalation", args=[escalation_id]) + query


def poll_url(shown: UUID | None, query: str, *, is_list: bool = False) -> str:
    # The page polls for the escalation that it shows. The first one of the list may be answered
    # elsewhere, and another one must not replace it on the screen while a person reads.
    if not shown:
        return reverse("dashboard:escalations") + query
    more = f"{'&' if query else '?'}list=yes" if is_list else ""
    return escalation_url(shown, query) + more
