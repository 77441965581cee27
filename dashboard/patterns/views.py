"""Failures that say the same: the list of their patterns, and one with why it is one."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import live_updates, query_box, rendering
from dashboard.access import operators_only
from dashboard.navigation import read_scope, requested_project
from dashboard.patterns import queries
from dashboard.patterns.actions import ACTIONS, allowed_actions
from dashboard.rendering import HtmxRequest
from dashboard.selection import BulkQuestion, find_bulk_question
from retries.failures import suggestions
from retries.models import FailurePattern

CRUMB = {"label": "Patterns", "url": reverse_lazy("dashboard:patterns")}
SEGMENTS = (("open", "Open"), ("ignored", "Ignored"), ("resolved", "Resolved"), ("all", "All"))
WORDS_LENGTH = 100
LAST_PAGE = queries.CONSIDERED // queries.PAGE + 1
# how long a pattern can be ignored -> how it is called
TIMES = ((3600, "1 hour"), (86_400, "1 day"), (7 * 86_400, "1 week"), (30 * 86_400, "30 days"))


@require_GET
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Those that nobody has dealt with yet, or those in the state that is asked for."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=requested_project(request), of=FailurePattern)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    words = query_box.clean(request.GET.get("q", ""))[:WORDS_LENGTH]
    state = request.GET.get("state", "open")
    state = state if state in queries.STATES else "open"
    often = request.GET.get("sort") == "often"
    counts = queries.counts(scope.project, words=words)
    listed = queries.listed(
        scope.project, state=state, words=words, often=often, page=page_of(request), now=now
    )
    context = {
        "live_key": key,
        "now": now,
        "title": f"{counts['open']:,} open · Patterns" if counts["open"] else "Patterns",
        "heading": "Patterns",
        "words": words,
        "state": state,
        "often": often,
        "counts": counts,
        "segments": segments(counts, state),
        "listed": listed,
        "asked": question(request),
        "chosen": {str(id) for id in filter(None, map(query_box.as_id, request.GET.getlist("id")))},
        "offers": list(ACTIONS.values()),
        "considered": queries.CONSIDERED,
    }
    return rendering.respond_with(
        request,
        "patterns/index.html",
        "patterns/_patterns.html",
        context,
        scope=scope,
        current="patterns",
    )


@require_GET
@operators_only
def detail(request: HtmxRequest, pattern_id: UUID) -> HttpResponse:
    """One of them: why these failures are one, what may help, and what stands still."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, of=FailurePattern)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    row = queries.one(pattern_id)
    if row is None:
        raise Http404(f"There is no pattern {pattern_id}.")
    stuck = queries.stuck(row)
    offers = allowed_actions(row.state, stuck=stuck.total)
    wanted = ACTIONS.get(request.GET.get("ask", ""))
    context = {
        "live_key": key,
        "now": now,
        "title": f"{row.template[:60]} · Pattern",
        "heading": row.fingerprint[:8],
        "crumbs": [CRUMB],
        "row": row,
        "stuck": stuck,
        "offers": offers,
        "asked": wanted if wanted in offers and wanted and wanted.question else None,
        "days": queries.days(row, now=now),
        "agents": queries.agents(row),
        "times": TIMES,
        **of_failures(row),
    }
    return rendering.respond_with(
        request,
        "patterns/detail.html",
        "patterns/_pattern.html",
        context,
        scope=read_scope(request),
        current="patterns",
    )


def of_failures(row: FailurePattern) -> dict[str, Any]:
    """What the newest failures of a pattern tell of it."""
    found = queries.failures(row)
    return {
        "failures": found[: queries.FAILURES_SHOWN],
        "examples": queries.examples(found),
        "total": row.grouped.count(),
        "suggestion": suggestions.suggest(found[0].failure) if found else None,
        "worked": suggestions.list_worked_fixes(row.pk),
    }


# ---- the list


@dataclass(frozen=True, slots=True)
class Segment:
    label: str
    state: str | None  # nothing is the same as open
    count: int
    current: bool


def segments(counts: dict[str, int], shown: str) -> list[Segment]:
    return [
        Segment(label, None if name == "open" else name, counts[name], name == shown)
        for name, label in SEGMENTS
    ]


def page_of(request: HtmxRequest) -> int:
    """The number in the address; nonsense is the first page."""
    text = request.GET.get("page", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 1
    return min(max(number, 1), LAST_PAGE)


def question(request: HtmxRequest) -> BulkQuestion | None:
    """What is asked before many are acted on."""
    found = find_bulk_question(request, ACTIONS)
    return BulkQuestion(found[0], found[1], len(found[1].ids)) if found and found[1].ids else None
