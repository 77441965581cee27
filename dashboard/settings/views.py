"""The Settings page, which is read-only: settings come from the environment."""

from django.http import HttpResponse

from dashboard.frame import rendering
from dashboard.frame.rendering import HtmxRequest, compose_page
from dashboard.settings import retention
from dashboard.settings.limits import LIMITS, MECHANISMS
from dashboard.settings.reference import GROUPS


def index(request: HtmxRequest) -> HttpResponse:
    visit = rendering.begin_visit(request, current="settings")
    page = compose_page(
        title="Settings",
        retention=retention.fetch_status(),
        archive=retention.describe_archive(),
        limits=LIMITS,
        mechanisms=MECHANISMS,
        groups=GROUPS,
    )
    return rendering.respond(visit, "settings/index.html", "settings/_settings.html", page)
