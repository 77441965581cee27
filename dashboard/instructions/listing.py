"""The list of instructions: `agent:gemini urgency:urgent ack:>30s some words`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models import Value as V
from django.db.models.functions import Coalesce

from dashboard.agents.queries import list_silent_agents
from dashboard.frame import rendering
from dashboard.frame.navigation import Scope
from dashboard.frame.rendering import HtmxRequest, Visit
from dashboard.instructions import action_views, filters, queries
from dashboard.instructions.action_views import SendFields
from dashboard.instructions.day_figures import read_day
from dashboard.instructions.details import InstructionDetails, describe_details
from dashboard.instructions.filters import InstructionQuery
from dashboard.instructions.forecast import Clock
from dashboard.instructions.queries import ListedInstruction
from dashboard.instructions.status import describe_status
from dashboard.listing import (
    Column,
    Listing,
    ListPage,
    State,
    any_of,
    build_toggle,
    equals,
    older_than,
    within,
)
from dashboard.lists.query_box import ANY, as_id
from dashboard.lists.shared_queries import failed_in_pattern, failed_with, match_any, match_values
from dashboard.lists.sorting import BY_ID, SortColumn, largest
from dashboard.wording.status_text import StatusText
from ledger import search_words
from ledger.models import Instruction, Project, Task
from ledger.states import LEVELS, InstructionState
from retries.verbs.instructions import LIST

# No index finds a type. It is looked up for each instruction, so that no plan reads all tasks; it
# is empty without a task, so that it can be excluded.
TASK_TYPE = Coalesce(Subquery(Task.objects.filter(pk=OuterRef("task")).values("type")[:1]), V(""))


def has_urgency(name: str) -> Q:
    level = filters.URGENCIES[name]
    return Q(retry_count__gte=level) if level == len(LEVELS) - 1 else Q(retry_count=level)


class InstructionList(Listing[InstructionQuery]):
    name = "instructions"
    row_page = "instruction"
    current = "instructions"
    heading = "Instructions"
    nouns = "instructions"

    model = Instruction
    query = InstructionQuery
    keys = filters.KEYS
    conditions = {
        "agent": equals("agent__name"),
        "sender": equals("sent_by_name"),
        "plan": equals("task__plan__ref"),
        "error": any_of(lambda text: Q(task__in=failed_with(text))),
        "urgency": any_of(has_urgency),
        "older": older_than("queued_at"),
        "sent": within("queued_at", is_creation=True),
    }
    states = {
        "waiting": State("Waiting"),
        "acknowledged": State("Acknowledged"),
        "failed": State("Gave up"),
        "cancelled": State("Cancelled"),
    }
    dates = "sent"

    template = "instructions/index.html"
    part = "instructions/_instructions.html"
    row = "instructions/_row.html"
    empty = "instructions/_none.html"
    table = "tbl rows rows--plain"
    example = "agent:gemini  urgency:urgent  ack:>30s"
    columns = (
        Column("State"),
        Column("Instruction"),
        Column("To", "", "agent", SortColumn(F("agent__name"))),
        Column("From", "c-lg", "from", SortColumn(F("sent_by_name"))),
        Column("Urgency", "", "urgency", largest(F("retry_count"))),
        Column("Sent", "r c-md", "sent", BY_ID),
        Column("Acknowledged", "r"),
    )
    default_sort = "-sent"
    verbs = ("instruction_act", "operation_new")

    export_columns = {
        "id": "id",
        "project": "project__name",
        "agent": "agent__name",
        "state": "state",
        "content": "content",
        "sent_by": "sent_by_name",
        "tracked": "tracked",
        "retry_count": "retry_count",
        "deliveries": "deliveries",
        "outcome": "outcome",
        "note": "note",
        "queued_at": "queued_at",
        "delivered_at": "delivered_at",
        "delivered_via": "delivered_via",
        "read_at": "read_at",
        "acknowledged_at": "acknowledged_at",
        "failed_at": "failed_at",
        "cancelled_at": "cancelled_at",
    }

    def narrow(
        self, rows: QuerySet[Any], query: InstructionQuery, project: Project | None
    ) -> QuerySet[Any]:
        rows = rows.filter(
            match_any(query.pattern, lambda text: Q(task__in=failed_in_pattern(text, project)))
        )
        if query.type != ANY:
            rows = rows.alias(type=TASK_TYPE).filter(match_values(query.type, "type"))
        if query.type.wanted:
            rows = rows.filter(task__isnull=False)  # an index finds the few with a task
        if query.ack_over is not None or query.ack_under is not None:
            rows = rows.filter(state=InstructionState.ACKNOWLEDGED)
            rows = rows.annotate(took=F("acknowledged_at") - F("queued_at"))
        if query.ack_over is not None:
            rows = rows.filter(took__gt=timedelta(seconds=query.ack_over))
        if query.ack_under is not None:
            rows = rows.filter(took__lt=timedelta(seconds=query.ack_under))
        return rows

    def in_state(self, name: str) -> Q:
        which = Q(state__in=filters.STATES[name])
        return which & Q(tracked=True) if name == "waiting" else which

    def has_word(self, word: str) -> Q:
        return Q(id__in=search_words.find_instructions(word))

    def read_counts(self, rows: QuerySet[Any]) -> dict[str, int]:
        found = rows.values("state", "tracked").annotate(n=Count("*"))
        of_state = {(row["state"], row["tracked"]): row["n"] for row in found}
        waits = filters.STATES["waiting"]
        return {
            "all": sum(of_state.values()),
            "waiting": sum(of_state.get((state, True), 0) for state in waits),
            **{
                state.value: of_state.get((state, True), 0) + of_state.get((state, False), 0)
                for state in InstructionState
            },
        }

    def load(self, rows: QuerySet[Any], opened: UUID | None) -> QuerySet[Any]:
        # Only the opened row needs its whole content.
        whole = rows.annotate(whole=Case(When(id=opened, then="content"))) if opened else rows
        return queries.with_extras(whole)

    def title_of(self, counts: Any) -> str:
        waiting = counts["waiting"]
        return f"{waiting:,} waiting · {self.heading}" if waiting else self.heading

    def read_extra(self, page: ListPage, visit: Visit) -> dict[str, Any]:
        request, scope, now = visit.request, visit.scope, visit.now
        clock = queries.read_clock()
        return {
            "silent": list_silent_agents(scope.project, now=now, with_instructions=True),
            "send": read_send_fields(request, scope),
            "figures": read_day(request, scope.project, now=now),
            "clock": clock,
            "clock_is_late": page.counts["waiting"] > 0 and clock.is_late(now),
            "bulk_verbs": LIST,
        }

    def build_entries(self, page: ListPage, visit: Visit) -> list[Any]:
        opened = as_id(visit.request.GET.get("open", ""))
        return [
            build_entry(row, page.extra["clock"], visit, is_open=row.pk == opened)
            for row in page.page.rows
        ]


INSTRUCTIONS = InstructionList()


def read_send_fields(request: HtmxRequest, scope: Scope) -> SendFields | None:
    if rendering.wants_part(request):
        # A poll does not render the dialog.
        return None
    form = action_views.SendForm(initial=action_views.initial_values(request, scope))
    return action_views.list_send_fields(form, scope)


# ---- the rows


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the list, with its details if it is expanded."""

    listed: ListedInstruction
    status: StatusText
    details: InstructionDetails | None
    toggle: str  # the query string that expands or collapses it


def build_entry(row: Any, clock: Clock, visit: Visit, *, is_open: bool) -> Entry:
    listed = queries.build_listed_instruction(row)
    forecast = queries.forecast_of(listed, clock, now=visit.now)
    return Entry(
        listed,
        describe_status(row, ahead=listed.ahead, forecast=forecast, now=visit.now),
        describe_details(listed, clock, now=visit.now) if is_open else None,
        build_toggle(visit, row.pk, is_open=is_open),
    )
