"""Queries and expressions that several pages share, among them the sidebar's counters."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, UUID, uuid5

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.models import (
    Exists,
    F,
    Func,
    IntegerField,
    JSONField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    UUIDField,
)
from django.db.models import Value as V
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce, Concat, JSONObject, Now, NullIf, Trim

from dashboard.charts.dependencies import MET
from dashboard.charts.times import Time, read_times
from dashboard.lists.compiled_queries import compiled
from dashboard.lists.query_box import BoxQuery, Values
from dashboard.lists.query_values import Period
from ledger import search_words
from ledger.database.optional_cache import get_or_compute_slow
from ledger.instruction_records import stats as instruction_stats
from ledger.instruction_records.stats import Statistics
from ledger.models import AccountWindow, Agent, DeadLetter, Event, Instruction, Plan, Project, Task
from ledger.search_words import FAILURE_TEXT
from ledger.states import BreakerState, FailureType, TaskState
from ledger.values.ids import SLACK, first_id
from retries.models import Escalation, FailurePattern, Grouped, InsightFigure

B = TypeVar("B", bound=BoxQuery)

WINDOW = timedelta(hours=24)
OLDEST = timedelta(days=10_000)  # the greatest age that bounds ids: no row was created before 1970
EVENTS_SHOWN = 200
PROJECTS_SHOWN = 20
PLANS_IN_SIDEBAR = 4
FIGURE_DAYS = 30

# ---- projects


@compiled
def list_projects() -> QuerySet[Project]:
    return Project.objects.order_by("name")[:PROJECTS_SHOWN]


def find_project(name: str) -> Project | None:
    # PostgreSQL rejects a text with a null character
    return Project.objects.filter(name=name).first() if "\0" not in name else None


def of_project(rows: QuerySet[Any], project: Project | None) -> QuerySet[Any]:
    """Return the rows of a project, or all rows without one."""
    return rows.filter(project=project) if project else rows


# ---- expressions


class CountOf(Subquery):
    """The number of rows a query finds; slice the query to limit how far it counts."""

    template = "(select count(*) from (%(subquery)s) counted)"
    empty_result_set_value = 0  # the count if Django knows that the query finds nothing
    output_field = IntegerField()


def title_of(task: str = "") -> Coalesce:
    return Coalesce(NullIf(f"{task}title", V("")), f"{task}type")


def ref_and_title_of(task: str = "") -> Trim:
    return Trim(Concat(f"{task}ref", V(" "), title_of(task)))


def match_values(values: Values, column: str) -> Q:
    wanted = Q(**{f"{column}__in": values.wanted}) if values.wanted else Q()
    return wanted & ~Q(**{f"{column}__in": values.unwanted}) if values.unwanted else wanted


def match_any(values: Values, meaning: Callable[[str], Q]) -> Q:
    found = Q()
    for name in values.wanted:
        found |= meaning(name)
    for name in values.unwanted:
        found &= ~meaning(name)
    return found


def match_groups(query: B, condition: Callable[[B], Q]) -> Q:
    """Return the condition of a query's groups; `condition` is that of an alternative's terms."""
    found = Q()
    groups: Any = query.groups
    for group in groups:
        either = Q()
        for each in group:
            # An empty condition would leave the alternatives alone, although all rows fit it.
            either |= (condition(each) & match_groups(each, condition)) or Q(pk__isnull=False)
        found &= either
    return found


def match_age(age: timedelta | None, column: str) -> Q:
    """Return the condition that a column's time is longer ago than an age."""
    return Q() if age is None else Q(**{f"{column}__lt": Now() - age})


def match_period(period: Period | None, column: str) -> Q:
    """Return the condition that a column's time lies in a period."""
    if period is None:
        return Q()
    ends = {"gte": period.start, "lt": period.end}
    return Q(
        **{
            f"{column}__{lookup}": Now() - end if isinstance(end, timedelta) else end
            for lookup, end in ends.items()
            if end is not None
        }
    )


def bound_ids(period: Period | None, *, is_creation: bool = True) -> Q:
    """Return the condition that ids, which begin with their time, can belong to a period."""
    # For a period of creation, the index of ids then finds the rows. Rows that changed in a period
    # may have been created long before it; only a date ends one early enough to save much.
    start, end = (period.start, period.end) if period else (None, None)
    since = id_at(start, -SLACK) if is_creation else None
    until = id_at(end, SLACK) if is_creation or isinstance(end, datetime) else None
    return (Q(id__gte=since) if since else Q()) & (Q(id__lt=until) if until else Q())


def id_at(end: timedelta | datetime | None, slack: timedelta) -> Any:
    """Return the lowest id of a time or an age, as a value or an expression; None for no end."""
    if isinstance(end, datetime):
        return first_id(end + slack)
    if end is None or end > OLDEST:
        return None
    # a subselect runs once; an id has random digits after its time
    return RawSQL("(select uuidv7(%s))", (slack - end,), output_field=UUIDField())


def named_pattern(text: str) -> Q:
    """Return the condition that a pattern has a fingerprint or words of its text or failures."""
    begins = Q(fingerprint__startswith=text.lower())
    # A pattern also has the fingerprints of those that were merged into it.
    merged = FailurePattern.objects.filter(begins, merged_into__isnull=False)
    return begins | pattern_has_words(text) | Q(pk__in=merged.values("merged_into"))


# A pattern has many signatures, such as one for each missing module, so its failures are searched.
# If more failures have the words, the first ones in the index and the newest are read. If
# MANY_FAILURES have them, judging by the SAMPLED newest ones, only the newest are read: the
# index takes as long to list that many as the rest of the page.
MOST_FAILURES, NEWEST_FAILURES, SAMPLED, MANY_FAILURES = 5_000, 500, 40, 50_000
HAS_WORDS = f"{FAILURE_TEXT('f')} @@ to_tsquery('simple', %s)"
NEWEST = f"(select * from ledger_failure order by id desc limit {{}}) f where {HAS_WORDS}".format
WITH_WORDS = f"""with common as materialized (
    select count(*) * (select reltuples from pg_class where oid = 'ledger_failure'::regclass)
        >= {SAMPLED * MANY_FAILURES} as yes from {NEWEST(SAMPLED)}
), found as materialized (
    select id from ledger_failure f where {HAS_WORDS} limit {MOST_FAILURES}
), newest as (
    select id from {NEWEST(NEWEST_FAILURES)} and case when (select yes from common) then true
        else (select count(*) from found) = {MOST_FAILURES} end
)
select distinct pattern_id from retries_grouped where failure_id = any(array(
    select id from found where not (select yes from common) union all select id from newest))"""


def pattern_has_words(text: str) -> Q:
    words = Q(template__icontains=text) | Q(example__icontains=text)
    if query := search_words.build_query(text):
        failed = RawSQL(WITH_WORDS, (query,) * 3, output_field=UUIDField())  # noqa: S611
        words |= Q(pk__in=failed)
    return words


def find_patterns(text: str, project: Project | None) -> QuerySet[FailurePattern]:
    return of_project(FailurePattern.objects.current(), project).filter(named_pattern(text))


def failed_in_pattern(text: str, project: Project | None) -> QuerySet[Any, Any]:
    """Return the tasks that failed in a pattern with this fingerprint or these words."""
    patterns = find_patterns(text, project).values("pk")
    return Grouped.objects.filter(pattern__in=patterns).values("failure__task")


def failed_with(text: str) -> QuerySet[Any, Any]:
    """Return the tasks that failed with this type, or whose errors have words."""
    failures = search_words.find_failures(text)
    found = failures.filter(type=text) if text in FailureType else failures
    return found.values("task")


def name_params(rows: QuerySet[Any, Any]) -> tuple[str, dict[str, Any]]:
    """Return a query's SQL for use in a larger statement, with names for its parameters."""
    # A condition that no row fits becomes one in SQL: Django would raise EmptyResultSet.
    text, values = rows.query.get_compiler(DEFAULT_DB_ALIAS, elide_empty=False).as_sql()
    params = {f"p{number}": value for number, value in enumerate(values)}
    # Positional parameters become named ones.
    first, *rest = text.split("%s")
    named = (f"%({name})s{part}" for name, part in zip(params, rest, strict=True))
    return first + "".join(named), params


def hash_of(query: object) -> str:
    return uuid5(NAMESPACE_OID, repr(query)).hex


# ---- the sidebar's counters


def open_escalations(project: Project | None, now: datetime) -> QuerySet[Escalation]:
    return of_project(Escalation.objects.in_inbox(now), project)


def waiting_instructions(project: Project | None) -> QuerySet[Instruction]:
    return of_project(Instruction.objects.awaiting_ack(), project)


# a half-open breaker lets one task through at a time
TRIPPED = Q(breaker__state__in=[BreakerState.OPEN, BreakerState.HALF_OPEN])


def tripped_agents(project: Project | None) -> QuerySet[Agent]:
    return of_project(Agent.objects.filter(TRIPPED), project)


def running_tasks(project: Project | None) -> QuerySet[Task]:
    return of_project(Task.objects.filter(state=TaskState.RUNNING), project)


def accounts_at_limit(project: Project | None, now: datetime) -> QuerySet[Any]:
    rows = of_project(AccountWindow.objects.at_limit(now), project)
    return rows.distinct("project", "account")


def open_deadletters(project: Project | None) -> QuerySet[DeadLetter]:
    return of_project(DeadLetter.objects.open(), project)


UNDER_WAY = Q(completed_at=None, aborted_at=None)
PLAN_TASKS = Task.objects.current().filter(plan=OuterRef("pk")).order_by()
PLAN_ESCALATIONS = Escalation.objects.in_inbox(Now()).filter(task__plan=OuterRef("pk")).order_by()


def plans_under_way(project: Project | None) -> QuerySet[Any]:
    """Return the newest plans that have not ended."""
    # The sidebar's statement takes them as JSON objects.
    rows = of_project(Plan.objects.filter(UNDER_WAY), project).order_by("-id")
    return rows.values(
        drawn=JSONObject(
            id="id",
            ref="ref",
            title="title",
            paused="paused_at",
            needs_you=Exists(PLAN_ESCALATIONS),
            total=CountOf(PLAN_TASKS.values("pk")),
            met=CountOf(PLAN_TASKS.filter(state__in=MET).values("pk")),
        )
    )[:PLANS_IN_SIDEBAR]


# ---- history and figures


@compiled
def list_history(subject_id: UUID) -> QuerySet[Event]:
    """Return the journal of an instruction, task or plan, oldest first."""
    return Event.objects.about(subject_id).order_by("id")[:EVENTS_SHOWN]


def read_figures(
    project: Project | None, *, now: datetime
) -> tuple[Statistics, dict[UUID, Statistics]]:
    """Return the statistics of the last day's instructions: of all, and by agent."""
    rows = get_or_compute_slow(
        f"day-figures:{project.id if project else 'all'}",
        lambda: instruction_stats.fetch_counts(project.id if project else None, since=now - WINDOW),
    )
    return instruction_stats.combine_rows(rows)


def silent_after() -> timedelta:
    return timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"])


# ---- figures of Insight on other pages


def figure_of(panel: str, rows: str) -> Subquery:
    """Return the rows with the outer row's id in a panel of Insight, as computed last."""
    own_rows = Func(
        F("data"),
        V(f"{rows} ? (@.id == $id)"),
        JSONObject(id=OuterRef("pk")),
        function="jsonb_path_query_array",
        output_field=JSONField(),
    )
    figures = InsightFigure.objects.filter(
        project=OuterRef("project"), panel=panel, days=FIGURE_DAYS
    )
    return Subquery(figures.values(found=JSONObject(rows=own_rows, least=F("data__least"))))


def list_times(row: Any) -> list[Time]:
    """Return the wait and run times of an agent or a plan whose figure was read, if it has any."""
    found = row.time_figure
    return read_times(found["rows"][0]) if found and found["rows"] else []
