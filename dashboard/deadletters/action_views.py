"""Replay or dismiss dead letters, one or many."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.access import operators_only
from dashboard.actions import find_action
from dashboard.deadletters import queries
from dashboard.deadletters.actions import ACTIONS
from dashboard.formatting import counted
from dashboard.navigation import Scope, read_scope
from dashboard.rendering import HtmxRequest, back_to
from dashboard.selection import Selection, list_url, question_url, read_selection
from dashboard.tasks import filters as task_filters
from dashboard.tasks.action_views import DEPENDENTS, add_message
from ledger.journal import stamp_of
from ledger.models import DeadLetter
from retries import deadletters

BATCH = 500  # dead letters in one transaction


@require_POST
@operators_only
def act(request: HtmxRequest, letter_id: UUID, verb: str) -> HttpResponse:
    """Act on one dead letter and return to its page."""
    action, scope = find_action(ACTIONS, verb), read_scope(request)
    if not queries.exists(letter_id):
        raise Http404(f"There is no dead letter {letter_id}.")
    page = reverse("dashboard:deadletter", args=[letter_id]) + scope.query
    if action.question and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if scope.query else '?'}ask={verb}")
    add_message(request, VERBS[verb](request, [letter_id]), of=1)
    return redirect(page)


@require_POST
@operators_only
def act_on_many(request: HtmxRequest, verb: str) -> HttpResponse:
    """Act on the selected dead letters, or on all that match, and return to the list."""
    action, rows = find_action(ACTIONS, verb), read_selection(request.POST)
    page = back_to(request, otherwise=reverse("dashboard:deadletters"))
    if not rows.ids and not rows.every:
        messages.warning(request, "Select at least one dead letter. Nothing was changed.")
    elif action.question and "confirmed" not in request.POST:
        return redirect(question_url(page, verb, rows))
    else:
        ids = selected_ids(rows, page, read_scope(request))
        add_message(request, VERBS[verb](request, ids), of=len(ids))
    return redirect(list_url(page))


def selected_ids(rows: Selection, page: str, scope: Scope) -> list[UUID]:
    """Return the ids of a selection; for all that match, those that the page's query finds now."""
    if rows.every is None:
        return rows.ids
    text = QueryDict(page.partition("?")[2]).get("q", "")
    query = task_filters.parse(text or "", task_filters.LETTER_KEYS)
    return queries.list_open_ids(query, scope.project, up_to=rows.every)


def replay(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    stamp, letters = stamp_of(request), DeadLetter.objects.all()
    done = sum(len(deadletters.replay(some, among=letters, stamp=stamp)) for some in batches(ids))
    if held := sum(count_of_aborted_plans(some) for some in batches(ids)):
        messages.warning(
            request,
            f"{counted(held, 'dead letter')} of aborted plans can’t be replayed. "
            "Restart the plan instead.",
        )
    new = "as a new task" if done == 1 else "as new tasks"
    return done, f"{counted(done, 'dead letter')} replayed {new}."


def dismiss(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    wanted = request.POST.get("dependents", "")
    dependents = wanted if wanted in DEPENDENTS else DEPENDENTS[0]
    note = request.POST.get("note", "").replace("\r\n", "\n").replace("\0", "").strip()
    stamp, letters = stamp_of(request), DeadLetter.objects.all()
    done = sum(
        len(deadletters.dismiss(some, among=letters, dependents=dependents, note=note, stamp=stamp))
        for some in batches(ids)
    )
    return done, f"{counted(done, 'dead letter')} dismissed."


def batches(ids: list[UUID]) -> list[list[UUID]]:
    return [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]


def count_of_aborted_plans(ids: list[UUID]) -> int:
    """Count the open dead letters among these whose plan is aborted."""
    rows = DeadLetter.objects.open().filter(pk__in=ids)
    return rows.exclude(task__plan__aborted_at=None).count()


VERBS = {"replay": replay, "dismiss": dismiss}
