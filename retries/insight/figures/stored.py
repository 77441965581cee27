"""Store the figures of a panel of the Insight page."""

from datetime import datetime
from typing import Any

from ledger.models import Project
from retries.models import InsightFigure


def store(project: Project, panel: str, days: int, data: dict[str, Any], *, now: datetime) -> None:
    InsightFigure.objects.update_or_create(
        project=project, panel=panel, days=days, defaults={"computed_at": now, "data": data}
    )
