"""The buttons of a row's page: which verbs they are, and what their forms do."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame import toasts
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.verbs.verb import Verb


def find_verb(verbs: Mapping[str, Verb], slug: str) -> Verb:
    """Return the verb with this slug, or raise Http404."""
    if slug not in verbs:
        raise Http404(f"There is no action “{slug}”.")
    return verbs[slug]


def by_slug(verbs: Iterable[Verb]) -> dict[str, Verb]:
    return {verb.slug: verb for verb in verbs}


def list_allowed(verbs: Iterable[Verb], row: Any) -> list[Verb]:
    return [verb for verb in verbs if verb.suits(row)]


def find_asked(request: HtmxRequest, actions: Iterable[Verb]) -> Verb | None:
    """Return the verb whose question the page shows to a browser without scripts."""
    asked = request.GET.get("ask")
    return next((verb for verb in actions if verb.slug == asked and verb.question), None)


def build_action_view(
    room: str, verbs: Mapping[str, Verb], *, page: str, returns: bool = False
) -> Callable[..., HttpResponseBase]:
    """Return the view that carries out a verb on one row, after its question."""

    # With `returns`, the view ends on the page that the form names, or else on the row's page.
    def act(request: HtmxRequest, /, verb: str, **ids: UUID) -> HttpResponse:
        (row_id,) = ids.values()
        found, scope = find_verb(verbs, verb), read_scope(request)
        if not found.model._default_manager.filter(pk=row_id).exists():
            raise Http404(f"There is no {found.row} {row_id}.")
        address = reverse(f"dashboard:{page}", args=[row_id]) + scope.query
        if found.question and "confirmed" not in request.POST:
            return redirect(f"{address}{'&' if scope.query else '?'}ask={verb}")
        shown = change_one(request, found, row_id, page=page)
        if shown != row_id:
            address = reverse(f"dashboard:{page}", args=[shown]) + scope.query
        return redirect(back_to(request, otherwise=address) if returns else address)

    act.__module__ = room
    return act


def change_one(request: HtmxRequest, verb: Verb, row_id: UUID, *, page: str) -> UUID:
    """Change a row and add the message about it; return the id of the row to show."""
    try:
        options = verb.read_form(request.POST)
        changed = verb.change([row_id], options, stamp_of(request))
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
        return row_id
    if not changed:
        messages.warning(request, verb.unchanged(row_id))
        return row_id
    said = verb.tell(changed, [row_id], options)
    if verb.undo:
        undo = reverse(f"dashboard:{page}_act", args=[row_id, verb.undo])
        toasts.add_message(request, said, undo=undo + read_scope(request).query)
    else:
        messages.success(request, said)
    return verb.find_shown(changed, row_id) if verb.find_shown else row_id
