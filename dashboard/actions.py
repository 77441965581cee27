"""The buttons of a row's page: which verbs they are, and what their forms do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest
from ledger.errors import Refusal
from ledger.journal import stamp_of
from retries.verbs.verb import Verb

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Action:
    """A button: the verb it posts, its label, its key, and the question it asks first."""

    slug: str
    button: str
    key: str = ""
    question: str = ""
    confirm: str = ""  # the label of the button that answers the question
    consequence: str = ""
    icon: str = ""


def find_action(actions: Mapping[str, Found], slug: str) -> Found:
    """Return the action for a verb, or raise Http404."""
    if slug not in actions:
        raise Http404(f"There is no action “{slug}”.")
    return actions[slug]


def by_slug(verbs: Iterable[Verb]) -> dict[str, Verb]:
    return {verb.slug: verb for verb in verbs}


def list_allowed(verbs: Iterable[Verb], row: Any) -> list[Verb]:
    """Return the verbs that can change a row now."""
    return [verb for verb in verbs if verb.suits(row)]


def find_asked(request: HtmxRequest, actions: Iterable[Verb]) -> Verb | None:
    """Return the verb whose question the page shows to a browser without scripts."""
    asked = request.GET.get("ask")
    return next((verb for verb in actions if verb.slug == asked and verb.question), None)


def act_on(
    request: HtmxRequest, row_id: UUID, slug: str, *, verbs: Mapping[str, Verb], page: str
) -> HttpResponse:
    """Carry out a verb on one row, after its question, and return to the row's page."""
    verb, scope = find_action(verbs, slug), read_scope(request)
    if not verb.model._default_manager.filter(pk=row_id).exists():
        raise Http404(f"There is no {verb.row} {row_id}.")
    address = reverse(f"dashboard:{page}", args=[row_id]) + scope.query
    if verb.question and "confirmed" not in request.POST:
        return redirect(f"{address}{'&' if scope.query else '?'}ask={slug}")
    try:
        changed = verb.change([row_id], verb.read_form(request.POST), stamp_of(request))
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
        return redirect(address)
    if not changed:
        messages.warning(request, verb.unchanged(row_id))
        return redirect(address)
    messages.success(request, verb.tell(changed, [row_id]))
    shown = verb.find_shown(changed, row_id) if verb.find_shown else row_id
    return redirect(reverse(f"dashboard:{page}", args=[shown]) + scope.query)
