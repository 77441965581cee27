"""Serve the page that connects an agent: a token, the lines that use it, and the first calls."""

from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError
from django.http import Http404, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from dashboard.agents.listing import AGENTS
from dashboard.connect import creation, queries
from dashboard.connect.light import Arrival, describe_clock, read_light
from dashboard.frame.access import may_open
from dashboard.frame.found_rows import require_row
from dashboard.frame.live_updates import stamp_key
from dashboard.frame.rendering import (
    HtmxRequest,
    Visit,
    begin_visit,
    compose_page,
    is_unchanged,
    respond,
    unchanged,
)
from dashboard.lists.query_box import as_id
from ledger import tokens
from ledger.errors import Refusal
from ledger.journal import stamp_of
from ledger.models import Project, Token
from ledger.models.project import DEFAULT

WAYS = (
    ("claude", "Claude Code"),
    ("codex", "Codex"),
    ("cli", "CLI"),
    ("curl", "curl"),
    ("python", "Python"),
    ("mcp", "MCP"),
    ("prompt", "Prompt"),
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Replaces the secret in lines shown again, or shown to people who may not create tokens.
VARIABLE = "$TENFOUR_TOKEN"
# The hooks that `tenfour init` writes for each program, as the client has them.
HOOK_EVENTS = {
    "claude": (
        "SessionStart",
        "UserPromptSubmit",
        "PostToolUse",
        "PostToolUseFailure",
        "SubagentStop",
        "Stop",
        "StopFailure",
        "Notification",
        "SessionEnd",
    ),
    # Codex ends no turn on request, so a call is refused before it begins.
    "codex": (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "SubagentStop",
        "Stop",
        "SessionEnd",
    ),
}
# Claude Code does not send SessionStart over HTTP.
HTTP_EVENTS = HOOK_EVENTS["claude"][1:]


def index(request: HtmxRequest) -> HttpResponse:
    visit = begin_visit(request, current="agents")
    return show(visit, creation.new_id(visit.now), read_project(visit, request.GET))


def token(request: HtmxRequest, token_id: UUID) -> HttpResponseBase:
    """Create the token with this id and show its secret once; later show the rest again."""
    visit = begin_visit(request, current="agents")
    found = queries.find_token(token_id)
    if request.method == "POST" and found is None:
        return create(visit, token_id)
    if found is None:
        return redirect(reverse("dashboard:connect") + visit.scope.query)
    if "revoke" in request.POST:
        revoked = tokens.revoke(found, stamp=stamp_of(request))
        messages.success(request, "The token is revoked." if revoked else "It was revoked before.")
        return redirect(reverse("dashboard:connect") + visit.scope.query)
    return show(visit, creation.new_id(visit.now), found.project, token=found)


def create(visit: Visit, token_id: UUID) -> HttpResponse:
    posted = visit.request.POST
    project, name = read_project(visit, posted), posted.get("agent", "").strip()
    try:
        made, secret = creation.create_connection(
            name,
            project=project,
            token_id=token_id,
            replaces=as_id(posted.get("replaces", "")),
            stamp=stamp_of(visit.request),
        )
    except Refusal as refusal:
        return show(visit, token_id, project, name=name, error=refusal.detail, status_code=422)
    except IntegrityError:  # the form was sent twice at once, or names a token of another kind
        if (found := queries.find_token(token_id)) is None:
            raise Http404(f"There is no agent’s token {token_id}.") from None
        return show(visit, creation.new_id(visit.now), found.project, token=found)
    return show(visit, creation.new_id(visit.now), project, token=made, secret=secret)


def read_project(visit: Visit, given: QueryDict) -> Project:
    return visit.scope.find_named(given.get("project", "")) or choose_project(visit)


def choose_project(visit: Visit) -> Project:
    # Agents are connected to the default project first.
    scope = visit.scope
    return scope.project or scope.find_named(DEFAULT) or scope.first


def read_way(given: QueryDict) -> str:
    way = given.get("way", "")
    return way if way in dict(WAYS) else WAYS[0][0]


def show(
    visit: Visit,
    new_id: UUID,
    project: Project,
    *,
    token: Token | None = None,
    secret: str = "",
    name: str | None = None,
    error: str = "",
    status_code: int = 200,
) -> HttpResponse:
    request = visit.request
    may_create = may_open(request.user, "connect_token")
    known = queries.list_names(project)
    if name is None:
        name = token.agent.name if token and token.agent else queries.suggest_name(known)
    way = read_way(request.POST if "way" in request.POST else request.GET)
    arrival = queries.read_arrival(token, now=visit.now) if token else None
    page = compose_page(
        title="Connect an agent",
        crumbs=[AGENTS.crumb],
        status_code=status_code,
        new_id=new_id,
        name=name,
        project=project,
        projects=list(visit.scope.projects),
        known=known,
        error=error,
        may_create=may_create,
        people=[] if may_create else queries.list_people(project),
        url=settings.LINK_URL,
        client_url=settings.LINK_URL + reverse("client_wheel"),
        is_loopback=(urlsplit(settings.LINK_URL).hostname or "") in LOOPBACK,
        way=way,
        secret=secret,
        line_token=secret or VARIABLE,
        token=token,
        instruction=queries.find_first_instruction(token) if token else None,
        arrival=arrival,
        light=read_light(arrival, now=visit.now, way=way) if arrival else None,
        clock=describe_clock(arrival.clock_ahead_s) if arrival else "",
        light_key=read_key(arrival, visit, way) if arrival else "",
        ways=WAYS,
        hook_events=HOOK_EVENTS,
        http_events=HTTP_EVENTS,
    )
    return respond(visit, "connect/index.html", "connect/_connect.html", page)


# ---- the light, which polls itself


def light(request: HtmxRequest, token_id: UUID) -> HttpResponseBase:
    """Return the light, or 204 if nothing has changed."""
    visit = begin_visit(request, current="agents")
    found = require_row(queries.find_token(token_id), "token", token_id)
    way = read_way(request.GET)
    arrival = queries.read_arrival(found, now=visit.now)
    key = read_key(arrival, visit, way)
    if is_unchanged(request, key):
        return unchanged()
    page = {
        "token": found,
        "arrival": arrival,
        "light": read_light(arrival, now=visit.now, way=way),
        "clock": describe_clock(arrival.clock_ahead_s),
        "light_key": key,
        "is_loopback": (urlsplit(settings.LINK_URL).hostname or "") in LOOPBACK,
        "url": settings.LINK_URL,
        "way": way,
        "scope": visit.scope,
        "now": visit.now,
    }
    return render(request, "connect/_connection.html", page)


def read_key(arrival: Arrival, visit: Visit, way: str) -> str:
    said = repr((read_light(arrival, now=visit.now, way=way), arrival.steps))
    return stamp_key(visit.now, said)
