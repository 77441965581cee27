"""The Pools page, and the page of one pool."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.activity import queries as activity_queries
from dashboard.agents.listing import AGENTS
from dashboard.frame.rendering import Crumb, PageContext, Visit, compose_page, live_page
from dashboard.lists.pagination import read_numbered
from dashboard.lists.shared_queries import of_project
from dashboard.pools import queries
from ledger.models import Agent
from ledger.pools.figures import COUNTED, MOST_DONE, Member, PoolFigures, read_figures
from ledger.states import RetryOn

LISTED = 50
EVENTS_SHOWN = 12
HOLDS = {
    "": ("has room", "check", "st--done"),
    "paused": ("paused", "pause", "st--skipped"),
    "at_limit": ("at a limit", "clock", "st--retry"),
    "breaker_open": ("breaker open", "c-open", "st--failed"),
    "full": ("no free slot", "beat", "st--running"),
    "silent": ("silent", "clock", "st--retry"),
}
RETRY_ON = {
    RetryOn.ANY: "any member",
    RetryOn.SAME: "the member that had it last",
    RetryOn.OTHER: "a member other than the one that failed",
}

# what a person does to all members at once, by the slugs of the agents' verbs
MEMBER_VERBS = (
    (
        "reset",
        "Cancel pending instructions of each",
        "All unsettled instructions of all members are cancelled. Their tasks stay.",
    ),
    (
        "trip",
        "Trip the breaker of each",
        "No member gets a task, of this pool or another queue, until a probe passes.",
    ),
    (
        "close",
        "Close the breaker of each",
        "All members get tasks again, and their failures in a row are forgotten.",
    ),
)


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member with why it claims nothing now."""

    member: Member
    hold: str

    @property
    def label(self) -> str:
        return HOLDS[self.hold][0]

    @property
    def icon(self) -> str:
        return HOLDS[self.hold][1]

    @property
    def css(self) -> str:
        return HOLDS[self.hold][2]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool with its figures and members."""

    pool: Agent
    project: str  # empty if the page shows one project
    figures: PoolFigures
    members: list[MemberRow]

    @property
    def free(self) -> int:
        return sum(not each.hold for each in self.members)

    @property
    def waiting(self) -> int:
        return self.figures.queued + self.figures.retries

    @property
    def is_cut(self) -> bool:
        return COUNTED in (self.figures.queued, self.figures.retries)

    @property
    def is_stuck(self) -> bool:
        return bool(self.waiting) and not any(
            not each.hold or each.hold == "full" for each in self.members
        )

    @property
    def is_done_cut(self) -> bool:
        return self.figures.done == MOST_DONE

    @property
    def retry_on(self) -> str:
        return RETRY_ON[RetryOn(self.pool.retry_on)]


@live_page("pools/index.html", "pools/_pools.html", current="agents", of=Agent)
def index(visit: Visit) -> PageContext:
    found = of_project(Agent.objects.pools(), visit.scope.project).order_by("name", "pk")
    numbered = read_numbered(found, visit.request.GET, "page", size=LISTED)
    names = {each.pk: each.name for each in visit.scope.projects if visit.scope.project is None}
    return compose_page(
        title="Pools",
        crumbs=[AGENTS.crumb],
        rows=build_rows(numbered.rows, names if visit.scope.is_choice else {}, now=visit.now),
        numbered=numbered,
        project=visit.scope.project,
        projects=visit.scope.projects,
        retry_choices=RETRY_ON,
    )


@live_page("pools/detail.html", "pools/_pool.html", current="agents", of=Agent)
def detail(visit: Visit, pool_id: UUID) -> PageContext | HttpResponse:
    pool: Any = Agent.objects.filter(pk=pool_id).select_related("project").first()
    if pool is None:
        raise Http404(f"There is no pool {pool_id}.")
    if not pool.is_pool:
        return redirect(reverse("dashboard:agent", args=[pool_id]) + visit.scope.query)
    [row] = build_rows([pool], {}, now=visit.now)
    members = {each.member.name for each in row.members}
    names = queries.list_names(pool)
    return compose_page(
        title=f"{pool.name} · Pool",
        heading=pool.name,
        crumbs=[AGENTS.crumb, pools_crumb(visit)],
        row=row,
        pool=pool,
        queue=queries.list_queue(pool, now=visit.now),
        known_agents=[name for name, is_pool in names if not is_pool and name not in members],
        targets=[name for name, _ in names if name != pool.name],
        open_tasks=queries.count_open(pool),
        events=activity_queries.list_latest(None, agent=pool, most=EVENTS_SHOWN),
        retry_choices=RETRY_ON,
        member_verbs=MEMBER_VERBS,
    )


def pools_crumb(visit: Visit) -> Crumb:
    return Crumb("Pools", reverse("dashboard:pools") + visit.scope.query)


def build_rows(pools: list[Agent], projects: dict[UUID, str], *, now: datetime) -> list[PoolRow]:
    silent = timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])
    found = read_figures([pool.pk for pool in pools], now=now)
    return [
        PoolRow(
            pool,
            projects.get(pool.project_id, ""),
            found[pool.pk],
            [
                MemberRow(member, member.find_hold(now, silent=silent))
                for member in found[pool.pk].members
            ],
        )
        for pool in pools
    ]
