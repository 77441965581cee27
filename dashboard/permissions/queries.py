"""Read what people decided about tool calls: proposals of rules, waits, and what a rule decided."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.lists.shared_queries import of_project
from ledger.database import sql
from ledger.models import Project
from ledger.values.ids import SLACK, first_id
from retries.models import Escalation, PermissionRequest, PermissionRule
from retries.permissions.rules import TRIED
from retries.states import EscalationState, PermissionState, RuleState

LEAST_ALLOWED = 3
PROPOSED = 10
WAITED_SINCE, WAITS_SHOWN = timedelta(days=7), 5
REQUESTS_SHOWN = 50

# what people, not rules, decided
DECIDED = f"""from retries_permissionrequest r
    join retries_escalation e on e.permission_id = r.id
        and e.state = '{EscalationState.RESOLVED}'
    join ledger_project p on p.id = r.project_id
    where r.id >= %(floor)s and r.asked_at > %(since)s
        and r.state in ('{PermissionState.ALLOWED}', '{PermissionState.DENIED}')
        and (%(project)s::uuid is null or r.project_id = %(project)s)"""
PROPOSALS = f"""with decided as (
    select r.project_id, p.name as project, r.tool, r.proposed as matcher,
        count(*) filter (where r.state = '{PermissionState.ALLOWED}') as allowed,
        count(*) filter (where r.state = '{PermissionState.DENIED}') as denied,
        min(r.asked_at) as first_at, count(distinct e.answered_by_id) as people,
        count(distinct r.agent_id) as agents, sum(r.closed_at - r.asked_at) as waited
    {DECIDED} and r.proposed is not null group by 1, 2, 3, 4
)
select d.* from decided d where d.allowed >= {LEAST_ALLOWED} and d.denied = 0 and not exists (
    select from retries_permissionrule x
    where x.project_id = d.project_id and x.tool = d.tool and x.matcher = d.matcher
        and (x.state = '{RuleState.ACTIVE}' and x.expires_at > %(now)s
            or x.state = '{RuleState.DISMISSED}' and x.ended_at > %(since)s))
order by d.allowed desc, d.waited desc, d.matcher limit {PROPOSED}"""
# a row without a tool is the sum
WAITS = f"""select p.name as project, r.tool, r.proposed as matcher, count(*) as asked,
    count(*) filter (where r.state = '{PermissionState.ALLOWED}') as allowed,
    sum(r.closed_at - r.asked_at) as waited
    {DECIDED} group by grouping sets ((), (p.name, r.tool, r.proposed))
order by r.tool is null desc, waited desc, r.tool, r.proposed limit {WAITS_SHOWN + 1}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A rule that would allow what people allowed each time."""

    project_id: UUID
    project: str
    tool: str
    matcher: str
    allowed: int
    people: int
    agents: int
    first_at: datetime
    waited: timedelta
    days: int


def list_proposals(project: Project | None, *, now: datetime) -> list[Proposal]:
    rows = sql.run_custom_plan(PROPOSALS, **window(project, TRIED, now=now), now=now)
    return [
        Proposal(
            days=max(1, -(-(now - row["first_at"]) // timedelta(days=1))),
            **{name: value for name, value in row.items() if name != "denied"},
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class Wait:
    """How long agents waited for people to decide about equal calls."""

    project: str
    tool: str
    matcher: str
    asked: int
    allowed: int
    waited: timedelta


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of the last days, the longest first, with the sum of all."""

    asked: int
    waited: timedelta
    longest: list[Wait]
    days: int = WAITED_SINCE.days


def read_waits(project: Project | None, *, now: datetime) -> Waits:
    whole, *rows = sql.run_custom_plan(WAITS, **window(project, WAITED_SINCE, now=now))
    return Waits(whole["asked"], whole["waited"] or timedelta(), [Wait(**row) for row in rows])


def window(project: Project | None, length: timedelta, *, now: datetime) -> dict[str, Any]:
    since = now - length
    return {
        "project": project.pk if project else None,
        "since": since,
        "floor": first_id(since - SLACK),
    }


# ---- one rule


def find_rule(rule_id: UUID) -> PermissionRule | None:
    return PermissionRule.objects.select_related("agent", "project").filter(pk=rule_id).first()


def list_decided(rule: PermissionRule) -> list[PermissionRequest]:
    """Return the newest requests that a rule decided, alone or with others."""
    rows = PermissionRequest.objects.filter(rule_ids__contains=[rule.pk])
    rows = rows.select_related("agent", "task").defer("input", "said", "marks")
    return list(rows.order_by("-id")[:REQUESTS_SHOWN])


def find_request(escalation_id: UUID, project: Project | None) -> Escalation | None:
    """Return the escalation whose call a new rule is to allow."""
    rows = of_project(Escalation.objects.exclude(permission=None), project)
    return rows.select_related("agent", "project", "permission").filter(pk=escalation_id).first()
