"""Handle the actions on one task: retry now, unblock, skip, abort."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.actions import find_action
from dashboard.frame.access import operators_only
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest
from dashboard.tasks import queries
from dashboard.tasks.actions import ACTIONS
from dashboard.wording.formatting import counted
from ledger.journal import stamp_of
from retries.states import Dependents
from retries.tasks import actions as task_actions

DEPENDENTS = tuple(Dependents.values)


@require_POST
@operators_only
def act(request: HtmxRequest, task_id: UUID, verb: str) -> HttpResponse:
    """Run an action on a task, then redirect to it with a message."""
    action, scope = find_action(ACTIONS, verb), read_scope(request)
    if not queries.exists(task_id):
        raise Http404(f"There is no task {task_id}.")
    page = reverse("dashboard:task", args=[task_id]) + scope.query
    if action.question and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if scope.query else '?'}ask={verb}")
    add_message(request, VERBS[verb](request, [task_id]), of=1)
    return redirect(page)


def add_message(request: HtmxRequest, done: tuple[int, str], *, of: int) -> None:
    """Add a message about how many rows changed and how many could not."""
    changed, said = done
    if not changed:
        messages.warning(request, "Nothing changed, because the state has changed in the meantime.")
    elif changed < of:
        left = of - changed
        messages.warning(request, f"{said} {left} left unchanged, because the state has changed.")
    else:
        messages.success(request, said)


def retry_now(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    changed = len(task_actions.retry_now(ids, stamp=stamp_of(request)))
    return changed, f"{counted(changed, 'task')} will retry now."


def unblock(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    changed = len(task_actions.unblock(ids, stamp=stamp_of(request)))
    return changed, f"{counted(changed, 'task')} unblocked."


def skip(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    wanted = request.POST.get("dependents", "")
    dependents = wanted if wanted in DEPENDENTS else DEPENDENTS[0]
    note = request.POST.get("reason", "")
    gone = set(task_actions.skip(ids, dependents=dependents, note=note, stamp=stamp_of(request)))
    changed = len(gone & set(ids))
    more = len(gone) - changed
    also = f", and {counted(more, 'dependent task')}" if more else ""
    return changed, f"{counted(changed, 'task')} skipped{also}."


def abort(request: HtmxRequest, ids: list[UUID]) -> tuple[int, str]:
    reason = request.POST.get("reason", "")
    stopped = task_actions.abort(ids, reason=reason, stamp=stamp_of(request))
    now, later = sum(stopped.values()), len(stopped) - sum(stopped.values())
    said = [f"{counted(now, 'task')} aborted."] if now else []
    said += [f"{counted(later, 'task')} asked to stop."] if later else []
    return len(stopped), " ".join(said)


VERBS = {"retry-now": retry_now, "unblock": unblock, "skip": skip, "abort": abort}
