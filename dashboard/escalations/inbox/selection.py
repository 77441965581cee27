"""Select the escalations of the inbox, and read their groups, their order and counts of filters.

One statement reads everything that depends on all escalations of the inbox. It takes each filter's
condition as a column, so that the count beside a filter leaves out that filter alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    ExpressionWrapper,
    F,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    When,
)
from django.db.models import Value as V
from django.db.models.functions import MD5, Cast, Coalesce, Concat, Left

from dashboard.escalations.inbox.filters import REASONS, InboxQuery
from dashboard.lists.query_box import ANY, ME, NO_ONE, Values
from dashboard.lists.shared_queries import (
    match_any,
    match_groups,
    match_period,
    match_values,
    named_pattern,
    of_project,
)
from dashboard.question_lines import waiting_for
from dashboard.wording.formatting import COUNT_CAP
from ledger.database import sql
from ledger.database.sql import quoted
from ledger.models import Failure, Instruction, Need, Project, Task
from ledger.states import FINAL, FailureType
from retries.models import Escalation, FailurePattern, Grouped, PermissionRequest
from retries.states import Reason

LONG_WAIT = timedelta(hours=1)  # an escalation younger than this is new
PAGE = 25  # groups, or lines without groups
FACETS_SHOWN = 8
TEMPLATE_SHOWN = 300  # characters
MOST_PATTERNS = 1000  # the limit for one term
SAME_CHARACTERS = 20

GROUPS = ("pattern", "reason", "agent", "plan", "none")
SORTS = ("severity", "growth", "size", "seen", "waiting", "oldest", "newest", "pattern")
SINGLES, NO_PLAN = "one-of-a-kind", "no-plan"
MAY_I, ASKS, NO_ANSWER, CONFLICT = "may-i", "asks", "no-answer", "conflict"
OF_PERMISSION = f"reason = '{Reason.PERMISSION_REQUEST}'"

# A lookup with a limit runs row by row: the planner never reads a whole table for it.
TASK_OF = """select plan_id, needed_by from ledger_task where id = m.task_id limit 1"""
PATTERN_OF = """select g.pattern_id from (
            select id from ledger_failure where task_id = m.task_id order by id desc limit 1
        ) f cross join lateral (
            select pattern_id from retries_grouped where failure_id = f.id limit 1) g"""
KIND = f"""case when m.{OF_PERMISSION} then '{MAY_I}'
        when m.reason in ({quoted(REASONS["asks"])}) then '{ASKS}'
        when m.reason in ({quoted(REASONS["no-answer"])}) then '{NO_ANSWER}'
        when m.reason in ({quoted(REASONS["conflict"])}) then '{CONFLICT}'
        else coalesce(last.pattern_id::text, m.reason) end"""
# in the grouping by pattern, equal questions, calls and instructions come before their kind
SAME_OR_KIND = """case when count(*) over (partition by same) > 1 then coalesce(same, kind)
        else kind end"""
SEVERITY = "case severity when 'high' then 2 when 'low' then 0 else 1 end"
GROUP_KEYS = {
    "pattern": SAME_OR_KIND,
    "reason": "reason",
    "agent": "agent_id::text",
    "plan": f"coalesce(plan_id::text, '{NO_PLAN}')",
    "none": "''",
}
SINGLES_LAST = f"key = '{SINGLES}'"
LARGEST_FIRST = "n desc, coalesce(w.waiting, 0) desc, oldest, key"
GROUP_ORDERS = {
    "severity": f"""ends_at nulls last, growth > 0 desc, severity desc, {SINGLES_LAST},
        growth desc, {LARGEST_FIRST}""",
    "growth": f"{SINGLES_LAST}, growth desc, {LARGEST_FIRST}",
    "size": f"{SINGLES_LAST}, {LARGEST_FIRST}",
    "seen": f"{SINGLES_LAST}, coalesce(p.last_seen, newest) desc, key",
    "waiting": f"{SINGLES_LAST}, coalesce(w.waiting, 0) desc, oldest, key",
    "oldest": f"{SINGLES_LAST}, oldest, key",
    "newest": f"{SINGLES_LAST}, newest desc, key",
    "pattern": f"{SINGLES_LAST}, g.first_template, key",
}
LINE_ORDERS = {
    # new escalations come first in a mixed group; an agent waits only for a while
    "severity": """k.ends_at, k.is_new and key is distinct from k.pattern_id::text
        and key is distinct from k.same desc, k.severity desc, k.waiting desc, k.id""",
    "growth": "k.id desc",
    "size": "k.waiting desc, k.id",
    "seen": "k.id desc",
    "waiting": "k.waiting desc, k.id",
    "oldest": "k.id",
    "newest": "k.id desc",
    "pattern": "k.template, k.waiting desc, k.id",
}
# the pattern of each line, for the order by pattern
SORT_TEMPLATE = f"""select left(template, {TEMPLATE_SHOWN}) as template
        from retries_failurepattern where id = c.pattern_id limit 1"""
# the filters whose counts are shown; each is a column `is_…` of the rows
FILTERS = ("reason", "severity", "agent", "plan", "pattern", "assignee", "older", "blocks")


def all_but(*names: str) -> str:
    """Return the condition that every filter holds except the named ones."""
    return " and ".join(f"is_{name}" for name in FILTERS if name not in names)


def count_where(condition: str, *names: str) -> str:
    return f"count(*) filter (where {all_but(*names)} and {condition})"


def facet(column: str, name: str) -> str:
    """Return the SQL of the most frequent values of a column with their counts, as JSON."""
    return f"""(select coalesce(jsonb_agg(jsonb_build_array(value, n) order by n desc, value), '[]')
        from (select {column}::text as value, count(*) as n from described
            where {all_but(name)} and {column} is not null
            group by 1 order by n desc, 1 limit {FACETS_SHOWN}) most)"""


CHIPS = {
    "opened:1h": count_where("opened_at >= %(long)s"),
    "severity:high": count_where("severity = 'high'", "severity"),
    **{
        f"reason:{name}": count_where(f"reason in ({quoted(REASONS[name])})", "reason")
        for name in ("may-i", "failed", "permission", "asks", "no-answer", "conflict", "stuck")
    },
    "blocks:yes": count_where("waiting > 0", "blocks"),
    "older:1h": count_where("opened_at < %(long)s", "older"),
    "assignee:none": count_where("assignee_id is null", "assignee"),
}


def count_others(condition: str) -> str:
    return f"""(select count(*) from (select from retries_escalation where {condition}
        and (%(project)s::uuid is null or project_id = %(project)s) limit {COUNT_CAP}) others)"""


def inbox_statement(matching: str, group: str, sort: str) -> str:
    """Return the statement over the rows of the query `matching`."""
    # `order` has the ids of all lines, 16 bytes each, group after group.
    single = f"when s.n = 1 and raw <> '{MAY_I}' then '{SINGLES}'"
    singles = single if group == "pattern" else ""
    template = SORT_TEMPLATE if sort == "pattern" else "select null::text as template"
    counts = ", ".join(f"'{name}', {sql}" for name, sql in CHIPS.items())
    return f"""with found as materialized ({matching}),
matching as materialized (
    select m.*, t.plan_id, t.needed_by, p.ref as plan_ref from found m
    left join lateral ({TASK_OF}) t on m.task_id is not null
    left join ledger_plan p on p.id = t.plan_id
), waits as materialized (
    select m.id, w.task_id from matching m
    cross join lateral (select n.task_id {waiting_for("m.task_id")} and m.needed_by > 0) w
), described as materialized (
    select m.*, {KIND} as kind, last.pattern_id, coalesce(w.n, 0) as waiting,
        (%(plans)s::text[] is null or coalesce(plan_ref = any(%(plans)s), false))
            and not coalesce(plan_ref = any(%(not_plans)s::text[]), false) as is_plan,
        (%(patterns)s::uuid[] is null or coalesce(last.pattern_id = any(%(patterns)s), false))
            and not coalesce(last.pattern_id = any(%(not_patterns)s::uuid[]), false) as is_pattern,
        (%(blocks)s::bool is null or %(blocks)s = (w.n is not null)) as is_blocks
    from matching m
    left join lateral ({PATTERN_OF}) last on m.task_id is not null
    left join (select id, count(*) as n from waits group by id) w on w.id = m.id
), chosen as materialized (
    select id, agent_id, agent_name, plan_ref, reason, opened_at, waiting, pattern_id, same,
        case when {OF_PERMISSION} then expires_at end as ends_at,
        {SEVERITY} as severity, opened_at >= %(long)s as is_new, {GROUP_KEYS[group]} as raw
    from described where {all_but()}
), sizes as (
    select raw, count(*) as n from chosen group by raw
), keyed as materialized (
    select c.*, case {singles} when false then '' else raw end as key, named.template
    from chosen c join sizes s using (raw) left join lateral ({template}) named on true
), waiting_of as (
    select k.key, count(distinct w.task_id) as waiting
    from keyed k join waits w on w.id = k.id group by k.key
), grouped as materialized (
    select g.*, coalesce(w.waiting, 0) as waiting, left(p.template, {TEMPLATE_SHOWN}) as template,
        p.fingerprint,
        case when growth > 0 and ends_at is null
            then sum(growth) over (partition by ends_at is null, growth > 0)
            when ends_at is null then sum(n) over (partition by ends_at is null, growth > 0)
            else sum(n) over (partition by ends_at is null) end as of_section,
        row_number() over (order by {GROUP_ORDERS[sort]}) as rank
    from (
        select key, count(*) as n, count(distinct agent_id) as agents, min(opened_at) as oldest,
            max(opened_at) as newest, any_value(pattern_id) as pattern, min(reason) as reason,
            min(template) as first_template, max(severity) as severity,
            count(*) filter (where is_new) as growth,
            case when bool_and(ends_at is not null) then min(ends_at) end as ends_at,
            any_value(agent_name) as agent, any_value(plan_ref) as plan
        from keyed group by key
    ) g left join waiting_of w using (key)
    left join retries_failurepattern p on p.id = g.pattern and g.key = g.pattern::text
)
select
    (select count(*) from keyed) as total,
    (select count(*) from matching) as all,
    {count_others("state = 'open' and snoozed_until > %(now)s")} as snoozed,
    {count_others("state <> 'open'")} as closed,
    (select coalesce(jsonb_agg(to_jsonb(g) order by rank), '[]') from grouped g
        where {f"rank > %(skip)s and rank <= %(skip)s + {PAGE}" if group != "none" else "true"}
    ) as groups,
    (select coalesce(jsonb_agg(jsonb_build_array(key, n) order by rank), '[]') from grouped)
        as sizes,
    (select coalesce(string_agg(uuid_send(k.id), '' order by g.rank, {LINE_ORDERS[sort]}), '')
        from keyed k join grouped g using (key)) as order,
    {facet("agent_name", "agent")} as agents,
    {facet("plan_ref", "plan")} as plans,
    {facet("assignee_name", "assignee")} as assignees,
    (select coalesce(jsonb_object_agg(assignee_id, n), '{{}}') from (
        select assignee_id, count(*) as n from described
        where {all_but("assignee")} and assignee_id is not null group by 1) each) as assigned,
    (select jsonb_build_object({counts}) from described) as counts"""


# ---- what the statement is given


def narrow_to_words(rows: QuerySet[Any], query: InboxQuery) -> QuerySet[Any]:
    """Apply the parts of a query that have no count."""
    if query.ids:
        rows = rows.filter(id__in=query.ids)
    rows = rows.filter(match_period(query.opened, "opened_at"))
    if query.seen:
        rows = rows.alias(seen=LAST_SEEN).filter(match_period(query.seen, "seen"))
    if query.same != ANY:
        rows = rows.alias(same=Coalesce(SAME, V(""), output_field=TextField())).filter(
            match_values(query.same, "same")
        )
    if query.type != ANY:
        rows = rows.alias(type=TYPE).filter(match_values(query.type, "type"))
    if query.words or query.error != ANY:
        rows = rows.alias(**SEARCHED)
    if query.error != ANY:
        rows = rows.alias(failed_as=FAILED_AS).filter(match_any(query.error, failed_with))
    for word in query.words:
        rows = rows.filter(contains(word))
    return rows


def narrow_to_groups(
    rows: QuerySet[Any], query: InboxQuery, project: Project | None, *, now: datetime, viewer: User
) -> QuerySet[Any]:
    def find(each: InboxQuery) -> Q:
        plain = replace(each, groups=())
        found = narrow(rows.order_by(), plain, project, now=now, viewer=viewer)
        return Q(pk__in=found.values("pk"))

    return rows.filter(match_groups(query, find)) if query.groups else rows


def list_conditions(query: InboxQuery, *, now: datetime, viewer: User) -> dict[str, Q]:
    """Return the condition of each filter that an escalation's own columns decide."""
    return {
        "is_reason": match_any(query.reason, lambda name: Q(reason__in=REASONS[name])),
        "is_severity": match_values(query.severity, "severity"),
        "is_agent": match_values(query.agent, "agent__name"),
        "is_assignee": match_any(query.assignee, lambda name: assigned_to(name, viewer)),
        "is_older": Q(opened_at__lt=now - query.older) if query.older else Q(),
    }


def select_inbox(
    query: InboxQuery, project: Project | None, *, now: datetime, viewer: User
) -> QuerySet[Escalation]:
    rows = of_project(Escalation.objects.in_inbox(now), project)
    return narrow(rows, query, project, now=now, viewer=viewer)


def narrow(
    rows: QuerySet[Any], query: InboxQuery, project: Project | None, *, now: datetime, viewer: User
) -> QuerySet[Any]:
    conditions = list_conditions(query, now=now, viewer=viewer).values()
    rows = narrow_to_groups(rows, query, project, now=now, viewer=viewer)
    rows = narrow_to_words(rows, query).filter(*conditions)
    rows = rows.filter(match_values(query.plan, "task__plan__ref"))
    if query.pattern != ANY:
        grouped = Grouped.objects.filter(failure=OuterRef("last"))
        rows = rows.alias(last=Subquery(LAST_FAILURE.values("id")[:1]))
        rows = rows.alias(pattern=Subquery(grouped.values("pattern")[:1]))
        unwanted = select_patterns(query.pattern.unwanted, project).values("pk")
        rows = rows.filter(Q(pattern=None) | ~Q(pattern__in=unwanted))
        if query.pattern.wanted:
            wanted = select_patterns(query.pattern.wanted, project).values("pk")
            rows = rows.filter(pattern__in=wanted)
    return rows.filter(match_any(query.blocks, lambda _: Q(Exists(WAITING))))


def select_matching(
    query: InboxQuery, project: Project | None, *, now: datetime, viewer: User
) -> QuerySet[Any, Any]:
    conditions = list_conditions(query, now=now, viewer=viewer)
    rows: QuerySet[Any, Any] = of_project(Escalation.objects.in_inbox(now), project)
    rows = narrow_to_groups(rows, query, project, now=now, viewer=viewer)
    rows = narrow_to_words(rows, query)
    found: QuerySet[Any, Any] = (
        rows.annotate(**{name: as_column(each) for name, each in conditions.items()})
        .order_by()
        .values(
            "id",
            "agent_id",
            "task_id",
            "reason",
            "severity",
            "opened_at",
            "expires_at",
            "assignee_id",
            *conditions,
            same=SAME,
            agent_name=F("agent__name"),
            assignee_name=F("assignee__username"),
        )
    )
    return found


TASK = Task.objects.filter(pk=OuterRef("task"))
INSTRUCTION = Instruction.objects.filter(pk=OuterRef("instruction"))
CALL = PermissionRequest.objects.filter(pk=OuterRef("permission"))
CALL_TEXT = Concat(
    "tool", V("\n"), "folder", V("\n"), Cast("input", TextField()), output_field=TextField()
)
LAST_FAILURE = Failure.objects.filter(task=OuterRef("task")).order_by("-id")
WAITING = Need.objects.filter(need=OuterRef("task")).exclude(task__state__in=FINAL)
ERROR_TEXT = Concat("message", V("\n"), "telling_lines", output_field=TextField())
# the texts that words are searched in, beside an escalation's own question
SEARCHED = {
    "title": Subquery(TASK.values("title")[:1]),
    "ref": Subquery(TASK.values("ref")[:1]),
    "sent": Subquery(INSTRUCTION.values("content")[:1]),
    "kind": Subquery(TASK.values("type")[:1]),
    "error": Subquery(LAST_FAILURE.values(text=ERROR_TEXT)[:1]),
}
# when the error of an escalation was last reported, also by other tasks
LAST_SEEN = Coalesce(
    Subquery(
        Grouped.objects.filter(failure__task=OuterRef("task"))
        .order_by("-failure")
        .values("pattern__last_seen")[:1]
    ),
    "opened_at",
)


def hashed(prefix: str, *texts: Any) -> Concat:
    # `concat` skips null
    parts = (Cast(text, TextField()) for text in texts)
    return Concat(V(f"{prefix}-"), Left(MD5(Concat(V(""), *parts)), SAME_CHARACTERS))


# Equal for questions with the same text and options, for an agent's identical calls, and for an
# instruction that the agent ignored again: one answer covers all of them.
SAME = Case(
    When(
        reason=Reason.PERMISSION_REQUEST,
        # the whole call counts: a title has only a command's first line
        then=hashed(MAY_I, "agent_id", Subquery(CALL.values(call=CALL_TEXT)[:1])),
    ),
    When(
        Q(reason__in=REASONS["asks"]) & ~Q(question=""),
        then=hashed(ASKS, "question", V("\n"), "choices", "response_schema"),
    ),
    When(
        Q(reason__in=REASONS["no-answer"]),
        then=hashed(
            NO_ANSWER,
            "agent_id",
            Func(
                Subquery(INSTRUCTION.values("content_sha256")[:1]),
                V("hex"),
                function="encode",
                output_field=TextField(),
            ),
        ),
    ),
    output_field=TextField(),
)
# empty for an escalation without a task or a failure, so that it can be excluded
TYPE = Coalesce(Subquery(TASK.values("type")[:1]), V(""))
FAILED_AS = Coalesce(Subquery(LAST_FAILURE.values("type")[:1]), V(""))


def contains(word: str) -> Q:
    texts = ("question", *SEARCHED)
    return match_any(Values(texts), lambda text: Q(**{f"{text}__icontains": word}))


def failed_with(text: str) -> Q:
    return Q(failed_as=text) if text in FailureType else Q(error__icontains=text)


def assigned_to(name: str, viewer: User) -> Q:
    if name == NO_ONE:
        return Q(assignee=None)
    return Q(assignee=viewer.pk) if name == ME else Q(assignee__username=name)


def as_column(condition: Q) -> Any:
    if not condition:
        return V(True)
    return ExpressionWrapper(condition, output_field=BooleanField())


def list_patterns(texts: Sequence[str], project: Project | None) -> list[UUID]:
    """Return up to MOST_PATTERNS patterns with these fingerprints or these words."""
    rows = select_patterns(texts, project).distinct().order_by("id")
    return list(rows.values_list("pk", flat=True)[:MOST_PATTERNS])


def select_patterns(texts: Sequence[str], project: Project | None) -> QuerySet[FailurePattern]:
    if not texts:
        return FailurePattern.objects.none()
    named = Q()
    for text in texts:
        named |= named_pattern(text)
    return of_project(FailurePattern.objects.current(), project).filter(named)


# ---- what it returns


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The address's request to the inbox."""

    query: InboxQuery
    project: Project | None
    viewer: User
    group: str = "pattern"
    sort: str = SORTS[0]
    page: int = 1


def fetch_groups(wanted: Request, *, now: datetime) -> dict[str, Any]:
    query = wanted.query
    rows = select_matching(query, wanted.project, now=now, viewer=wanted.viewer)
    matching, params = rows.query.sql_with_params()
    values: dict[str, Any] = {
        "now": now,
        "project": wanted.project.pk if wanted.project else None,
        "long": now - LONG_WAIT,
        "patterns": list_patterns(query.pattern.wanted, wanted.project)
        if query.pattern.wanted
        else None,
        "not_patterns": list_patterns(query.pattern.unwanted, wanted.project),
        "plans": list(query.plan.wanted) or None,
        "not_plans": list(query.plan.unwanted),
        "blocks": None if query.blocks == ANY else bool(query.blocks.wanted),
        "skip": (wanted.page - 1) * PAGE,
    }
    # The query has positional parameters, and the statement has named ones.
    named = {f"p{number}": value for number, value in enumerate(params)}
    parts = matching.split("%s")
    matching = parts[0] + "".join(
        f"%({name})s{part}" for name, part in zip(named, parts[1:], strict=True)
    )
    statement = inbox_statement(matching, wanted.group, wanted.sort)
    (row,) = sql.run_custom_plan(statement, **values, **named)
    return row
