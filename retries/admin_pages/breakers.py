"""The admin's pages of breakers and of agents, whose actions change breakers."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from ledger import admin as ledger_admin
from ledger.admin_pages.confirmation import confirm
from ledger.admin_pages.details import Link
from ledger.admin_pages.filters import list_values
from ledger.admin_pages.lists import ReadOnly
from ledger.journal import stamp_of
from ledger.models import Agent, Attempt, Breaker, Event
from ledger.states import BreakerState
from retries import breaker_actions
from retries.admin_pages import effects as admin_effects
from retries.models import Escalation


class BreakerActions(ReadOnly):
    """Actions on the breakers of agents, for rows that are an agent or belong to one."""

    actions: tuple[str, ...] = ("trip_breaker", "keep_breaker_open", "reset_breaker")

    @admin.action(description="Trip the breaker: hand out no tasks until it is half-open")
    def trip_breaker(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        stamp, agents = stamp_of(request), [agent_of(row) for row in chosen]
        changed = breaker_actions.trip(agents, reason="by hand", stamp=stamp)
        self.report_changes(request, len(changed), "tripped")

    @admin.action(description="Keep the breaker open: no probe until a person closes it")
    def keep_breaker_open(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        stamp, agents = stamp_of(request), [agent_of(row) for row in chosen]
        changed = breaker_actions.keep_open(agents, stamp=stamp)
        self.report_changes(request, len(changed), "kept open")

    @admin.action(description="Reset the breaker: close it and clear its failures")
    @confirm(admin_effects.reset_breakers)
    def reset_breaker(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        stamp, agents = stamp_of(request), [agent_of(row) for row in chosen]
        changed = breaker_actions.reset(agents, stamp=stamp)
        self.report_changes(request, len(changed), "reset")


def breaker_of(agent: Agent) -> Breaker | None:
    """Return an agent's breaker, which exists from its first failure or trip on."""
    found: Breaker | None = getattr(agent, "breaker", None)
    return found


def agent_of(row: Agent | Breaker) -> Agent:
    return row if isinstance(row, Agent) else row.agent


@admin.register(Breaker)
class BreakerAdmin(BreakerActions):
    project_path = "agent__project_id"
    list_display = (
        "agent",
        "state",
        "failures",
        "opened_at",
        "kept_open_at",
        "trips",
        "updated_at",
    )
    list_filter = ("state", "agent__project")
    list_select_related = ("agent",)
    search_fields = ("agent__name",)
    narrow = {
        "trip_breaker": lambda rows: rows.exclude(state=BreakerState.OPEN),
        "keep_breaker_open": lambda rows: rows.filter(state=BreakerState.OPEN, kept_open_at=None),
        "reset_breaker": lambda rows: rows.exclude(state=BreakerState.CLOSED, failures=0),
    }

    def name_row(self, row: Breaker) -> str:
        return f"{row.agent}: {row.state}"

    def list_subjects(self, row: Breaker) -> list[UUID]:
        return [row.agent_id]

    def find_page(self, row: Breaker) -> str:
        return f"/agents/{row.agent_id}/"

    def list_links(self, request: HttpRequest, row: Breaker) -> Iterator[Link]:
        yield from self.link_to_row(request, "Agent", row.agent)
        of = {"agent__id__exact": row.agent_id}
        yield from self.link_to_list(request, "Attempts", Attempt, **of)
        yield from self.link_to_list(request, "Events", Event, agent_id__exact=row.agent_id)


admin.site.unregister(Agent)


@admin.register(Agent)
class AgentAdmin(BreakerActions, ledger_admin.AgentAdmin):
    """The ledger's page of agents, with their breakers."""

    list_display = (
        "name",
        "project",
        "paused",
        "breaker_state",
        "concurrency",
        "last_seen_at",
        "created_at",
    )
    list_filter = (
        "paused",
        # an agent without a breaker has a closed one
        list_values("breaker__state", (BreakerState.OPEN, BreakerState.HALF_OPEN), title="breaker"),
        "project",
    )
    list_select_related = ("project", "breaker")
    readonly_fields = ("breaker_state", *ledger_admin.AgentAdmin.readonly_fields)
    actions = (*ledger_admin.AgentAdmin.actions, *BreakerActions.actions)
    narrow = ledger_admin.AgentAdmin.narrow | {
        "trip_breaker": lambda rows: rows.exclude(breaker__state=BreakerState.OPEN),
        "keep_breaker_open": lambda rows: rows.filter(
            breaker__state=BreakerState.OPEN, breaker__kept_open_at=None
        ),
        "reset_breaker": lambda rows: rows.filter(
            pk__in=Breaker.objects.exclude(state=BreakerState.CLOSED, failures=0).values("agent")
        ),
    }

    @admin.display(description="breaker", ordering="breaker__state")
    def breaker_state(self, row: Agent) -> str:
        breaker = breaker_of(row)
        return str(BreakerState(breaker.state if breaker else BreakerState.CLOSED).label)

    def list_links(self, request: HttpRequest, row: Agent) -> Iterator[Link]:
        yield from self.link_to_row(request, "Breaker", breaker_of(row))
        asked = {"agent__id__exact": row.pk, "state__exact": "open"}
        yield from self.link_to_list(request, "Open escalations", Escalation, **asked)
        yield from super().list_links(request, row)
