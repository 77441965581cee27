"""Answer a request with a page, with its live part alone, or with 204 if nothing has changed.

A live page is a view that only reads: it takes a `Visit` and returns its `PageContext`, which
`compose_page` makes from the template's variables. The decorator does the rest:

    @live_page("tasks/detail.html", "tasks/_task.html", current="tasks", of=Task, row="task_id")
    def detail(visit: Visit, task_id: UUID) -> PageContext: ...

A view that does more (forms, posts) makes its own `Visit` and calls `respond`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec
from uuid import UUID

from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse_lazy
from django.utils.cache import patch_vary_headers
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails

from dashboard.frame.live_updates import hash_content, is_current, read_live_key, split_key
from dashboard.frame.navigation import Scope, Shell, build_shell, read_scope, requested_project
from ledger.database import server_time
from ledger.models import Instruction

P = ParamSpec("P")
LIVE_KEY_HEADER = "Tenfour-Live-Key"


class HtmxRequest(HttpRequest):
    htmx: HtmxDetails


@dataclass(frozen=True, slots=True)
class Crumb:
    """A breadcrumb: a page above this one."""

    label: str
    url: str | Promise


SETTINGS = Crumb("Settings", reverse_lazy("dashboard:settings"))


@dataclass(frozen=True, slots=True)
class Steps:
    """Links to the rows before and after a page's row in the list that it was opened from."""

    where: str  # "6 of 1,284", or empty outside of the list
    filter: str
    list: str
    previous: str
    next: str
    with_shift: bool = False  # set if J and K move over the page's own rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """The template variables of every page, and the `extra` ones of one."""

    title: str
    heading: str
    crumbs: Sequence[Crumb] = ()
    list_steps: Steps | None = None
    status_code: int = 200
    extra: Mapping[str, Any] = field(default_factory=dict)


def compose_page(
    *,
    title: str,
    heading: str = "",  # the title, if it is empty
    crumbs: Sequence[Crumb] = (),
    list_steps: Steps | None = None,
    status_code: int = 200,
    **variables: Any,
) -> PageContext:
    return PageContext(
        title=title,
        heading=heading or title,
        crumbs=crumbs,
        list_steps=list_steps,
        status_code=status_code,
        extra=variables,
    )


@dataclass(frozen=True)
class Visit:
    """A request with its time, its project or projects, and the name of its page's place."""

    request: HtmxRequest
    scope: Scope
    current: str
    now: datetime
    live_key: str = ""

    @cached_property
    def shell(self) -> Shell:
        return build_shell(self.request, self.scope, current=self.current)


def begin_visit(request: HtmxRequest, *, current: str) -> Visit:
    return Visit(request, read_scope(request), current, server_time.now())


def live_page(
    template: str,
    part: str,
    *,
    current: str,
    of: type[Model] = Instruction,
    row: str = "",
    read_key: Callable[[datetime], str] | None = None,
    max_age: int | None = None,
) -> Callable[
    [Callable[Concatenate[Visit, P], PageContext | HttpResponse]],
    Callable[Concatenate[Any, P], HttpResponseBase],
]:
    """Make a polling page's view from a function that returns its context or a redirect."""

    # The live key covers the rows of a model, or the one whose id is the URL argument `row`;
    # `read_key` replaces it. After `max_age` seconds the page is rendered again in any case.
    def decorate(
        view: Callable[Concatenate[Visit, P], PageContext | HttpResponse],
    ) -> Callable[Concatenate[Any, P], HttpResponseBase]:
        @wraps(view)
        def answer(request: HtmxRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            now = server_time.now()
            if read_key:
                key = read_key(now)
            elif row:
                id = kwargs[row]
                assert isinstance(id, UUID)
                key = read_live_key(now=now, row=id, of=of)
            else:
                key = read_live_key(now=now, project=requested_project(request), of=of)
            if is_unchanged(request, key, max_age=max_age):
                return unchanged()
            visit = Visit(request, read_scope(request), current, now, key)
            page = view(visit, *args, **kwargs)
            if isinstance(page, HttpResponse):
                return page
            return respond(visit, template, part, page)

        return answer

    return decorate


def respond(visit: Visit, template: str, part: str, page: PageContext) -> HttpResponse:
    """Render the page, or for a script its live part and the sidebar's counts."""
    context = {field.name: getattr(page, field.name) for field in fields(page)}
    context |= {
        **page.extra,
        "part": part,
        "shell": visit.shell,
        "now": visit.now,
        "live_key": visit.live_key,
    }
    if wants_part(visit.request):
        template = "navigation/_answer.html"
    response = render(visit.request, template, context, status=page.status_code)
    if wants_part(visit.request) and visit.live_key:
        response = leave_out_shown(visit, response)
    patch_vary_headers(response, ["HX-Request"])
    return response


def leave_out_shown(visit: Visit, response: HttpResponse) -> HttpResponse:
    content = hash_content(response.content, visit.now)
    key = f"{visit.live_key}~{content}"
    if split_key(visit.request.GET.get("since", ""))[2] == content:
        # The page already shows this content; only its live key is new.
        response = unchanged()
        response[LIVE_KEY_HEADER] = key
    else:
        old, new = (f'data-since="{each}"'.encode() for each in (visit.live_key, key))
        response.content = response.content.replace(old, new, 1)
    return response


def wants_part(request: HtmxRequest) -> bool:
    """Return whether a script asks for the live part of a page that is already open."""
    htmx = request.htmx
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def is_unchanged(request: HtmxRequest, key: str, *, max_age: int | None = None) -> bool:
    since = request.GET.get("since", "")
    return wants_part(request) and is_current(since, key, max_age=max_age)


def unchanged() -> HttpResponse:
    response = HttpResponse(status=204)
    patch_vary_headers(response, ["HX-Request"])
    return response


def back_to(request: HttpRequest, *, otherwise: str) -> str:
    """Return the page that a form names if it is a path of this site, else `otherwise`."""
    target = request.POST.get("next", "")
    ours = target.startswith("/") and url_has_allowed_host_and_scheme(target, allowed_hosts=None)
    return target if ours else otherwise
