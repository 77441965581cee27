"""The Settings page, which is read-only: settings come from the environment."""

from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import rendering
from dashboard.access import operators_only
from dashboard.navigation import read_scope
from dashboard.rendering import HtmxRequest
from dashboard.settings.reference import GROUPS, LIMITS, MECHANISMS


@require_safe
@operators_only
def index(request: HtmxRequest) -> HttpResponse:
    """Render the limits and every setting with its value."""
    context = {
        "now": timezone.now(),
        "title": "Settings",
        "heading": "Settings",
        "limits": LIMITS,
        "mechanisms": MECHANISMS,
        "groups": GROUPS,
    }
    return rendering.respond_with(
        request,
        "settings/index.html",
        "settings/_settings.html",
        context,
        scope=read_scope(request),
        current="settings",
    )
