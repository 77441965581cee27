"""The Settings page, which is read-only: settings come from the environment."""

from dataclasses import dataclass

from django.http import HttpResponse

from dashboard.frame import rendering
from dashboard.frame.rendering import HtmxRequest, PageContext
from dashboard.settings import retention
from dashboard.settings.limits import LIMITS, MECHANISMS, Limit, Mechanism
from dashboard.settings.reference import GROUPS, Group
from dashboard.settings.retention import RetentionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPage(PageContext):
    limits: tuple[Limit, ...] = LIMITS
    mechanisms: tuple[Mechanism, ...] = MECHANISMS
    groups: tuple[Group, ...] = GROUPS
    retention: RetentionStatus
    archive: str


def index(request: HtmxRequest) -> HttpResponse:
    visit = rendering.begin_visit(request, current="settings")
    page = SettingsPage(
        title="Settings",
        heading="Settings",
        retention=retention.fetch_status(),
        archive=retention.describe_archive(),
    )
    return rendering.respond(visit, "settings/index.html", "settings/_settings.html", page)
