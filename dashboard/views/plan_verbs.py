"""What a person does with a plan: pause and resume it, abort it, start it anew."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard import planned
from dashboard.access import operators_only
from dashboard.plan_offers import PLAN_OFFERS
from dashboard.rendering import HtmxRequest
from dashboard.shell import scope_of
from ledger import plans
from ledger.journal import person
from ledger.models import Plan
from ledger.refusals import Invalid, Refusal
from retries import plans as decided


@require_POST
@operators_only
def act(request: HtmxRequest, plan_id: UUID, verb: str) -> HttpResponse:
    """One verb on one plan; then back to it, with what really happened."""
    offer, scope = PLAN_OFFERS.get(verb), scope_of(request)
    plan = planned.one(plan_id)
    if plan is None or offer is None:
        raise Http404(f"There is no plan {plan_id}.")
    page = reverse("dashboard:plan", args=[plan_id]) + scope.query
    if offer.question and "confirmed" not in request.POST:
        return redirect(f"{page}{'&' if scope.query else '?'}ask={verb}")
    try:
        messages.success(request, VERBS[verb](request, plan))
    except Refusal as refusal:
        messages.warning(request, f"Nothing was changed. {refusal.detail}")
    return redirect(page)


def pause(request: HtmxRequest, plan: Plan) -> str:
    changed(plans.pause([plan.pk], actor=person(request.user)))
    return "Paused. None of its tasks is handed out; what runs goes on."


def resume(request: HtmxRequest, plan: Plan) -> str:
    changed(plans.resume([plan.pk], actor=person(request.user)))
    return "Resumed. Its tasks are handed out again."


def abort(request: HtmxRequest, plan: Plan) -> str:
    reason = request.POST.get("reason", "").replace("\0", "")
    changed(decided.abort([plan.pk], reason=reason, actor=person(request.user)))
    return "Aborted. What runs was told to stop."


def changed(rows: list[Plan]) -> None:
    if not rows:
        raise Refusal("It moved on meanwhile.")


def restart(request: HtmxRequest, plan: Plan) -> str:
    since = begun_since(request.POST) if request.POST.get("counters") == "carry" else None
    new = decided.restart(plan.pk, carry_over=since, actor=person(request.user))
    return f"Restarted as run {new.run}."


def begun_since(data: dict[str, str]) -> datetime:
    """The time in the form, UTC; raises Invalid."""
    try:
        return datetime.fromisoformat(data.get("carry_over", "")).replace(tzinfo=UTC)
    except ValueError as error:
        raise Invalid("/carry_over", "Say since when its tasks are carried over.") from error


Verb = Callable[[HtmxRequest, Plan], str]
VERBS: dict[str, Verb] = {"pause": pause, "resume": resume, "abort": abort, "restart": restart}
