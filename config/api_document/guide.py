"""The guide for agents: how a model works with the API, as one page of Markdown."""

from functools import cache

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

EXAMPLE_URL = "https://tenfour.example.org"


@cache
def read_guide() -> str:
    """Return the guide, with the example's address in place of this server's."""
    return (settings.BASE_DIR / "templates" / "agent_guide.md").read_text("utf-8")


@require_safe
def guide(request: HttpRequest) -> HttpResponse:
    return guide_response("text/markdown")


@require_safe
def llms_txt(request: HttpRequest) -> HttpResponse:
    # Models look for the guide at this address.
    return guide_response("text/plain")


def guide_response(media: str) -> HttpResponse:
    if not settings.TENFOUR["OPEN_DOCS"]:
        raise Http404("The documentation is turned off.")
    text = read_guide().replace(EXAMPLE_URL, settings.LINK_URL)
    return HttpResponse(text, content_type=f"{media}; charset=utf-8")
