"""Handle the forms of pools: create, add and remove members, set who retries, and remove."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.frame.navigation import read_scope
from dashboard.frame.rendering import HtmxRequest, begin_visit
from dashboard.frame.toasts import tell_result
from ledger import agents
from ledger.database import sql
from ledger.errors import Invalid, Refusal
from ledger.journal import stamp_of
from ledger.models import Agent, Project
from ledger.pools import membership
from ledger.states import RetryOn
from ledger.values.text import counted

Act = Callable[[HttpRequest, Agent], str]


def create(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="agents")
    project = visit.scope.find_named(text_of(request, "project")) or visit.scope.only
    try:
        if project is None:
            raise Invalid("/project", "Choose a project.")
        pool = sql.atomic(create_from_form)(request, project)
    except Refusal as refusal:
        messages.warning(request, f"No pool was created. {refusal.detail}")
        return redirect(reverse("dashboard:pools") + visit.scope.query)
    messages.success(request, f"The pool {pool.name} is created.")
    return redirect(reverse("dashboard:pool", args=[pool.pk]) + visit.scope.query)


def create_from_form(request: HttpRequest, project: Project) -> Agent:
    return membership.create(
        text_of(request, "name"),
        members=find_named_agents(request, project),
        retry_on=text_of(request, "retry_on") or RetryOn.ANY,
        project=project,
        stamp=stamp_of(request),
    )


def act(request: HtmxRequest, pool_id: UUID, verb: str) -> HttpResponse:
    query = read_scope(request).query
    pool = Agent.objects.filter(pk=pool_id, is_pool=True).select_related("project").first()
    if pool is None or verb not in ACTS:
        raise Http404(f"There is no pool {pool_id} with such an action.")
    if tell_result(request, lambda: ACTS[verb](request, pool)) and verb == "remove":
        return redirect(reverse("dashboard:pools") + query)
    return redirect(reverse("dashboard:pool", args=[pool_id]) + query)


def add_members(request: HttpRequest, pool: Agent) -> str:
    found = find_named_agents(request, pool.project)
    if not found:
        raise Invalid("/agents", "Name at least one agent.")
    added = membership.add_members(pool, found, stamp=stamp_of(request))
    return f"Added {counted(len(added), 'agent')} to {pool.name}."


def remove_member(request: HttpRequest, pool: Agent) -> str:
    found = find_named_agents(request, pool.project)
    removed = membership.remove_members(pool, found, stamp=stamp_of(request))
    return f"Removed {counted(len(removed), 'agent')} from {pool.name}."


def set_retry_on(request: HttpRequest, pool: Agent) -> str:
    membership.set_retry_on(pool, text_of(request, "retry_on"), stamp=stamp_of(request))
    return f"Set who retries the tasks that are sent to {pool.name} from now on."


def remove(request: HttpRequest, pool: Agent) -> str:
    name = text_of(request, "move_to")
    to = agents.get_by_name(name, project=pool.project) if name else None
    moved = membership.remove(pool, move_to=to, stamp=stamp_of(request))
    went = f" {counted(moved, 'task')} went to {name}." if moved else ""
    return f"The pool {pool.name} is removed.{went}"


ACTS: dict[str, Act] = {
    "add": add_members,
    "drop": remove_member,
    "retry-on": set_retry_on,
    "remove": remove,
}


def find_named_agents(request: HttpRequest, project: Project) -> list[Agent]:
    """Return the agents that a form names, separated by commas; raises UnknownAgent."""
    names = [name.strip() for name in text_of(request, "agents").split(",")]
    return [agents.get_by_name(name, project=project) for name in dict.fromkeys(names) if name]


def text_of(request: HttpRequest, name: str) -> str:
    return request.POST.get(name, "").replace("\0", "").strip()
