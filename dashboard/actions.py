"""The buttons of a row's page: which verbs they are, and what their forms do."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.form_values import quote_typed
from dashboard.frame import toasts
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from ledger import idempotency
from ledger.errors import Refusal
from ledger.idempotency import StoredResponse
from ledger.journal import Stamp, stamp_of
from retries.verbs.verb import Options, Verb

CSRF = "csrfmiddlewaretoken"  # differs in each rendering of a form


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


def change_once(
    request: HtmxRequest, verb: Verb, ids: list[UUID], options: Options
) -> Collection[UUID]:
    """Change rows; a form with a key that is sent twice gets the first one's result again."""
    stamp = stamp_of(request)
    if not verb.once or "key" not in request.POST:
        return verb.change(ids, options, stamp)

    def change() -> list[str]:
        return [str(id) for id in verb.change(ids, options, stamp)]

    return [UUID(id) for id in post_once(request, change, stamp=stamp)]


def post_once(request: HtmxRequest, change: Callable[[], Any], *, stamp: Stamp) -> Any:
    """Make the change of a form and return its result; the same form sent again makes no other."""
    sent = {name: value for name, value in request.POST.items() if name != CSRF}
    content = f"{request.user.pk} {request.path} {json.dumps(sent, sort_keys=True)}"
    stored = idempotency.run_once(
        f"form {uuid5(NAMESPACE_URL, content)}",
        token_id=None,
        fingerprint=b"",
        now=stamp.at,
        work=lambda: StoredResponse(200, json.dumps(change())),
    )
    return json.loads(stored.body)


def warn_refused(request: HtmxRequest, refusal: Refusal) -> None:
    typed = quote_typed(request.POST.get("text", "") or request.POST.get("note", ""))
    messages.warning(request, f"Nothing changed. {refusal.detail}{typed}")


def change_one(request: HtmxRequest, verb: Verb, row_id: UUID, *, page: str) -> UUID:
    """Change a row and add the message about it; return the id of the row to show."""
    try:
        options = verb.read_form(request.POST)
        changed = change_once(request, verb, [row_id], options)
    except Refusal as refusal:
        warn_refused(request, refusal)
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
