"""What was given up for good: the list by cause, and one with its failures."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard import live_updates, query_box, rendering
from dashboard.access import operators_only
from dashboard.deadletters import causes, queries
from dashboard.deadletters.actions import ACTIONS, allowed_actions
from dashboard.deadletters.causes import Group
from dashboard.json_tree import size, tree
from dashboard.navigation import Scope, read_scope, requested_project
from dashboard.pagination import Page
from dashboard.rendering import HtmxRequest
from dashboard.selection import BulkQuestion, Selection, find_bulk_question
from dashboard.tasks import detail_queries
from dashboard.tasks import filters as task_filters
from dashboard.tasks.filters import TaskQuery
from ledger.models import DeadLetter

CRUMB = {"label": "Dead letters", "url": reverse_lazy("dashboard:deadletters")}
SEGMENTS = (("open", "Open"), ("replayed", "Replayed"), ("dismissed", "Dismissed"))
MOST = 20_000


@require_GET
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Those that the query asks for, by cause or newest first."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, project=requested_project(request), of=DeadLetter)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    scope = read_scope(request)
    query = task_filters.parse(request.GET.get("q", ""), task_filters.LETTER_KEYS)
    context = {"live_key": key, "now": now, **listing(request, query, scope)}
    return rendering.respond_with(
        request,
        "deadletters/index.html",
        "deadletters/_deadletters.html",
        context,
        scope=scope,
        current="deadletters",
    )


@require_GET
@operators_only
def detail(request: HtmxRequest, letter_id: UUID) -> HttpResponse:
    """One of them, with what went wrong in every attempt."""
    now = timezone.now()
    key = live_updates.read_live_key(now=now, row=letter_id, of=DeadLetter)
    if rendering.is_unchanged(request, key):
        return rendering.unchanged()
    letter = queries.one(letter_id)
    if letter is None:
        raise Http404(f"There is no dead letter {letter_id}.")
    attempts = detail_queries.list_attempts(letter.task)
    offers = allowed_actions(letter)
    wanted = ACTIONS.get(request.GET.get("ask", ""))
    context = {
        "live_key": key,
        "now": now,
        "title": f"{str(letter.task)[:60]} · Dead letter",
        "heading": f"…{str(letter.pk)[-8:]}",
        "crumbs": [CRUMB],
        "letter": letter,
        "row": letter.task,
        "offers": offers,
        "asked": wanted if wanted in offers else None,
        "failures": detail_queries.failures_of(attempts),
        "waiting": letter.waiting,
        "payload": tree(letter.payload),
        "payload_size": size(letter.payload),
    }
    return rendering.respond_with(
        request,
        "deadletters/detail.html",
        "deadletters/_deadletter.html",
        context,
        scope=read_scope(request),
        current="deadletters",
    )


# ---- the list


@dataclass(frozen=True, slots=True)
class Segment:
    label: str
    query: str
    count: int
    current: bool


def listing(request: HtmxRequest, query: TaskQuery, scope: Scope) -> dict[str, Any]:
    """The rows that the query asks for in groups, with the counts of the others."""
    counts = queries.counts(query, scope.project)
    page = queries.listed(
        queries.letters(query, scope.project),
        before=query_box.as_id(request.GET.get("before", "")),
        after=query_box.as_id(request.GET.get("after", "")),
    )
    by_cause = request.GET.get("group") != "time"
    groups = causes.grouped(page.rows) if by_cause else []
    shown = "open" if query.one_state == "all" else query.one_state
    return {
        "heading": "Dead letters",
        "title": title(counts["open"]) if query.text == "" else f"{query.text} · Dead letters",
        "query": query,
        "segments": segments(query, counts, shown),
        "total": counts.get(shown),
        "page": page,
        "by_cause": by_cause,
        "groups": groups or ([Group("", page.rows)] if page.rows else []),
        "cause": chosen_cause(request, groups),
        "asked": question(request, query, scope, newest=newest(page)),
        "chosen": {str(id) for id in filter(None, map(query_box.as_id, request.GET.getlist("id")))},
        "offers": list(ACTIONS.values()),
        "handled": queries.handled(scope.project) if not query.text else [],
        "newest": newest(page),
        "can_act_on_all": shown == "open" and bool(page.older) and page.newer is None,
        "most": MOST,
    }


def newest(page: Page[Any]) -> UUID | None:
    return page.rows[0].pk if page.rows else None


def title(count: int) -> str:
    if not count:
        return "Dead letters"
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def segments(query: TaskQuery, counts: dict[str, int], shown: str) -> list[Segment]:
    return [
        Segment(
            label,
            query.having("state", "" if name == "open" else f"state:{name}"),
            counts[name],
            name == shown,
        )
        for name, label in SEGMENTS
    ]


def chosen_cause(request: HtmxRequest, groups: list[Group]) -> Group | None:
    """The group that is told of beside the list: the one asked for, else the largest."""
    wanted = request.GET.get("cause", "")
    return next((group for group in groups if group.id == wanted), groups[0] if groups else None)


def question(
    request: HtmxRequest, query: TaskQuery, scope: Scope, *, newest: UUID | None
) -> BulkQuestion | None:
    """What is asked before many are acted on; those that came in since are not meant."""
    found = find_bulk_question(request, ACTIONS)
    if found is None:
        return None
    offer, rows = found
    if rows.every is None:
        return BulkQuestion(offer, rows, len(rows.ids))
    matching = every(query, scope, upto=rows.every)
    return BulkQuestion(offer, Selection([], rows.every), len(matching))


def every(query: TaskQuery, scope: Scope, *, upto: UUID) -> list[UUID]:
    """The open ones that the query asks for, the oldest first, as many as are done in one go."""
    rows = queries.letters(query, scope.project).filter(closed_at=None, id__lte=upto)
    return list(rows.order_by("id").values_list("pk", flat=True)[:MOST])
