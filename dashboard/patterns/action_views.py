"""Ignore, resolve, reopen or assign failure patterns, one or many; comment on one.

See `operations` for a retry.
"""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.actions import by_slug, change_once, find_verb, warn_refused
from dashboard.frame import toasts
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from dashboard.lists.selection import list_url, read_selection
from dashboard.patterns import queries
from ledger.errors import NotFound, Refusal
from ledger.journal import stamp_of
from retries.failures.fixes import verdicts as fix_verdicts
from retries.states import Verdict
from retries.verbs import patterns
from retries.verbs.verb import Verb

VERBS = by_slug((*patterns.PAGE, *patterns.PEOPLE))


def act(request: HtmxRequest, pattern_id: UUID, verb: str) -> HttpResponse:
    found, scope = find_verb(VERBS, verb), read_scope(request)
    if not queries.exists(pattern_id):
        raise Http404(f"There is no pattern {pattern_id}.")
    carry_out(request, found, [pattern_id])
    return redirect(reverse("dashboard:pattern", args=[pattern_id]) + scope.query)


def act_on_many(request: HtmxRequest, verb: str) -> HttpResponse:
    found = find_verb(VERBS, verb)
    ids = read_selection(request.POST) or read_selection(request.GET)  # an undo is an address
    page = back_to(request, otherwise=reverse("dashboard:patterns"))
    if not ids:
        messages.warning(request, "Select at least one pattern. Nothing was changed.")
    else:
        carry_out(request, found, ids)
    return redirect(list_url(page))


def carry_out(request: HtmxRequest, verb: Verb, ids: list[UUID]) -> None:
    """Act on patterns and say so; what was open can be opened again by the message's button."""
    opened = queries.list_open(ids)
    options = verb.read_form(request.POST)
    try:
        found = change_once(request, verb, ids, options)
    except Refusal as refusal:
        warn_refused(request, refusal)
        return
    changed, said = len(found), verb.tell(found, ids, options)
    if verb in patterns.PAGE and changed == len(ids) == len(opened):
        params = read_scope(request).params.copy()
        params.setlist("id", [str(id) for id in opened])
        undo = reverse("dashboard:patterns_act", args=["reopen"])
        toasts.add_message(request, said, undo=f"{undo}?{params.urlencode()}")
    elif not changed:
        messages.warning(request, verb.unchanged(ids[0]))
    elif changed < len(ids):
        left = len(ids) - changed
        messages.warning(request, f"{said} {left} left unchanged, because the state has changed.")
    else:
        messages.success(request, said)


JUDGED = {
    "promote": (Verdict.PROMOTED, "Promoted. Attempts after such errors now get it."),
    "retire": (Verdict.RETIRED, "Retired. It is no longer offered, and attempts no longer get it."),
    "reset": (None, "Reset. Its counts decide again."),
}


def judge_fix(request: HtmxRequest, pattern_id: UUID, verb: str) -> HttpResponse:
    pattern, scope = queries.find_pattern(pattern_id), read_scope(request)
    if pattern is None or verb not in JUDGED:
        raise Http404(f"There is no pattern {pattern_id} with such an action.")
    verdict, said = JUDGED[verb]
    try:
        fix_verdicts.judge(
            pattern,
            signature=request.POST.get("signature", ""),
            key=request.POST.get("key", ""),
            verdict=verdict,
            stamp=stamp_of(request),
        )
    except NotFound as refusal:
        messages.warning(request, f"{refusal.detail} Nothing was changed.")
    else:
        messages.success(request, said)
    return redirect(f"{reverse('dashboard:pattern', args=[pattern_id])}{scope.query}#fixes")
