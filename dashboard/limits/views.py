"""The Limits page: each account with its windows and forecast, and the tasks that wait."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.agents.account_limits import AccountLimit
from dashboard.frame.rendering import PageContext, Visit, compose_page, live_page
from dashboard.limits import queries
from dashboard.limits.queries import Wait
from dashboard.lists.pagination import fetch_numbered
from ledger import accounts
from ledger.accounts import Account
from ledger.models import AccountWindow
from retries.budgets import reading

LISTED = 24
BUDGETS = 24


@dataclass(frozen=True, slots=True)
class AccountCard:
    """An account as the page shows it."""

    account: Account
    project: str  # empty if the page shows one project
    limits: list[AccountLimit]
    wait: Wait | None
    waits_until: datetime | None

    @property
    def more_agents(self) -> int:
        return self.account.agents - len(self.account.agent_names)

    @property
    def fullest(self) -> AccountLimit | None:
        """The window that will be full first, if any will."""
        found = [limit for limit in self.limits if limit.full_at]
        return min(found, key=lambda limit: limit.full_at) if found else None  # type: ignore[arg-type,return-value]


@live_page("limits/index.html", "limits/_limits.html", current="limits", of=AccountWindow)
def index(visit: Visit) -> PageContext:
    project, now = visit.scope.project, visit.now
    numbered = fetch_numbered(
        lambda start, end: accounts.list_most_used(
            project.pk if project else None, now=now, offset=start, most=end - start
        ),
        visit.request.GET,
        "page",
        size=LISTED,
    )
    waits = queries.list_waits(project, now=now)
    names = {each.pk: each.name for each in visit.scope.projects if project is None}
    by_account = {(wait.project_id, wait.account): wait for wait in waits}
    waiting = sum(wait.tasks for wait in waits)
    return compose_page(
        title="Limits",
        cards=[
            AccountCard(
                row,
                names.get(row.project_id, "") if visit.scope.is_choice else "",
                [AccountLimit.read(window, now=now) for window in row.windows],
                by_account.get((row.project_id, row.name)),
                row.waits_until(now),
            )
            for row in numbered.rows
        ],
        numbered=numbered,
        waits=waits,
        tasks_waiting=waiting,
        tasks=queries.list_waiting_tasks(project, now=now) if waiting else [],
        is_cut=any(wait.is_cut for wait in waits),  # more tasks may wait than are counted
        # those that are used the most
        budgets=reading.list_nearest(project, among=visit.scope.projects, now=now)[:BUDGETS],
        many_projects=project is None and visit.scope.is_choice,
    )
