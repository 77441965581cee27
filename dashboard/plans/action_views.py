"""Handle the buttons of a plan: pause, resume, abort, restart, and confirm commands."""

from collections.abc import Callable
from datetime import UTC, datetime
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
from dashboard.plans.actions import ACTIONS
from dashboard.plans.detail_queries import list_proposed_commands
from dashboard.plans.queries import find_plan
from dashboard.wording.formatting import counted
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import Plan
from ledger.plans import editing as plan_editing
from retries.plans import aborting, restarting


@require_POST
@operators_only
def act(request: HtmxRequest, plan_id: UUID, verb: str) -> HttpResponse:
    """Run an action on a plan and return to its page."""
    action, scope = find_action(ACTIONS, verb), read_scope(request)
    plan = find_plan(plan_id)
    if plan is None:
        raise Http404(f"There is no plan {plan_id}.")
    page = reverse("dashboard:plan", args=[plan_id]) + scope.query
    if action.question and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if scope.query else '?'}ask={verb}")
    try:
        messages.success(request, VERBS[verb](request, plan))
    except Refusal as refusal:
        messages.warning(request, f"Nothing changed. {refusal.detail}")
    return redirect(page)


@require_POST
@operators_only
def confirm(request: HtmxRequest, plan_id: UUID) -> HttpResponse:
    """Confirm one proposed command or all shown ones, and return to the plan's page."""
    # each is posted with its task's version: a task that has changed since is not confirmed
    shown = [request.POST["one"]] if "one" in request.POST else request.POST.getlist("all")
    rows = list_proposed_commands(plan_id)
    ids = [row.pk for row in rows if f"{row.pk}:{row.version}" in shown]
    confirmed = plan_editing.confirm_commands(ids, stamp=stamp_of(request))
    if confirmed:
        messages.success(request, f"Confirmed {counted(len(confirmed), 'command')}.")
    else:
        messages.warning(
            request, "Nothing changed. The tasks changed in the meantime. Check them and retry."
        )
    return redirect(reverse("dashboard:plan", args=[plan_id]) + read_scope(request).query)


def pause(request: HtmxRequest, plan: Plan) -> str:
    require_change(plan_editing.pause([plan.pk], stamp=stamp_of(request)))
    return "Plan paused. Agents get no more of its tasks; running tasks continue."


def resume(request: HtmxRequest, plan: Plan) -> str:
    require_change(plan_editing.resume([plan.pk], stamp=stamp_of(request)))
    return "Plan resumed. Agents get its tasks again."


def abort(request: HtmxRequest, plan: Plan) -> str:
    reason = request.POST.get("reason", "")
    require_change(aborting.abort([plan.pk], reason=reason, stamp=stamp_of(request)))
    return "Plan aborted. Running tasks were told to stop."


def require_change(rows: list[Plan]) -> None:
    if not rows:
        raise Refusal("The plan changed in the meantime. Check its state and retry.")


def restart(request: HtmxRequest, plan: Plan) -> str:
    since = parse_carry_over(request.POST) if request.POST.get("counters") == "carry" else None
    new = restarting.restart(plan.pk, carry_over=since, stamp=stamp_of(request))
    return f"Plan restarted as run {new.run}."


def parse_carry_over(data: dict[str, str]) -> datetime:
    """Return the time in the form, in UTC, or raise Invalid."""
    try:
        at = datetime.fromisoformat(data.get("carry_over", ""))
    except ValueError as error:
        raise Invalid("/carry_over", "Enter the date and time to keep attempts from.") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


Verb = Callable[[HtmxRequest, Plan], str]
VERBS: dict[str, Verb] = {"pause": pause, "resume": resume, "abort": abort, "restart": restart}
