"""Handle the buttons of an agent: pause, trip, keep open, probe, close, cancel pending."""

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.agents.actions import ACTIONS
from dashboard.frame.access import operators_only
from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, back_to
from dashboard.frame.toasts import add_message
from dashboard.wording.formatting import counted
from ledger import agents
from ledger.journal import stamp_of
from ledger.models import Agent, Breaker
from retries import breaker_actions


@require_POST
@operators_only
def act(request: HtmxRequest, agent_id: UUID, verb: str) -> HttpResponseBase:
    """Run an action on an agent and return to the page of its button."""
    agent = Agent.objects.select_related("project").filter(pk=agent_id).first()
    if agent is None or verb not in VERBS:
        raise Http404(f"There is no agent {agent_id}.")
    if verb in ACTIONS and "confirmed" not in request.POST:
        scope = read_scope(request)
        address = reverse("dashboard:agent", args=[agent_id]) + scope.query
        return redirect(f"{address}{'&' if scope.query else '?'}ask={verb}")
    undo = UNDONE_BY.get(verb, "") if agent.paused == (verb == "resume") else ""
    address = reverse("dashboard:agent_act", args=[agent_id, undo]) if undo else ""
    query = read_scope(request).query
    add_message(request, VERBS[verb](request, agent), undo=address and address + query)
    return redirect(back_to(request, otherwise=reverse("dashboard:agent", args=[agent.pk])))


# only what changes something is undone
UNDONE_BY = {"pause": "resume", "resume": "pause"}


def pause(request: HttpRequest, agent: Agent) -> str:
    changed = agents.pause([agent], stamp=stamp_of(request))
    return f"{agent.name} is paused." if changed else f"{agent.name} was already paused."


def resume(request: HttpRequest, agent: Agent) -> str:
    changed = agents.pause([agent], paused=False, stamp=stamp_of(request))
    return f"{agent.name} is resumed." if changed else f"{agent.name} was not paused."


def trip(request: HttpRequest, agent: Agent) -> str:
    reason = request.POST.get("reason", "")
    changed = breaker_actions.trip([agent], reason=reason, stamp=stamp_of(request))
    if not changed:
        return f"The breaker for {agent.name} was already open."
    return f"The breaker for {agent.name} is open."


def probe(request: HttpRequest, agent: Agent) -> str:
    changed = breaker_actions.probe([agent], stamp=stamp_of(request))
    if not changed:
        return f"The breaker for {agent.name} is not open."
    return f"The next task of {agent.name} is the probe."


def keep_open(request: HttpRequest, agent: Agent) -> str:
    reason = request.POST.get("reason", "")
    if breaker_actions.keep_open([agent], reason=reason, stamp=stamp_of(request)):
        return f"The breaker for {agent.name} stays open until you close or probe it."
    if Breaker.objects.filter(pk=agent.pk, kept_open_at__isnull=False).exists():
        return f"The breaker for {agent.name} was already kept open."
    return f"The breaker for {agent.name} is closed. Trip it to open it."


def close(request: HttpRequest, agent: Agent) -> str:
    changed = breaker_actions.reset([agent], stamp=stamp_of(request))
    if not changed:
        return f"The breaker for {agent.name} was already closed."
    return f"The breaker for {agent.name} is closed."


def reset(request: HttpRequest, agent: Agent) -> str:
    cancelled = agents.reset(agent, stamp=stamp_of(request))
    if not cancelled:
        return f"Nothing was waiting for {agent.name}."
    return f"Cancelled {counted(cancelled, 'instruction')} for {agent.name}."


VERBS = {
    "pause": pause,
    "resume": resume,
    "probe": probe,
    "trip": trip,
    "keep-open": keep_open,
    "close": close,
    "reset": reset,
}
