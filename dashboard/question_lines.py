"""Describe open escalations in one line each: why, the headline, and what waits for the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.sentences.tasks import describe_reason
from dashboard.wording.badges import escalation_icon
from dashboard.wording.formatting import counted
from ledger.database import sql
from ledger.database.optional_cache import get_or_compute_slow
from ledger.models import Failure, Project
from ledger.states import FINAL, FailureType
from retries.failures.grouping import headline_of
from retries.failures.outputs.salience_rules import LINE_LENGTH
from retries.states import QUESTIONS, EscalationState, Reason

WORDS = 300  # characters of a text that a line may show
TEXT_END = 2000  # characters at each end of a failure's text, where its headline is found
WAITING_COUNTED = 1000
PATTERNS = 3  # named as the same cause of several

KINDS = {
    FailureType.EXECUTION_ERROR: "error",
    FailureType.VERIFICATION_FAILED: "check",
    FailureType.TIMEOUT: "timeout",
    FailureType.ARCHITECT_REJECTED: "rejected",
}


def clip(text: str) -> str:
    """Return the SQL of a text's two ends, which is as much as a list needs."""
    return f"""case when length({text}) > {2 * TEXT_END}
        then left({text}, {TEXT_END}) || E'\\n' || right({text}, {TEXT_END}) else {text} end"""


# what `find_failure_headline` reads of the failure `f`
FAILURE_TEXTS = f"""{clip("f.message")} as message, {clip("f.details")} as details,
    {clip("(f.verification ->> 'output')")} as output, left(f.telling_lines, {LINE_LENGTH})
        as telling_lines"""


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """An open escalation; `waiting` tasks need the task that it asks about."""

    id: UUID
    version: int
    ref: str
    title: str
    icon: str
    reason: str
    headline: str
    waiting: int
    agent: str
    project: str
    opened_at: datetime


IN_INBOX = f"""x.state = '{EscalationState.OPEN}'
    and (x.snoozed_until is null or x.snoozed_until <= %(now)s)
    and (%(project)s::uuid is null or x.project_id = %(project)s)
    and (%(agent)s::uuid is null or x.agent_id = %(agent)s)"""
LAST_FAILURE = """select f.* from ledger_failure f where f.task_id = x.task_id
    order by f.id desc limit 1"""


def waiting_for(task: str) -> str:
    """Return the SQL of the tasks that need a task and are not final."""
    # Lookups with a limit are made row by row: no plan reads a whole table for them.
    return f"""from (select task_id from ledger_need where need_id = {task} offset 0) n
    cross join lateral (select state from ledger_task where id = n.task_id limit 1) d
    where d.state not in ({sql.quoted(FINAL)})"""


# what `describe_question` reads of the escalations in `chosen`
LINE = f"""x.id, x.version, x.reason, x.attempts, x.attempt_limit, x.opened_at,
    left(x.question, {WORDS}) as question, a.name as agent, o.name as project,
    coalesce(t.ref, '') as ref,
    coalesce(nullif(t.title, ''), t.type, left(coalesce(i.content, x.question), {WORDS})) as title,
    x.instruction_id is not null as of_instruction, coalesce(i.deliveries, 0) as deliveries,
    f.type as failure_type, {FAILURE_TEXTS}, w.n as waiting"""
LINE_PARTS = f"""x
join ledger_agent a on a.id = x.agent_id join ledger_project o on o.id = x.project_id
left join ledger_task t on t.id = x.task_id
left join ledger_instruction i on i.id = x.instruction_id
left join lateral ({LAST_FAILURE}) f on true
cross join lateral (
    select count(*) as n from (select 1 {waiting_for("x.task_id")} limit {WAITING_COUNTED}) d
) w"""
# the first questions of each age; the ages begin at the given times
OLDEST = f"""with aged as (
    select x.*, width_bucket(x.opened_at, %(ages)s::timestamptz[]) as age
    from retries_escalation x
    where {IN_INBOX} and (%(before)s::timestamptz is null or x.opened_at <= %(before)s)
), placed as (
    select *, count(*) over () as total, count(*) over (partition by age) as of_age,
        row_number() over (partition by age order by id) as place
    from aged
), chosen as (select * from placed where place <= %(most)s)
select {LINE}, x.total, x.age, x.of_age from chosen {LINE_PARTS} order by x.id"""


@dataclass(frozen=True, slots=True)
class Age:
    """Open escalations that wait about as long, the oldest as lines."""

    at: int  # 0 for the oldest
    count: int
    lines: list[QuestionLine]


@dataclass(frozen=True, slots=True)
class OpenQuestions:
    """The oldest open escalations and how many there are."""

    lines: list[QuestionLine]
    total: int
    ages: list[Age]

    @property
    def more(self) -> int:
        return self.total - len(self.lines)


def list_oldest_questions(
    project: Project | None,
    *,
    now: datetime,
    most: int,
    agent_id: UUID | None = None,
    ages: Sequence[datetime] = (),
    before: datetime | None = None,
) -> OpenQuestions:
    """Return the oldest questions of each age; the times `ages` separate them, oldest first."""
    params = {"project": project.id if project else None, "agent": agent_id, "now": now}
    rows = sql.run_custom_plan(OLDEST, **params, most=most, ages=list(ages), before=before)
    found: dict[int, Age] = {}
    for row in rows:
        age = found.setdefault(row["age"], Age(row["age"], row["of_age"], []))
        age.lines.append(describe_question(row))
    lines = [line for age in found.values() for line in age.lines]
    return OpenQuestions(lines, rows[0]["total"] if rows else 0, list(found.values()))


def describe_question(row: dict[str, Any]) -> QuestionLine:
    reason, headline = describe_reason(row), ""
    if row["of_instruction"]:
        reason = f"ignored {counted(row['deliveries'], 'time')}"
    elif row["reason"] == Reason.PERMISSION_REQUEST:
        reason = "asks whether it may make this call"
    elif row["reason"] in QUESTIONS or row["question"]:
        headline = row["question"].strip().partition("\n")[0]
    elif row["failure_type"]:
        headline = find_failure_headline(row)
        if row["reason"] == "max_retries_exceeded":
            kind = KINDS[FailureType(row["failure_type"])]
            reason = f"failed {row['attempts']} of {row['attempt_limit']}: {kind}"
    return QuestionLine(
        row["id"],
        row["version"],
        row["ref"],
        row["title"],
        escalation_icon(row["reason"], row["failure_type"]),
        reason[:1].upper() + reason[1:],
        headline[:WORDS],
        row["waiting"],
        row["agent"],
        row["project"],
        row["opened_at"],
    )


def find_failure_headline(row: dict[str, Any]) -> str:
    verification = {"output": row["output"]} if row["output"] else None
    failure = Failure(
        message=row["message"],
        details=row["details"] or "",
        verification=verification,
        telling_lines=row["telling_lines"],
    )
    return headline_of(failure) or row["message"].strip().partition("\n")[0]


# ---- what they have in common


@dataclass(frozen=True, slots=True)
class SameCause:
    """A pattern that several open escalations share."""

    pattern_id: UUID
    fingerprint: str
    template: str
    project: str
    count: int
    answerable: int  # the escalations that one answer can resolve


@dataclass(frozen=True, slots=True)
class Causes:
    """The patterns of all open escalations, and the number of tasks that wait for answers."""

    counts: dict[UUID, int]
    same: list[SameCause]
    waiting: int


# reasons without a single answer for several escalations
SINGLE = (
    *QUESTIONS,
    Reason.NEEDS_CONFIRMATION,
    Reason.INSTRUCTION_IGNORED,
    Reason.CONFLICTING_REQUIREMENTS,
    Reason.PERMISSION_REQUEST,
)
CAUSES = f"""with open as (
    select x.id, x.task_id, x.reason from retries_escalation x where {IN_INBOX}
), causes as (
    select g.pattern_id, count(*) as n,
        count(*) filter (where x.reason not in ({sql.quoted(SINGLE)})) as answerable
    from open x
    join lateral ({LAST_FAILURE}) f on true join retries_grouped g on g.failure_id = f.id
    group by 1
)
select null::uuid as pattern_id, '' as fingerprint, '' as template, '' as project,
    (select count(distinct w.task_id) from open x
        cross join lateral (select n.task_id {waiting_for("x.task_id")}) w) as n, 0 as answerable
union all
select c.pattern_id, p.fingerprint, left(p.template, {WORDS}), o.name, c.n, c.answerable
from causes c join retries_failurepattern p on p.id = c.pattern_id
    join ledger_project o on o.id = p.project_id
order by n desc, pattern_id"""


def read_causes(project: Project | None, *, now: datetime, agent_id: UUID | None = None) -> Causes:
    place = agent_id or (project.id if project else "all")
    params = {"project": project.id if project else None, "agent": agent_id, "now": now}
    key = f"same-causes:{place}"
    rows = get_or_compute_slow(key, lambda: sql.run_custom_plan(CAUSES, **params))
    counts = {row["pattern_id"]: row["n"] for row in rows if row["pattern_id"]}
    shared = [
        SameCause(
            row["pattern_id"],
            row["fingerprint"],
            row["template"],
            row["project"],
            row["n"],
            row["answerable"],
        )
        for row in rows
        if row["pattern_id"] and row["n"] > 1
    ]
    waiting = next(row["n"] for row in rows if not row["pattern_id"])
    return Causes(counts, shared[:PATTERNS], waiting)
