"""Instruction statistics over HTTP."""

import re
from datetime import timedelta

from django.http import HttpResponse
from ninja import Query, Router

from ledger.api.auth import PrincipalAuth, PrincipalRequest
from ledger.api.responses import json_response
from ledger.database import server_time
from ledger.errors import Invalid
from ledger.instruction_records import stats as instruction_stats
from ledger.models import Project
from ledger.schemas.stats import StatsOut, StatsQuery

router = Router(tags=["platform"])

WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
UNITS = {"m": "minutes", "h": "hours", "d": "days"}
LONGEST = timedelta(days=400)


@router.get("/stats", auth=PrincipalAuth("events:read"), response=StatsOut)
def stats_get(request: PrincipalRequest, query: Query[StatsQuery]) -> HttpResponse:
    """Get instruction statistics for the project and for each agent."""
    window, project_id = parse_window(query.window), request.auth.project_id
    project, agents = instruction_stats.fetch_stats(project_id, since=server_time.now() - window)
    project.name = Project.objects.get(pk=project_id).name
    return json_response(
        {
            "window_s": int(window.total_seconds()),
            "project": instruction_stats.as_dict(project),
            "agents": [instruction_stats.as_dict(agent) for agent in agents.values()],
        }
    )


def parse_window(text: str) -> timedelta:
    match = WINDOW.fullmatch(text)
    window = timedelta(**{UNITS[match[2]]: int(match[1])}) if match else None
    if window is None or window > LONGEST:
        raise Invalid(
            "/window",
            "window must be a number followed by m, h, or d, such as 30m, 24h, or 7d, and at most "
            f"{LONGEST.days}d.",
        )
    return window
