"""What a person does with tasks, one or many: try again now, go on without, stop."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.access import operators_only
from dashboard.actions import find_action
from dashboard.formatting import counted
from dashboard.navigation import read_scope
from dashboard.rendering import HtmxRequest, back_to
from dashboard.selection import list_url, question_url, read_selection
from dashboard.tasks import queries
from dashboard.tasks.actions import ACTIONS
from ledger.journal import person
from retries import task_actions
from retries.states import Dependents

DEPENDENTS = tuple(Dependents.values)
THEM = ("it", "them")


@require_POST
@operators_only
def act(request: HtmxRequest, task_id: UUID, verb: str) -> HttpResponse:
    """One verb on one task; then back to it, with what really happened."""
    offer, scope = find_action(ACTIONS, verb), read_scope(request)
    if not queries.exists(task_id):
        raise Http404(f"There is no task {task_id}.")
    page = reverse("dashboard:task", args=[task_id]) + scope.query
    if offer.question and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if scope.query else '?'}ask={verb}")
    add_message(request, VERBS[verb](request, [task_id]), of=1)
    return redirect(page)


@require_POST
@operators_only
def act_on_many(request: HtmxRequest, verb: str) -> HttpResponse:
    """One verb on the tasks that were picked; then back to the list."""
    offer, rows = find_action(ACTIONS, verb), read_selection(request.POST)
    page = back_to(request, otherwise=reverse("dashboard:tasks"))
    if not rows.ids:
        messages.warning(request, "Choose some tasks first. Nothing was changed.")
    elif offer.question and "confirmed" not in request.POST:
        return redirect(question_url(page, verb, rows))
    else:
        add_message(request, VERBS[verb](request, rows.ids), of=len(rows.ids))
    return redirect(list_url(page))


def add_message(request: HtmxRequest, done: tuple[int, str], *, of: int) -> None:
    """What really changed, and how many could not."""
    changed, said = done
    if not changed:
        messages.warning(request, "Nothing was changed: it moved on meanwhile.")
    elif changed < of:
        left = of - changed
        it = "it was" if left == 1 else "they were"
        messages.warning(request, f"{said} {left} could not: {it} in another state by then.")
    else:
        messages.success(request, said)


def retry_now(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    changed = len(task_actions.retry_now(ids, actor=person(request.user)))
    return changed, f"{counted(changed, 'retry waits', 'retries wait')} no longer."


def unblock(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    changed = len(task_actions.unblock(ids, actor=person(request.user)))
    return changed, f"{counted(changed, 'task')} told to go on without what was skipped."


def skip(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    wanted = request.POST.get("dependents", "")
    dependents = wanted if wanted in DEPENDENTS else DEPENDENTS[0]
    gone = set(task_actions.skip(ids, dependents=dependents, actor=person(request.user)))
    changed = len(gone & set(ids))
    more = len(gone) - changed
    also = f", and {counted(more, 'task')} that depended on {THEM[changed > 1]}" if more else ""
    return changed, f"{counted(changed, 'task')} skipped{also}."


def abort(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    stopped = task_actions.abort(ids, actor=person(request.user))
    now, later = sum(stopped.values()), len(stopped) - sum(stopped.values())
    said = [f"{counted(now, 'task')} aborted."] if now else []
    said += [f"{counted(later, 'task')} told to stop."] if later else []
    return len(stopped), " ".join(said)


VERBS = {"retry-now": retry_now, "unblock": unblock, "skip": skip, "abort": abort}
