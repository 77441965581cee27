"""The time that agents waited for people to decide about their calls."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ledger.database import sql
from ledger.models import Project
from ledger.values.ids import SLACK, first_id
from retries.states import EscalationState, PermissionState

# what people, not rules, decided
DECIDED = f"""from retries_permissionrequest r
    join retries_escalation e on e.permission_id = r.id
        and e.state = '{EscalationState.RESOLVED}'
    join ledger_project p on p.id = r.project_id
    where r.id >= %(floor)s and r.asked_at > %(since)s
        and r.state in ('{PermissionState.ALLOWED}', '{PermissionState.DENIED}')
        and (%(project)s::uuid is null or r.project_id = %(project)s)"""
# a row without a tool is the sum
WAITS = f"""select p.name as project, r.tool, r.proposed as matcher, count(*) as asked,
    count(*) filter (where r.state = '{PermissionState.ALLOWED}') as allowed,
    extract(epoch from sum(r.closed_at - r.asked_at))::float8 as waited_s
    {DECIDED} group by grouping sets ((), (p.name, r.tool, r.proposed))
order by r.tool is null desc, waited_s desc, r.tool, r.proposed limit %(most)s + 1"""


@dataclass(frozen=True, slots=True)
class Wait:
    """The time that agents waited for people to decide about equal calls, in seconds.

    `matcher` is that of the rule that would allow them, None where no rule can.
    """

    project: str
    tool: str
    matcher: str | None
    asked: int
    allowed: int
    waited_s: float


@dataclass(frozen=True, slots=True)
class Waits:
    """The longest waits, and the sum of all."""

    asked: int
    waited_s: float
    longest: list[Wait]


def read_waits(project: Project | None, *, since: datetime, most: int) -> Waits:
    whole, *rows = sql.run_custom_plan(WAITS, **window(project, since), most=most)
    return Waits(whole["asked"], whole["waited_s"] or 0.0, [Wait(**row) for row in rows])


def window(project: Project | None, since: datetime) -> dict[str, Any]:
    floor = first_id(since - SLACK)
    return {"project": project.pk if project else None, "since": since, "floor": floor}
