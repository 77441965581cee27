"""Compute how each agent spent its time: work, waiting for a person, for its breaker, for work."""

from datetime import datetime, timedelta
from typing import Any

from ledger import sql
from ledger.ids import SLACK, first_id
from ledger.journal import Kind
from ledger.models import Project
from retries.insight.ranges import LONGEST_ATTEMPT, RANGES
from retries.insight.stored_figures import store

PANEL = "idle"
MOST_ATTEMPTS = 200_000
MOST_AGENTS = 50

# Each moment counts once: work comes before a person, and a person before the breaker.
IDLE = f"""with agent as (
    select a.id, a.name,
        tstzmultirange(tstzrange(greatest(a.created_at, %(since)s), %(now)s)) as known
    from ledger_agent a where a.project_id = %(project)s and a.created_at < %(now)s
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
), moves as (
    select e.subject_id as agent_id, e.kind, e.at,
        lead(e.at, 1, %(now)s) over (partition by e.subject_id order by e.id) as until
    from agent a cross join lateral (select e.* from ledger_event e
        where e.subject_id = a.id and e.id >= %(floor)s
            and e.kind in ('{Kind.AGENT_BREAKER_OPENED}', '{Kind.AGENT_BREAKER_HALF_OPEN}',
                '{Kind.AGENT_BREAKER_CLOSED}')) e
), breaker as (
    select m.agent_id, range_agg(tstzrange(m.at, greatest(m.at, m.until))) as times
    from moves m where m.kind = '{Kind.AGENT_BREAKER_OPENED}' group by 1
), split as (
    select a.id, a.name, a.known, coalesce(w.times, '{{}}') * a.known as work,
        coalesce(p.times, '{{}}') * a.known - coalesce(w.times, '{{}}') as person,
        coalesce(b.times, '{{}}') * a.known - coalesce(w.times, '{{}}') - coalesce(p.times, '{{}}')
            as breaker
    from agent a left join work w on w.agent_id = a.id left join person p on p.agent_id = a.id
        left join breaker b on b.agent_id = a.id
    where w.times is not null
)
select s.id::text as id, s.name, length_of.known, length_of.work, length_of.person,
    length_of.breaker
from split s cross join lateral (select
    {
    ", ".join(
        f"(select coalesce(sum(extract(epoch from upper(r) - lower(r))), 0)::float8"
        f" from unnest(s.{name}) r) as {name}"
        for name in ("known", "work", "person", "breaker")
    )
}) length_of
where length_of.work > 0 order by length_of.person desc, s.name"""
PEOPLE = """select count(distinct answered_by_id) as people from retries_escalation
where project_id = %(project)s and closed_at >= %(since)s and answered_by_type = 'user'"""


def compute_idle(project: Project, *, now: datetime) -> None:
    """Store how the project's agents spent their time, in each range."""
    for days in RANGES:
        since = now - timedelta(days=days)
        rows: list[dict[str, Any]] = sql.run_custom_plan(
            IDLE,
            project=project.pk,
            since=since,
            now=now,
            floor=first_id(since - LONGEST_ATTEMPT - SLACK),
        )
        people = sql.run(PEOPLE, project=project.pk, since=since)[0]["people"]
        totals = {
            name: sum(row[name] for row in rows) for name in ("known", "work", "person", "breaker")
        }
        data = {
            "agents": len(rows),
            "people": people,
            "totals": totals,
            "rows": rows[:MOST_AGENTS],
        }
        store(project, PANEL, days, data, now=now)
