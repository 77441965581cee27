"""Replay the policies of a project on its history, for the Insight page."""

from datetime import datetime, timedelta
from typing import Any

from ledger.database import sql
from ledger.models import Project
from retries.decisions import NEEDS
from retries.insight.figures.stored import store
from retries.policies.editing import NAMES, read_policies
from retries.policies.replay import DAYS, LEAST_TASKS, replay_policy
from retries.states import Reason

PANEL = "policies"
MOST_LISTED = 20
# the reasons of the escalations that each policy opens
REASONS = {
    "ask_at_once": tuple(set(NEEDS.values())),
    "ask_on_same_failure": (Reason.SAME_FAILURE_AGAIN,),
}
ASKED = """select reason, count(*) as asked from retries_escalation
where project_id = %(project)s and opened_at >= %(since)s and reason = any(%(reasons)s)
group by reason"""


def compute_policies(project: Project, *, now: datetime) -> None:
    # Each policy is counted as if it had been on for all tasks.
    asked = count_asked(project, since=now - timedelta(days=DAYS))
    scopes = read_policies(project.pk)
    data: dict[str, Any] = {"least": LEAST_TASKS, "days": DAYS}
    data["policies"] = [
        replay_to_data(name, project, now=now)
        | {
            "scope": getattr(scopes, name),
            "asked": sum(asked.get(reason, 0) for reason in REASONS.get(name, ())),
        }
        for name in NAMES
    ]
    store(project, PANEL, DAYS, data, now=now)


def count_asked(project: Project, *, since: datetime) -> dict[str, int]:
    reasons = [str(reason) for each in REASONS.values() for reason in each]
    rows = sql.run(ASKED, project=project.pk, since=since, reasons=reasons)
    return {row["reason"]: row["asked"] for row in rows}


def replay_to_data(name: str, project: Project, *, now: datetime) -> dict[str, Any]:
    replay = replay_policy(name, project_id=project.pk, now=now)
    return {
        "name": name,
        "tasks": replay.tasks,
        "done": replay.done,
        "saved": replay.saved,
        "saved_s": round(replay.saved_s),
        "lost": len(replay.lost),
        "asked_more": replay.asked_more,
        "lost_tasks": [
            {"id": str(each.id), "ref": each.ref or "", "title": each.title[:160]}
            for each in replay.lost[:MOST_LISTED]
        ],
    }
