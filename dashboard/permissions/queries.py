"""Read what people decided about tool calls: proposals of rules, waits, and what a rule decided."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.http import QueryDict

from dashboard.lists.pagination import NumberedPage, read_numbered
from dashboard.lists.shared_queries import of_project
from ledger.database import sql
from ledger.models import Project
from retries.models import Escalation, PermissionRequest, PermissionRule
from retries.permissions.rules import TRIED
from retries.permissions.waits import DECIDED, window
from retries.states import PermissionState, RuleState

LEAST_ALLOWED = 3
PROPOSED = 10
REQUESTS_SHOWN = 50

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
    rows = sql.run_custom_plan(PROPOSALS, **window(project, now - TRIED), now=now)
    return [
        Proposal(
            days=max(1, -(-(now - row["first_at"]) // timedelta(days=1))),
            **{name: value for name, value in row.items() if name != "denied"},
        )
        for row in rows
    ]


# ---- one rule


def find_rule(rule_id: UUID) -> PermissionRule | None:
    return PermissionRule.objects.select_related("agent", "project").filter(pk=rule_id).first()


def read_decided(rule: PermissionRule, given: QueryDict) -> NumberedPage[PermissionRequest]:
    # Several rules may have decided a request together.
    rows = PermissionRequest.objects.filter(rule_ids__contains=[rule.pk])
    rows = rows.select_related("agent", "task").defer("input", "said", "marks")
    return read_numbered(rows.order_by("-id"), given, "page", size=REQUESTS_SHOWN)


def find_request(escalation_id: UUID, project: Project | None) -> Escalation | None:
    rows = of_project(Escalation.objects.exclude(permission=None), project)
    return rows.select_related("agent", "project", "permission").filter(pk=escalation_id).first()
