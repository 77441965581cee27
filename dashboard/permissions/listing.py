"""The list of permission rules: `tool:Bash verdict:allow agent:coder npm`."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet

from dashboard.frame.access import may_open
from dashboard.frame.rendering import SETTINGS, Visit
from dashboard.listing import Column, Listing, ListPage, State, any_of, equals, within
from dashboard.lists.query_box import ANY, Names, StateQuery, Values
from dashboard.lists.query_values import Period, read_period
from dashboard.lists.sorting import BY_ID, SortColumn, largest
from dashboard.permissions import queries
from dashboard.wording.formatting import rough_duration
from ledger.models import Project
from retries.models import PermissionRule
from retries.permissions.waits import read_waits
from retries.states import RuleState

WAITED = timedelta(days=7)  # the time whose waits are shown
SOON = timedelta(days=14)  # the time before an unused rule ends
VERDICTS = ("allow", "deny")


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRuleQuery(StateQuery):
    verdict: Values = ANY
    tool: Values = ANY
    agent: Values = ANY
    by: Values = ANY
    used: Period | None = None
    created: Period | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    row: PermissionRule
    ends_in: str  # the time left without a use; empty for an ended rule
    ends_soon: bool


def build_entry(row: PermissionRule, now: datetime) -> Entry:
    left = (row.expires_at - now) if row.state == RuleState.ACTIVE else None
    text = rough_duration(left.total_seconds()) if left else ""
    return Entry(row, text, ends_soon=bool(left and left < SOON))


class PermissionRuleList(Listing[PermissionRuleQuery]):
    name = "permission_rules"
    row_page = "permission_rule"
    current = "settings"
    heading = "Permission rules"
    nouns = "rules"
    file_name = "permission-rules"
    crumbs = (SETTINGS,)

    model = PermissionRule
    query = PermissionRuleQuery
    keys = {
        "state": Names(("in-force", "revoked", "expired")),
        "verdict": Names(VERDICTS),
        "tool": Names(),
        "agent": Names(),
        "by": Names(),
        "used": read_period("used"),
        "created": read_period("created"),
    }
    conditions = {
        "verdict": any_of(lambda name: Q(allows=name == "allow")),
        "tool": equals("tool"),
        # a rule for all agents counts for each of them
        "agent": any_of(lambda name: Q(agent__name=name) | Q(agent=None)),
        "by": equals("created_by_name"),
        "used": within("last_used_at"),
        "created": within("created_at", is_creation=True),
    }
    searched = ("tool", "matcher", "message")
    states = {
        "in-force": State("In force", (RuleState.ACTIVE,)),
        "revoked": State("Revoked", (RuleState.REVOKED,)),
        "expired": State("Expired", (RuleState.EXPIRED,)),
    }
    default_state = "in-force"
    dates = "created"

    template = "permissions/rules.html"
    part = "permissions/_rules.html"
    row = "permissions/_rule_row.html"
    empty = "permissions/_no_rules.html"
    bar = "listing__bar listing__bar--full"
    table = "tbl rows rows--plain prules"
    example = "tool:Bash  verdict:deny  agent:coder  npm"
    columns = (
        Column("Verdict"),
        Column("Call", "", "call", SortColumn(F("matcher"))),
        Column("For", "c-md", "for", SortColumn(F("agent__name"))),
        Column("Used", "r", "used", largest(F("hits"))),
        Column("Last", "r c-md", "last", largest(F("last_used_at"))),
        Column("Ends", "r c-lg", "ends", SortColumn(F("expires_at"))),
        Column("Made by", "c-lg", "made", BY_ID),
    )
    default_sort = "-made"
    is_live = False
    is_compiled = False

    export_columns = {
        "id": "id",
        "project": "project__name",
        "agent": "agent__name",
        "tool": "tool",
        "matcher": "matcher",
        "allows": "allows",
        "message": "message",
        "state": "state",
        "hits": "hits",
        "last_used_at": "last_used_at",
        "expires_at": "expires_at",
        "created_by": "created_by_name",
        "created_at": "created_at",
        "ended_by": "ended_by_name",
        "ended_at": "ended_at",
    }

    def rows(self, project: Project | None) -> QuerySet[Any]:
        # A proposal that a person put aside is not listed.
        return super().rows(project).exclude(state=RuleState.DISMISSED)

    def load(self, rows: QuerySet[Any], opened: object) -> QuerySet[Any]:
        return rows.select_related("agent", "project")

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        return [build_entry(row, visit.now) for row in page.page.rows]

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        project = visit.scope.project
        is_first = not (page.query.text or visit.request.GET.get("before"))
        return {
            "proposals": queries.list_proposals(project, now=visit.now) if is_first else [],
            "waits": read_waits(project, since=visit.now - WAITED, most=5) if is_first else None,
            "waited_days": WAITED.days,
            "may_add": may_open(visit.request.user, "permission_rule_new"),
            "may_change": may_open(visit.request.user, "permission_rule_act"),
        }


PERMISSION_RULES = PermissionRuleList()
