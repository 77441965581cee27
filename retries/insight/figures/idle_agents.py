"""Compute how each agent spent its time: work, waiting for a person, for its breaker, for work."""

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from ledger.database import sql
from ledger.journal import Kind
from ledger.models import Project
from ledger.values.ids import SLACK, first_id
from retries.insight.figures.stored import store
from retries.insight.ranges import LONGEST_ATTEMPT, RANGES

PANEL = "idle"
MOST_ATTEMPTS = 200_000
MOST_AGENTS = 50
# A person is on duty for this long after each answer and each first view of an escalation.
DUTY = timedelta(minutes=30)
# the hours on duty from which the number of agents per person is shown
LEAST_HOURS = 20

# A first view does not name its person, who is '' here.
ACTS = """select x.answered_by_id as person, x.closed_at as at from retries_escalation x
    where x.project_id = %(project)s and x.answered_by_type = 'user' and x.state <> 'open'
        and x.closed_at >= %(since)s::timestamptz - %(duty)s::interval
union all select '', x.seen_at from retries_escalation x
    where x.project_id = %(project)s and x.seen_at >= %(since)s::timestamptz - %(duty)s::interval
        and (x.state = 'open' or x.closed_at >= %(since)s::timestamptz - %(duty)s::interval)"""
DUTY_TIMES = """range_agg(tstzrange(at, at + %(duty)s::interval))
    * tstzmultirange(tstzrange(%(since)s, %(now)s))"""

# the periods from one kind of event to another; a breaker is half-open before it closes
LASTING = (
    ("breaker", Kind.AGENT_BREAKER_OPENED, Kind.AGENT_BREAKER_HALF_OPEN),
    ("paused", Kind.AGENT_PAUSED, Kind.AGENT_RESUMED),
    ("silent", Kind.AGENT_SILENT, Kind.AGENT_HEARD),
)
MOVES = [(what, kind) for what, *kinds in LASTING for kind in kinds]
MOVES.append(("breaker", Kind.AGENT_BREAKER_CLOSED))

LENGTHS = ("known", "work", "person", "breaker", "attended")

# Each moment counts once: work comes before a pause, a pause before a person, and a person before
# the breaker. What began before the events that are read is known by how it ended.
IDLE = f"""with agent as (
    select a.id, a.name, a.paused, a.last_seen_at,
        tstzmultirange(tstzrange(greatest(a.created_at, %(since)s), %(now)s)) as known
    from ledger_agent a where a.project_id = %(project)s and not a.is_pool
        and a.created_at < %(now)s
), work as (
    select t.agent_id, range_agg(tstzrange(t.started_at,
        greatest(t.started_at, coalesce(t.ended_at, %(now)s)))) as times
    from (select t.agent_id, t.started_at, t.ended_at from ledger_attempt t
        where t.id >= %(floor)s and t.agent_id in (select id from agent)
        order by t.id desc limit {MOST_ATTEMPTS}) t group by 1
), person as (
    select x.agent_id, range_agg(tstzrange(x.opened_at,
        greatest(x.opened_at, coalesce(x.closed_at, %(now)s)))) as times
    from retries_escalation x where x.project_id = %(project)s and x.task_id is not null
        and (x.closed_at is null or x.closed_at >= %(since)s)
    group by 1
), duty as (
    select {DUTY_TIMES} as times from ({ACTS}) acts
), moves as (
    select a.id as agent_id, e.kind, k.what, e.at, lead(e.at, 1, %(now)s) over again as until,
        row_number() over again = 1 as is_first
    from agent a cross join lateral (select e.* from ledger_event e
        where e.subject_id = a.id and e.id >= %(floor)s) e
    join (values {", ".join(f"('{what}', '{kind}')" for what, kind in MOVES)}) k (what, kind)
        on k.kind = e.kind
    window again as (partition by a.id, k.what order by e.id)
), lasted as (
    select m.agent_id, m.what, tstzrange(m.at, greatest(m.at, m.until)) as time from moves m
    where m.kind in ({sql.quoted(begun for _, begun, _ in LASTING)})
    union all select m.agent_id, m.what, tstzrange(null, m.at) from moves m
    where m.is_first and m.kind in ({sql.quoted(ended for _, _, ended in LASTING)})
    union all select a.id, 'paused', tstzrange(null, %(now)s) from agent a
    where a.paused
        and not exists (select from moves m where m.agent_id = a.id and m.what = 'paused')
    union all select a.id, 'silent', tstzrange(a.last_seen_at, %(now)s) from agent a
    where a.last_seen_at < %(now)s::timestamptz - %(silent)s::interval
), known as (
    select a.id, a.name, work.times * a.known as work, person.times as person,
        (select range_agg(time) from lasted l where l.agent_id = a.id and l.what = 'breaker')
            as breaker,
        a.known - (coalesce(
            (select range_agg(time) from lasted l where l.agent_id = a.id and l.what <> 'breaker'),
            '{{}}') - work.times) as known
    from agent a join work on work.agent_id = a.id left join person on person.agent_id = a.id
), split as (
    select k.id, k.name, k.known, k.work, k.work * duty.times as attended,
        k.person * k.known - k.work as person,
        k.breaker * k.known - k.work - coalesce(k.person, '{{}}') as breaker
    from known k cross join duty
)
select s.id::text as id, s.name, {", ".join(f"length_of.{name}" for name in LENGTHS)}
from split s cross join lateral (select
    {
    ", ".join(
        f"(select coalesce(sum(extract(epoch from upper(r) - lower(r))), 0)::float8"
        f" from unnest(s.{name}) r) as {name}"
        for name in LENGTHS
    )
}) length_of
where length_of.work > 0 order by length_of.person desc, s.name"""

# the times on duty of each person, as seconds
ON_DUTY = f"""select d.person, extract(epoch from lower(r))::int8 as began,
    extract(epoch from upper(r))::int8 as ended
from (select acts.person, {DUTY_TIMES} as times from ({ACTS}) acts group by 1) d
cross join lateral unnest(d.times) r order by 1, 2"""


def compute_idle(project: Project, *, now: datetime) -> None:
    # Time in which an agent was paused or switched off counts only while it worked. It was switched
    # off from its last call on if that is long ago, and from `agent.silent` to `agent.heard`. A
    # person is on duty for 30 minutes after each answer, and an unnamed person after each first
    # view. `attended` is the time that agents worked while a person was on duty.
    for days in RANGES:
        since = now - timedelta(days=days)
        scope = {"project": project.pk, "since": since, "now": now, "duty": DUTY}
        rows: list[dict[str, Any]] = sql.run_custom_plan(
            IDLE,
            **scope,
            floor=first_id(since - LONGEST_ATTEMPT - SLACK),
            silent=timedelta(seconds=settings.TENFOUR["SILENT_AFTER_SECONDS"]),
        )
        duty: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in sql.run_custom_plan(ON_DUTY, **scope):
            duty[row["person"]].append((row["began"], row["ended"]))
        data = {
            "agents": len(rows),
            "totals": {name: sum(row[name] for row in rows) for name in LENGTHS},
            "rows": rows[:MOST_AGENTS],
            "least_hours": LEAST_HOURS,
            "duty": duty,
            # The web process of the last release reads it during an update.
            "people": sum(1 for person in duty if person),
        }
        store(project, PANEL, days, data, now=now)
