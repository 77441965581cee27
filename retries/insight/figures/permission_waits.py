"""Compute how long agents waited for people to decide about their calls."""

from dataclasses import asdict
from datetime import datetime, timedelta

from ledger.models import Project
from retries.insight.figures.stored import store
from retries.insight.ranges import RANGES
from retries.permissions.waits import read_waits

PANEL = "permissions"
MOST_CALLS = 20


def compute_permission_waits(project: Project, *, now: datetime) -> None:
    for days in RANGES:
        found = read_waits(project, since=now - timedelta(days=days), most=MOST_CALLS)
        rows = [
            asdict(each) | {"name": f"{each.tool} {each.matcher or ''}".strip()}
            for each in found.longest
        ]
        data = {"asked": found.asked, "waited_s": found.waited_s, "rows": rows}
        store(project, PANEL, days, data, now=now)
