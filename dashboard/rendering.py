"""One page, one part, one context: which of them a request gets."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails

from dashboard.navigation import Scope, Shell, shell_of


class HtmxRequest(HttpRequest):
    htmx: HtmxDetails


def wants_part(request: HtmxRequest) -> bool:
    """Whether a script asks for the live part of a page that is open already."""
    htmx = request.htmx
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def is_unchanged(request: HtmxRequest, key: str) -> bool:
    """Whether a poll has what there is: then the answer is 204."""
    return wants_part(request) and request.GET.get("since") == key


def unchanged() -> HttpResponse:
    response = HttpResponse(status=204)
    patch_vary_headers(response, ["HX-Request"])
    return response


def respond(
    request: HtmxRequest,
    page: str,
    part: str,
    context: dict[str, Any],
    *,
    scope: Scope,
    current: str,
    shell: Shell | None = None,
) -> HttpResponse:
    """The page, or for a script its live part with the sidebar's counts beside it."""
    shell = shell or shell_of(request, scope, current=current)
    whole = {**context, "shell": shell, "part": part}
    template = "navigation/_answer.html" if wants_part(request) else page
    response = render(request, template, whole)
    patch_vary_headers(response, ["HX-Request"])
    return response


def back_to(request: HttpRequest, *, otherwise: str) -> str:
    """The page that a form stood on, if it is one of ours."""
    target = request.POST.get("next", "")
    ours = target.startswith("/") and url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if ours else otherwise
