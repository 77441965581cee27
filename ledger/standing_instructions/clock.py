"""Send the standing instructions of the clock, each at its interval."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from ledger.journal import clock
from ledger.models import Project
from ledger.standing_instructions.firing import fire_clock
from ledger.tokens import TrustedCaller


def send_due(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Send what is due to every agent that has called lately; return how many were sent."""
    alive_since = now - timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])
    rows = fire_clock(
        alive_since=alive_since,
        now=now,
        project_id=project.id if project else None,
        caller=TrustedCaller(clock("standing_instructions")),
    )
    return {"sent": len(rows)}
