"""Replay or dismiss one dead letter."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.actions import find_action
from dashboard.deadletters import queries
from dashboard.deadletters.actions import ACTIONS
from dashboard.frame.access import operators_only
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest
from dashboard.tasks.action_views import DEPENDENTS, add_message
from dashboard.wording.formatting import counted
from ledger.journal import stamp_of
from ledger.models import DeadLetter
from retries import deadletters


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


def replay(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    stamp, letters = stamp_of(request), DeadLetter.objects.all()
    done = len(deadletters.replay(ids, among=letters, stamp=stamp))
    if held := count_of_aborted_plans(ids):
        messages.warning(
            request,
            f"{counted(held, 'dead letter')} of aborted plans can’t be replayed. "
            "Restart the plan instead.",
        )
    return done, f"{counted(done, 'dead letter')} replayed as a new task."


def dismiss(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    wanted = request.POST.get("dependents", "")
    dependents = wanted if wanted in DEPENDENTS else DEPENDENTS[0]
    note = request.POST.get("note", "")
    stamp, letters = stamp_of(request), DeadLetter.objects.all()
    done = len(
        deadletters.dismiss(ids, among=letters, dependents=dependents, note=note, stamp=stamp)
    )
    return done, f"{counted(done, 'dead letter')} dismissed."


def count_of_aborted_plans(ids: list[UUID]) -> int:
    """Count the open dead letters among these whose plan is aborted."""
    rows = DeadLetter.objects.open().filter(pk__in=ids)
    return rows.exclude(task__plan__aborted_at=None).count()


VERBS = {"replay": replay, "dismiss": dismiss}
