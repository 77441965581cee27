"""What the pages ask the database: rows and figures, nothing decided here."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from django.conf import settings
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    IntegerField,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
    Window,
)
from django.db.models import Value as V
from django.db.models.functions import Coalesce, Concat, Left, NullIf, Trim
from django.utils import timezone

from dashboard import pagination
from dashboard.instructions import filters
from dashboard.instructions.filters import Query
from dashboard.instructions.forecast import Clock, Forecast, forecast
from dashboard.instructions.latency_chart import LATENCY_EDGES
from dashboard.instructions.status import AHEAD_CAP
from dashboard.pagination import PAGE, Page
from ledger import instruction_stats, journal, sql
from ledger.instruction_stats import Statistics
from ledger.models import Agent, ClockRun, DeadLetter, Event, Instruction, Plan, Project, Task
from ledger.optional_cache import figure
from ledger.states import LEVELS, InstructionState
from retries.models import FailurePattern

SNIPPET = 240
WINDOW = timedelta(hours=24)
EVENTS_SHOWN = 200
SILENT_SHOWN = 3
PROJECTS_SHOWN = 20
BUCKET_SECONDS = 15

# what a list leaves in the table
HEAVY = ("content", "content_sha256", "expect_match", "acknowledged_by", "note")


# ---- what has changed


def live_key_of(table: str, changed: str = "updated_at") -> str:
    """The SQL of the key of a page that shows rows of a table."""
    return f"""select head.tx, head.id, newest.at as newest
    from (
        select max(at) as at from (
            select {changed} as at from {table} i
            where (%(project)s::uuid is null or i.project_id = %(project)s)
                and (%(row)s::uuid is null or i.id = %(row)s)
            order by i.id desc limit {PAGE}) shown
    ) newest left join ({journal.HEAD}) head on true"""


# a plan is drawn with its tasks: in the list their moves are the journal's, on its page their own
LIVE_KEY_OF_PLAN = f"""select head.tx, head.id, newest.at as newest
    from (
        select greatest(
            (select updated_at from ledger_plan where id = %(row)s),
            (select max(updated_at) from ledger_task where plan_id = %(row)s)) as at
    ) newest left join ({journal.HEAD}) head on true"""

LIVE_KEYS: dict[type[Model], str] = {
    Instruction: live_key_of("ledger_instruction"),
    Task: live_key_of("ledger_task"),
    DeadLetter: live_key_of("ledger_deadletter", "coalesce(closed_at, failed_at)"),
    Plan: live_key_of("ledger_plan"),
    FailurePattern: live_key_of("retries_failurepattern"),
}


def live_key(
    *,
    now: datetime,
    project: Project | None = None,
    row: UUID | None = None,
    of: type[Model] = Instruction,
) -> str:
    """Stands still as long as a page need not be drawn again; asked before the page is read.

    The journal's settled place, the newest change among the rows that a page shows (a long
    transaction holds the former back), and a bucket of time for what ages by itself.
    """
    text = LIVE_KEY_OF_PLAN if of is Plan and row else LIVE_KEYS[of]
    # planned with its values: one plan for any row or none would walk the whole table for one
    found = sql.planned(text, project=project.id if project else None, row=row)[0]
    newest = f"{found['newest'].timestamp():.6f}" if found["newest"] else "0"
    bucket = int(now.timestamp()) // BUCKET_SECONDS
    return f"{bucket}~{found['tx'] or 0}.{found['id'] or 0}.{newest}"


# ---- projects and agents


class CountOf(Subquery):
    """How many rows a query finds; the query may be sliced, so that nobody counts for ever."""

    template = "(select count(*) from (%(subquery)s) counted)"
    output_field = IntegerField()


def projects() -> list[Project]:
    return list(Project.objects.order_by("name")[:PROJECTS_SHOWN])


def project_named(name: str) -> Project | None:
    return Project.objects.filter(name=name).first() if "\0" not in name else None


def waiting(project: Project | None) -> QuerySet[Instruction]:
    """Tracked instructions that nobody has answered yet."""
    return of_project(Instruction.objects.awaiting_ack(), project)


def silent(project: Project | None) -> QuerySet[Agent]:
    """Agents that do not ask although something waits for them."""
    return of_project(Agent.objects.silent(timezone.now()), project)


@dataclass(frozen=True, slots=True)
class Silent:
    """Agents that do not ask although something waits for them; the longest silent first."""

    agents: list[Agent]  # with `waiting`
    more: int


def silent_agents(project: Project | None, *, now: datetime) -> Silent:
    queue = Instruction.objects.filter(agent=OuterRef("pk"), state=InstructionState.QUEUED).values(
        "pk"
    )
    found = list(
        of_project(Agent.objects.silent(now), project)
        .annotate(waiting=CountOf(queue), of=Window(Count("*")))
        .order_by(F("last_seen_at").asc(nulls_first=True), "name")[:SILENT_SHOWN]
    )
    return Silent(found, found[0].of - len(found) if found else 0)


def of_project(rows: QuerySet[Any], project: Project | None) -> QuerySet[Any]:
    return rows.filter(project=project) if project else rows


def title_of(task: str = "") -> Coalesce:
    """What a task is called: its title, or its type where it has none."""
    return Coalesce(NullIf(f"{task}title", V("")), f"{task}type")


def ref_and_title_of(task: str = "") -> Trim:
    """The same behind its ref, where it has one."""
    return Trim(Concat(f"{task}ref", V(" "), title_of(task)))


# ---- figures of the last day


def figures(project: Project | None, *, now: datetime) -> tuple[Statistics, dict[UUID, Statistics]]:
    rows = figure(
        f"figures:{project.id if project else 'all'}",
        lambda: instruction_stats.counted(project.id if project else None, since=now - WINDOW),
    )
    return instruction_stats.of_rows(*rows)


LATENCIES = f"""select width_bucket({instruction_stats.ACK_SECONDS}, %(edges)s::float8[]) as class,
    i.deliveries > 1 as reminded, count(*) as n
{instruction_stats.SENT} and i.state = '{InstructionState.ACKNOWLEDGED}'
    and (%(agent)s::uuid is null or i.agent_id = %(agent)s)
group by 1, 2"""


def latencies(
    project: Project | None, *, agent_id: UUID | None, now: datetime
) -> dict[tuple[int, bool], int]:
    """How many were acknowledged, by class of time and whether it took a reminder."""

    def count() -> dict[tuple[int, bool], int]:
        rows = sql.planned(
            LATENCIES,
            edges=[float(edge) for edge in LATENCY_EDGES],
            project=project.id if project else None,
            agent=agent_id,
            **instruction_stats.sent_since(now - WINDOW),
        )
        return {(row["class"], row["reminded"]): row["n"] for row in rows}

    return figure(f"latencies:{project.id if project else 'all'}:{agent_id}", count)


# ---- instructions


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction in a list, without its heavy columns."""

    row: Instruction
    start: str  # of its content
    before: int  # how many stand before it in its queue
    queue_busy: bool  # whether anything waits in its agent's queue


def instructions(query: Query, project: Project | None) -> QuerySet[Instruction]:
    """Those that a query asks for."""
    rows = of_project(Instruction.objects.all(), project)
    rows = rows.filter(
        named(query.agent, "agent__name"), named(query.sender, "sent_by_name"), states(query)
    )
    for word in query.words:
        rows = rows.filter(content__icontains=word)
    if query.ids:
        rows = rows.filter(id__in=query.ids)
    took = F("acknowledged_at") - F("queued_at")
    if query.ack_over is not None or query.ack_under is not None:
        rows = rows.filter(state=InstructionState.ACKNOWLEDGED).annotate(took=took)
    if query.ack_over is not None:
        rows = rows.filter(took__gt=timedelta(seconds=query.ack_over))
    if query.ack_under is not None:
        rows = rows.filter(took__lt=timedelta(seconds=query.ack_under))
    return rows


def named(values: filters.Values, column: str) -> Q:
    wanted = Q(**{f"{column}__in": values.wanted}) if values.wanted else Q()
    return wanted & ~Q(**{f"{column}__in": values.unwanted}) if values.unwanted else wanted


def states(query: Query) -> Q:
    """The states and urgencies of a query."""
    return any_of(query.state, in_state) & any_of(query.urgency, as_loud_as)


def any_of(values: filters.Values, meaning: Callable[[str], Q]) -> Q:
    found = Q()
    for name in values.wanted:
        found |= meaning(name)
    for name in values.unwanted:
        found &= ~meaning(name)
    return found


def in_state(name: str) -> Q:
    which = Q(state__in=filters.STATES[name])
    return which & Q(tracked=True) if name == "waiting" else which


def as_loud_as(name: str) -> Q:
    level = filters.URGENCIES[name]
    return Q(retry_count__gte=level) if level == len(LEVELS) - 1 else Q(retry_count=level)


def page(
    rows: QuerySet[Instruction],
    *,
    before: UUID | None,
    after: UUID | None,
    open_id: UUID | None = None,
) -> Page[Line]:
    """The rows next to a place; the one that is opened comes with its whole content."""
    rows = rows.annotate(whole=Case(When(id=open_id, then="content"))) if open_id else rows
    found = pagination.page(with_extras(rows), before=before, after=after)
    return found.told(lambda rows: [line_of(row) for row in rows])


def line_of(row: Any) -> Line:
    if getattr(row, "whole", None) is not None:
        row.content = row.whole
    return Line(row, row.start, row.before, row.busy)


def with_extras(rows: QuerySet[Instruction]) -> QuerySet[Any]:
    """What a line shows beside the row's own columns, looked up for the page's rows alone."""
    queue = Instruction.objects.filter(
        agent=OuterRef("agent"), state=InstructionState.QUEUED
    ).order_by()
    first = queue.filter(position__lt=OuterRef("position")).values("pk")[:AHEAD_CAP]
    return (
        rows.select_related("agent", "project")
        .defer(*HEAVY)
        .annotate(
            start=Left("content", SNIPPET),
            busy=Case(When(state=InstructionState.DELIVERED, then=Exists(queue)), default=V(False)),
            before=Case(When(state=InstructionState.QUEUED, then=CountOf(first)), default=V(0)),
        )
    )


def counts(query: Query, project: Project | None) -> dict[str, int]:
    """How many there are in each state, by the names of the list's buttons."""
    query = query.stateless()

    def count() -> dict[str, int]:
        rows = instructions(query, project).order_by()
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

    return figure(f"counts:{project.id if project else 'all'}:{hash_of(query)}", count)


def hash_of(query: object) -> str:
    return uuid5(NAMESPACE_OID, repr(query)).hex


def clock() -> Clock:
    """How the idle check runs."""
    run = ClockRun.objects.filter(name="idle_check").only("last_run_at").first()
    return Clock(
        every=timedelta(seconds=settings.TENFOUR["IDLE_CHECK_SECONDS"]),
        min_age=timedelta(seconds=settings.TENFOUR["INSTRUCTION_MIN_AGE"]),
        last_run_at=run.last_run_at if run else None,
    )


def what_is_next(line: Line, clock: Clock, *, now: datetime) -> Forecast | None:
    """What the idle check will do with it; None where it has nothing to do."""
    row = line.row
    if row.state != InstructionState.DELIVERED or not row.tracked or row.delivered_at is None:
        return None
    return forecast(
        delivered_at=row.delivered_at,
        retry_count=row.retry_count,
        max_retries=row.max_retries,
        queue_busy=line.queue_busy,
        clock=clock,
        now=now,
    )


def one(instruction_id: UUID) -> Line | None:
    """One instruction with all its columns."""
    rows = Instruction.objects.filter(id=instruction_id)
    found = with_extras(rows).defer(None).select_related("agent", "project", "resend_of").first()
    return line_of(found) if found else None


def history(subject_id: UUID) -> QuerySet[Event]:
    """The journal of one instruction or task, oldest first."""
    return Event.objects.filter(subject_id=subject_id).order_by("id")[:EVENTS_SHOWN]


def by_id(instruction_id: UUID) -> bool:
    return Instruction.objects.filter(id=instruction_id).exists()


def silent_after() -> timedelta:
    return timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])
