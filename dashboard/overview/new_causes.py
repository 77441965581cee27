"""Group the escalations of the last hour by cause: the worst, the fastest and the largest first."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.charts.sparklines import Bars, bars
from dashboard.patterns.queries import count_by_step
from dashboard.question_lines import (
    IN_INBOX,
    LAST_FAILURE,
    LINE,
    LINE_PARTS,
    SINGLE,
    WORDS,
    QuestionLine,
    describe_question,
    waiting_for,
)
from ledger.database import sql
from ledger.models import Project
from retries.states import Reason

HOUR = timedelta(hours=1)
STEP, STEPS = timedelta(minutes=5), 12
SHOWN = 5
NAMED = 5  # agents
TALL, LEAD_TALL = 24, 52

# the same error, the same ignored words, or the same question; else a single escalation
NEW_CAUSES = f"""with new as (
    select x.id, x.task_id, x.agent_id, x.severity, x.opened_at, g.pattern_id,
        case when x.reason not in ({sql.quoted(SINGLE)}) and g.pattern_id is not null
                then g.pattern_id::text
            when x.reason = '{Reason.INSTRUCTION_IGNORED}'
                then x.agent_id || md5(i.content)
            when x.question <> '' then x.project_id || md5(x.question || x.choices::text)
            else x.id::text end as cause
    from retries_escalation x
    left join ledger_instruction i on i.id = x.instruction_id
    left join lateral ({LAST_FAILURE}) f on true
    left join retries_grouped g on g.failure_id = f.id
    where {IN_INBOX} and x.opened_at > %(since)s
), causes as (
    select cause, count(*) as n, count(*) filter (where opened_at > %(recent)s) as grown,
        min(opened_at) as first_at, min(id::text)::uuid as first_id,
        max(array_position('{{low,normal,high}}', severity::text)) as rank,
        array_agg(distinct agent_id) as agent_ids, array_agg(opened_at) as times,
        min(pattern_id::text) filter (where pattern_id::text = cause) as pattern_id
    from new group by 1
), ranked as (
    select *, count(*) over () as causes, sum(n) over ()::int as total from causes
    order by rank desc, grown desc, n desc, first_id limit {SHOWN}
), chosen as (
    select x.*, r.cause, r.n as count, r.grown, r.first_at, r.rank, r.agent_ids, r.times,
        r.pattern_id, r.causes, r.total
    from ranked r join retries_escalation x on x.id = r.first_id
)
select {LINE}, x.total, x.count, x.grown, x.first_at, x.rank, x.times, x.causes,
    cardinality(x.agent_ids) as agents, p.id as pattern_id, p.fingerprint,
    left(p.template, {WORDS}) as template, p.first_seen < %(since)s as is_known,
    (select array_agg(name order by name) from (
        select name from ledger_agent where id = any(x.agent_ids) order by name limit {NAMED}
    ) named) as names,
    (select count(distinct w.task_id) from new y
        cross join lateral (select n.task_id {waiting_for("y.task_id")}) w
        where y.cause = x.cause) as tasks
from chosen {LINE_PARTS}
left join retries_failurepattern p on p.id = x.pattern_id::uuid
order by x.rank desc, x.grown desc, x.count desc, x.id"""


@dataclass(frozen=True, slots=True)
class NewCause:
    """Escalations of the last hour with one cause; `first` is the earliest one."""

    first: QuestionLine
    count: int
    grown: int  # growth in the last step
    first_at: datetime
    is_known: bool  # its pattern failed before this hour
    severity: str  # empty for normal
    agents: int
    names: list[str]
    tasks: int  # waiting tasks
    pattern_id: UUID | None
    fingerprint: str
    name: str
    steps: list[int]  # failures, or escalations without a pattern
    begins: int  # the step of `first_at`
    bars: Bars

    @property
    def more_agents(self) -> int:
        return self.agents - len(self.names)


@dataclass(frozen=True, slots=True)
class NewCauses:
    causes: list[NewCause]
    total: int  # escalations
    more: int  # the number of causes without a row
    since: datetime

    @property
    def lead(self) -> NewCause | None:
        return self.causes[0] if self.causes else None


def list_new_causes(project: Project | None, *, now: datetime) -> NewCauses:
    since = now - HOUR
    rows = sql.run_custom_plan(
        NEW_CAUSES,
        project=project.id if project else None,
        agent=None,
        now=now,
        since=since,
        recent=now - STEP,
    )
    ids = [row["pattern_id"] for row in rows if row["pattern_id"]]
    failed = count_by_step(ids, step=STEP, steps=STEPS, now=now) if ids else {}
    causes = [
        describe_cause(row, failed.get(row["pattern_id"]), now, tall=TALL if n else LEAD_TALL)
        for n, row in enumerate(rows)
    ]
    total, count = (rows[0]["total"], rows[0]["causes"]) if rows else (0, 0)
    return NewCauses(causes, total, count - len(causes), since)


def describe_cause(
    row: dict[str, Any], failed: list[int] | None, now: datetime, *, tall: int
) -> NewCause:
    line = describe_question(row)
    begins = find_step(row["first_at"], now)
    asked = [find_step(at, now) for at in row["times"]]
    steps = failed or [asked.count(n) for n in range(STEPS)]
    bad = [count if n >= begins else 0 for n, count in enumerate(steps)]
    return NewCause(
        first=line,
        count=row["count"],
        grown=row["grown"],
        first_at=row["first_at"],
        is_known=bool(row["is_known"]),
        severity={1: "Low", 3: "High"}.get(row["rank"], ""),
        agents=row["agents"],
        names=row["names"],
        tasks=row["tasks"],
        pattern_id=row["pattern_id"],
        fingerprint=row["fingerprint"] or "",
        name=row["template"] or line.headline or line.title,
        steps=steps,
        begins=begins,
        bars=bars(steps, bad, tall=tall),
    )


def find_step(at: datetime, now: datetime) -> int:
    return min(STEPS - 1, max(0, STEPS - 1 - (now - at) // STEP))
