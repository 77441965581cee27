"""Complete the query box of Tasks: the values of a key that begin with what is typed."""

from collections.abc import Callable
from typing import Any

from django.db.models import OuterRef, Q, QuerySet
from django.http import JsonResponse
from django.views.decorators.http import require_safe

from dashboard import query_box
from dashboard.access import operators_only
from dashboard.formatting import COUNT_CAP, capped
from dashboard.navigation import requested_project
from dashboard.query_box import term
from dashboard.rendering import HtmxRequest
from dashboard.shared_queries import CountOf, of_project
from dashboard.tasks import filters as task_filters
from dashboard.tasks.counts import count_tasks
from dashboard.tasks.filters import ERRORS, STATES, TaskQuery
from dashboard.tasks.queries import filter_tasks
from ledger.models import Agent, Plan, Project, Task
from ledger.states import BlockedReason
from ledger.text import truncate
from retries.models import FailurePattern

SHOWN = 8
TYPES_READ = 1_000  # newest tasks
# of keys whose values are not names
EXAMPLES = {
    "older": ("30m", "2h", "1d", "7d"),
    "changed": ("1h", "24h", "7d", "2026-01-01..2026-01-31"),
    "created": ("1h", "24h", "7d", "2026-01-01..2026-01-31"),
    "attempts": (">1", ">2", "<3"),
}
Option = dict[str, str]


@require_safe
@operators_only
def complete(request: HtmxRequest) -> JsonResponse:
    """Return up to eight values of a key, with their number of tasks in the list."""
    key = request.GET.get("key", "").lower()
    prefix = query_box.clean(request.GET.get("prefix", "")).replace('"', "")
    query = task_filters.parse(request.GET.get("q", ""))
    list_values = SOURCES.get(key)
    if list_values:
        options = list_values(prefix, query, requested_project(request))
    else:
        options = [option(key, each) for each in EXAMPLES.get(key, ()) if each.startswith(prefix)]
    return JsonResponse({"options": options[:SHOWN]})


def option(key: str, value: str, detail: str = "", count: int | None = None) -> Option:
    number = "" if count is None else capped(count)
    return {"term": term(key, value), "detail": truncate(detail, 120), "count": number}


def list_states(prefix: str, query: TaskQuery, project: Project | None) -> list[Option]:
    counts = count_tasks(query, project).states
    return [
        option("state", name, count=sum(counts.get(state, 0) for state in states))
        for name, states in STATES.items()
        if name.startswith(prefix.lower())
    ]


def list_agents(prefix: str, query: TaskQuery, project: Project | None) -> list[Option]:
    tasks = filter_tasks(query.agentless(), project).filter(agent=OuterRef("pk"))
    agents = of_project(Agent.objects.filter(name__istartswith=prefix), project).order_by("name")
    return [
        option("agent", row["name"], count=row["n"]) for row in count_each(agents, tasks, "name")
    ]


def list_plans(prefix: str, query: TaskQuery, project: Project | None) -> list[Option]:
    tasks = filter_tasks(query, project).filter(plan=OuterRef("pk"))
    named = Q(ref__istartswith=prefix) | Q(title__icontains=prefix)
    plans = of_project(Plan.objects.filter(named), project).order_by("-id")
    rows = count_each(plans, tasks, "ref", "title")
    return [option("plan", row["ref"], row["title"], row["n"]) for row in rows]


def count_each(rows: QuerySet[Any], tasks: QuerySet[Task], *columns: str) -> list[dict[str, Any]]:
    counted = CountOf(tasks.order_by().values("pk")[:COUNT_CAP])
    found: list[dict[str, Any]] = list(rows.annotate(n=counted).values(*columns, "n")[:SHOWN])
    return found


def list_patterns(prefix: str, query: TaskQuery, project: Project | None) -> list[Option]:
    named = Q(template__icontains=prefix) | Q(fingerprint__startswith=prefix.lower())
    rows = of_project(FailurePattern.objects.current().filter(named), project)
    found = rows.order_by("-last_seen", "-id").values_list("fingerprint", "template")[:SHOWN]
    return [option("pattern", fingerprint, template) for fingerprint, template in found]


def list_types(prefix: str, query: TaskQuery, project: Project | None) -> list[Option]:
    newest = of_project(Task.objects.all(), project).order_by("-id")
    types = dict.fromkeys(newest.values_list("type", flat=True)[:TYPES_READ])
    return [option("type", each) for each in types if each.lower().startswith(prefix.lower())]


def list_choices(key: str, choices: tuple[str, ...]) -> "Source":
    def list_names(prefix: str, *_: Any) -> list[Option]:
        return [option(key, each) for each in choices if each.startswith(prefix.lower())]

    return list_names


Source = Callable[[str, TaskQuery, Project | None], list[Option]]
SOURCES: dict[str, Source] = {
    "state": list_states,
    "agent": list_agents,
    "plan": list_plans,
    "pattern": list_patterns,
    "type": list_types,
    "error": list_choices("error", ERRORS),
    "reason": list_choices("reason", tuple(BlockedReason.values)),
}
