"""The inbox: what needs a person, the longest waiting first, and its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard import live_updates, rendering, shared_queries
from dashboard.access import operators_only
from dashboard.badges import ANSWER_ICONS
from dashboard.escalations import evidence as escalation_evidence
from dashboard.escalations import outcome, queries
from dashboard.escalations.answer_form import (
    NOTHING_SAID,
    Reply,
    said_in,
    settle,
    take_back,
    words_in,
)
from dashboard.escalations.context_preview import painted
from dashboard.escalations.rows import Listing, lined_up, listed
from dashboard.navigation import Scope, Shell, build_shell, read_scope
from dashboard.rendering import HtmxRequest
from dashboard.sentences import instructions as sentences_instructions
from ledger.errors import Refusal
from ledger.journal import person
from retries.escalations import answer_outcome, assignment
from retries.escalations import record as escalation_record
from retries.escalations.choices import FIX_LENGTH
from retries.escalations.options import Option, options
from retries.escalations.record import Record, record_of
from retries.escalations.response_schema import fields
from retries.models import Escalation
from retries.states import Answer

# the key that chooses each answer
KEYS = {
    Answer.FIX: "f",
    Answer.RETRY: "r",
    Answer.SKIP: "s",
    Answer.ABORT: "a",
    Answer.ANSWER: "f",
}


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """The one that waits longest; where the answered ones are asked for, the last of them."""
    now = timezone.now()
    key = live_updates.read_inbox_live_key(now=now)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    listing = listed(request, shell_for(request))
    first = listing.page.lines[0] if listing.page.lines else None
    escalation = queries.one(first.pk, now=now) if first else None
    return page(request, listing, escalation, key=key, now=now)


@require_safe
@operators_only
def detail(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    """One of them, beside the list."""
    now = timezone.now()
    key = live_updates.read_inbox_live_key(now=now)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    escalation = queries.one(escalation_id, now=now)
    # to a script 404 would look like a lost connection
    status = 200 if escalation or rendering.wants_part(request) else 404
    listing = listed(request, shell_for(request))
    return page(
        request, listing, escalation, key=key, now=now, missing=escalation_id, status=status
    )


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def answer(request: HtmxRequest, escalation_id: UUID) -> HttpResponseBase:
    """Settle one. Answers a script with the panel alone, else with a redirect or the page."""
    return replied(request, escalation_id, settle)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def undo(request: HtmxRequest, escalation_id: UUID) -> HttpResponseBase:
    """Take an answer back while its task still waits for that."""
    return replied(request, escalation_id, take_back)


@require_POST
@operators_only
def preview(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    """What the next attempt is told, with the words that are being typed."""
    escalation = queries.one(escalation_id, now=timezone.now())
    if escalation is None or escalation.task is None or not escalation.is_open:
        return HttpResponse(status=204)
    record, words = Record(escalation.task), said_in(request, escalation)
    context = {"escalation": escalation, **told_next(escalation, record, words)}
    return render(request, "escalations/_preview.html", context)


@require_POST
@operators_only
def remark(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    """Keep a remark for whoever else looks."""
    text = request.POST.get("text", "").replace("\0", "")
    return beside(request, escalation_id, partial(assignment.comment, escalation_id, text))


@require_POST
@operators_only
def care(request: HtmxRequest, escalation_id: UUID) -> HttpResponse:
    """Say that the one who looks takes care of it."""
    name = request.user.get_username()
    return beside(request, escalation_id, partial(assignment.assign, escalation_id, name))


def beside(request: HtmxRequest, escalation_id: UUID, keep: Callable[..., object]) -> HttpResponse:
    """Do what is no answer, and go back to the page."""
    try:
        keep(among=Escalation.objects.all(), actor=person(request.user), now=timezone.now())
    except Refusal as refusal:
        messages.warning(request, refusal.detail)
    return redirect(address(escalation_id, read_scope(request).query))


def replied(
    request: HtmxRequest, escalation_id: UUID, give: Callable[..., Reply]
) -> HttpResponseBase:
    """The panel or the page after what was posted was done."""
    scope = read_scope(request)
    if request.method != "POST":  # who had to sign in first comes back here
        return redirect(address(escalation_id, scope.query))
    now = timezone.now()
    before = queries.one(escalation_id, now=now)
    reply = give(request, before, now=now) if before else Reply(404, words_in(request))
    escalation = queries.one(escalation_id, now=now)
    if rendering.wants_part(request):
        return panel(request, scope, escalation, reply, now=now)
    if reply.is_done and escalation:
        messages.success(request, outcome.done(escalation))
        return redirect(address(escalation_id, scope.query))
    return page(
        request,
        listed(request, shell_for(request)),
        escalation,
        key=live_updates.read_inbox_live_key(now=now),
        now=now,
        missing=escalation_id,
        reply=reply,
        status=reply.status,
    )


def shell_for(request: HtmxRequest) -> Shell:
    return build_shell(request, read_scope(request), current="escalations")


def panel(
    request: HtmxRequest,
    scope: Scope,
    escalation: Escalation | None,
    reply: Reply,
    *,
    now: datetime,
) -> HttpResponse:
    """The panel alone; the rest of the page hears that something has changed."""
    context = {"scope": scope, "now": now, "reply": reply}
    if escalation:
        context |= chosen(escalation, record_of(escalation), reply, now=now)
        context["next_open"] = queries.next_open(scope.project, but=escalation.pk)
    template = "escalations/_panel.html" if escalation else "escalations/_vanished.html"
    response = render(request, template, context, status=reply.status)
    patch_vary_headers(response, ["HX-Request"])
    response["HX-Trigger"] = "ledger-changed"
    return response


# ---- the page


def page(
    request: HtmxRequest,
    listing: Listing,
    escalation: Escalation | None,
    *,
    key: str,
    now: datetime,
    missing: UUID | None = None,
    reply: Reply = NOTHING_SAID,
    status: int = 200,
) -> HttpResponse:
    shell = listing.shell
    lines, recent = lined_up(listing, escalation, now=now)
    context = {
        "live_key": key,
        "now": now,
        "away_since": now - shared_queries.silent_after(),
        "title": title(shell.needs_you),
        "heading": "Escalations",
        "scope": shell.scope,
        "listing": listing,
        "lines": lines,
        "recent": recent,
        "missing": missing,
        "poll": poll_of(escalation.pk if escalation else missing, listing.query),
        "reply": reply,
    }
    if escalation:
        record = record_of(escalation)
        context |= chosen(escalation, record, reply, now=now)
        context |= evidence(escalation, record, reply)
        if not escalation.is_open:
            context["next_open"] = listing.next_open(but=escalation)
    response = rendering.respond_with(
        request,
        "escalations/index.html",
        "escalations/_inbox.html",
        context,
        scope=shell.scope,
        current="escalations",
        shell=shell,
    )
    response.status_code = status
    return response


def address(escalation_id: UUID, query: str) -> str:
    return reverse("dashboard:escalation", args=[escalation_id]) + query


def poll_of(shown: UUID | None, query: str) -> str:
    """Where the page looks for news.

    Pinned to what is shown, so that nothing else slides under the reader's hands when the one that
    waits longest is answered elsewhere.
    """
    return address(shown, query) if shown else reverse("dashboard:escalations") + query


def title(waiting: int) -> str:
    if not waiting:
        return "Escalations"
    return f"{waiting:,} need{'s' if waiting == 1 else ''} an answer · Escalations"


@dataclass(frozen=True, slots=True)
class Offer:
    """An option with its letter and symbol."""

    option: Option
    key: str
    icon: str


def chosen(
    escalation: Escalation, record: Record | None, reply: Reply, *, now: datetime
) -> dict[str, Any]:
    """What the panel shows: the options of an open one, the answer to a closed one."""
    common = {"escalation": escalation, "row": escalation.instruction, "task": escalation.task}
    if not escalation.is_open:
        said = outcome.done(escalation) if reply.is_done else ""
        until = escalation.undo_until
        left = (until - now).total_seconds() if until else 0
        since = queries.since([escalation]).get(escalation.pk)
        return common | {
            "verdict": outcome.verdict(escalation, since),
            "consequence": answer_outcome.consequence(escalation),
            "now_task": since.task_id if since else escalation.task_id,
            "now_state": since.state if since else escalation.task and escalation.task.state,
            "done": said,
            "undo_left": round(left, 1) if left > 0 else None,
        }
    offers = [
        Offer(option, KEYS[option.name], ANSWER_ICONS[option.name])
        for option in options(escalation, record)
    ]
    fix, *other_words = [offer for offer in offers if offer.option.requires_text]
    return common | {
        "fix": fix,
        "other_words": other_words,
        "offers": [offer for offer in offers if not offer.option.requires_text],
        "suggestions": escalation_evidence.offers(record) if record else [],
        "fix_length": FIX_LENGTH,
        "fields": fields(escalation.response_schema or {}, reply.typed),
    }


def evidence(escalation: Escalation, record: Record | None, reply: Reply) -> dict[str, Any]:
    """What happened to the instruction or the task that an escalation is about."""
    if record:
        told = told_next(escalation, record, reply.words) if escalation.is_open else {}
        return {
            "case": escalation_evidence.case(escalation, record),
            "remarks": queries.remarks(escalation.pk),
            "message": escalation_record.told(escalation, record),
            **told,
        }
    row = escalation.instruction
    if row is None:
        return {}
    former = [(each, outcome.verdict(each)) for each in queries.former(row)]
    return {
        "received": sentences_instructions.describe_received(row),
        "steps": sentences_instructions.describe_steps(
            shared_queries.list_history(row.pk), agent=escalation.agent.name
        ),
        "loud": sentences_instructions.urgency_word(row.retry_count),
        "former": former,
    }


def told_next(escalation: Escalation, record: Record, words: str) -> dict[str, Any]:
    """What the next attempt would be told with these words."""
    block = escalation_evidence.preview(escalation, record, words[:FIX_LENGTH])
    return {"next_told": painted(block), "next_size": len(block), "typed": bool(words.strip())}
