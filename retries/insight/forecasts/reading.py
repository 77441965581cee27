"""Read what the forecasts of a project's plans rest on, in five statements."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from ledger.database import sql
from ledger.database.sql import Row
from ledger.moves import CHECKPOINT, FINAL_STATES
from ledger.states import BlockedReason, Outcome, TaskState
from ledger.values.ids import SLACK, first_id
from retries.insight.forecasts.cases import MOST_CASES, AnswerCase, Case, End, History
from retries.insight.forecasts.simulation import OpenTask, Slots, measure_peak
from retries.insight.ranges import LONGEST_ATTEMPT
from retries.states import Answer, EscalationState

DAYS = 30
# an agent can run as many tasks at once as it did in this time, at most its concurrency
PEAK = timedelta(days=14)
MOST_ATTEMPTS, MOST_TASKS = 10_000, 2_000
# tasks of other plans that stand behind the plan's last one in the queues
MOST_BEHIND = 100
ENDS = {
    "done": End.DONE,
    "failed": End.FAILED,
    "released": End.RELEASED,
    "asked": End.ASKED,
}

# The last failure before an attempt says which pattern a retry is for.
ATTEMPTS = f"""with newest as materialized (
    select a.* from ledger_attempt a
    where a.id >= %(floor)s and a.outcome <> '{Outcome.ABORTED}'
        and a.agent_id in (select id from ledger_agent where project_id = %(project)s)
    order by a.id desc limit {MOST_ATTEMPTS}
)
select a.task_id, a.agent_id, a.number > 1 as is_retry, a.started_at, a.ended_at,
    extract(epoch from a.ended_at - a.started_at)::float8 as seconds,
    case when a.outcome = '{Outcome.SUCCESS}' then 'done'
        when a.outcome = '{Outcome.RELEASED}' then 'released'
        when a.outcome = '{Outcome.FAILURE}' and coalesce(a.decision ->> 'reason', '')
            in ('', 'attempts_left', 'max_retries_exceeded') then 'failed'
        else 'asked' end as how,
    coalesce((a.decision ->> 'delay_s')::float8, 0) as wait_s,
    (a.usage ->> 'cost_usd')::float8 as usd,
    coalesce((a.usage ->> 'input_tokens')::float8, 0)
        + coalesce((a.usage ->> 'output_tokens')::float8, 0) as tokens,
    t.plan_id, t.type, t.title, coalesce(p.title, '') as plan_title, l.pattern_id
from newest a join ledger_task t on t.id = a.task_id left join ledger_plan p on p.id = t.plan_id
left join lateral (
    select g.pattern_id from ledger_attempt b join ledger_failure f on f.attempt_id = b.id
        join retries_grouped g on g.failure_id = f.id
    where b.task_id = a.task_id and b.number = a.number - 1
) l on a.number > 1
order by a.ended_at desc"""

# An answer that aborts its plan lets no task go on.
ANSWERS = f"""select extract(epoch from e.closed_at - e.opened_at)::float8 as seconds,
    case e.action when '{Answer.RETRY}' then t.max_attempts
        when '{Answer.FIX}' then 1 when '{Answer.ANSWER}' then 1 else 0 end as attempts
from retries_escalation e join ledger_task t on t.id = e.task_id
where e.project_id = %(project)s and e.state = '{EscalationState.RESOLVED}'
    and e.action <> '{Answer.ABORT}'
order by e.id desc limit {MOST_CASES}"""

AGENTS = """select id, name, account, concurrency, paused, waits_until from ledger_agent
where project_id = %(project)s"""

# In the order in which the agents take them.
TASKS = f"""select t.id, t.plan_id, t.agent_id, t.type, t.title, t.state, t.blocked_reason,
    t.unmet, t.attempts, t.attempt_limit, t.updated_at,
    greatest(t.due_at, t.not_before, p.not_before) as starts_at,
    coalesce(p.title, '') as plan_title,
    a.started_at, e.opened_at, l.pattern_id
from ledger_task t left join ledger_plan p on p.id = t.plan_id
left join ledger_attempt a on a.id = t.current_attempt
left join retries_escalation e on e.task_id = t.id and e.state = '{EscalationState.OPEN}'
left join lateral (
    select g.pattern_id from ledger_failure f join retries_grouped g on g.failure_id = f.id
    where f.task_id = t.id order by f.id desc limit 1
) l on t.retry_count > 0
where t.project_id = %(project)s and t.state not in ({FINAL_STATES}) and t.replaced_by_id is null
    and p.paused_at is null
order by t.priority desc, t.id limit {MOST_TASKS}"""

NEEDS = """select task_id, need_id from ledger_need where task_id = any(%(ids)s)"""

# the states that only a person ends
WAIT_FOR_PERSON = (BlockedReason.REPORTED, BlockedReason.DEPENDENCY_SKIPPED)


def list_keys(row: Row) -> tuple[Hashable, ...]:
    """Return the groups of an attempt or a task, the narrowest first."""
    keys: list[Hashable] = [("pattern", row["pattern_id"])] if row["pattern_id"] else []
    if row["plan_title"]:
        keys.append(("task", row["plan_title"], row["title"], row["type"]))
        keys.append(("plan", row["plan_title"], row["type"]))
    return (*keys, ("agent", row["agent_id"], row["type"]), ("type", row["type"]))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A project's history, agents, and open tasks; `unit` is that of the costs, usd or tokens."""

    history: History
    unit: str
    agents: dict[UUID, Row]
    slots: list[Slots]
    tasks: list[Row]
    needs: dict[UUID, list[UUID]]
    now: datetime

    def has_paused_agent(self, plan: UUID) -> bool:
        return any(self.agents[row["agent_id"]]["paused"] for row in self.of_plan(plan))

    def of_plan(self, plan: UUID) -> list[Row]:
        return [row for row in self.tasks if row["plan_id"] == plan]

    def is_stuck(self, plan: UUID) -> bool:
        """Return whether a task needs one that no agent will do: missing, failed, or paused."""
        # a task of the newest that are not read counts as one, too
        known = {row["id"] for row in self.tasks}
        return any(
            row["unmet"] > sum(need in known for need in self.needs.get(row["id"], ()))
            for row in self.of_plan(plan)
        )

    def build_tasks(self, plan: UUID) -> list[OpenTask]:
        """Return the plan's open tasks, and those of others that its agents may take before."""
        numbers = {agent: number for number, agent in enumerate(self.agents)}
        own = self.of_plan(plan)
        agents = {row["agent_id"] for row in own}
        rows, behind = [], 0
        left = len(own)
        for row in self.tasks:
            is_own = row["plan_id"] == plan
            left -= is_own
            behind += not left and not is_own
            # Few of those behind it are begun while its own tasks wait for each other.
            if is_own or (row["agent_id"] in agents and behind <= MOST_BEHIND):
                rows.append(row)
        places = {row["id"]: place for place, row in enumerate(rows)}
        return [
            self.build_task(row, numbers[row["agent_id"]], places, is_own=row["plan_id"] == plan)
            for row in rows
        ]

    def build_task(
        self, row: Row, agent: int, places: dict[UUID, int], *, is_own: bool
    ) -> OpenTask:
        is_running = row["state"] == TaskState.RUNNING
        waits = row["state"] == TaskState.ESCALATED or row["blocked_reason"] in WAIT_FOR_PERSON
        is_checkpoint = row["type"].startswith(CHECKPOINT)
        needs = tuple(places[need] for need in self.needs.get(row["id"], ()) if need in places)
        # A checkpoint whose needs are not met has asked no one yet.
        waits = waits and (row["opened_at"] is not None or not is_checkpoint)
        return OpenTask(
            agent=agent,
            keys=list_keys(row),
            needs=() if waits or is_running else needs,
            attempts_left=max(1, row["attempt_limit"] - row["attempts"] + is_running),
            is_retry=row["attempts"] > is_running,
            starts_in_s=self.measure(row["starts_at"]),
            running_s=-self.measure(row["started_at"], past=True) if is_running else None,
            asked_s=(
                -self.measure(row["opened_at"] or row["updated_at"], past=True) if waits else None
            ),
            is_own=is_own,
            is_checkpoint=is_checkpoint,
        )

    def measure(self, at: datetime | None, *, past: bool = False) -> float:
        """Return the seconds from now until a time, or those since it as a negative number."""
        seconds = (at - self.now).total_seconds() if at else 0.0
        return min(seconds, 0.0) if past else max(seconds, 0.0)


def read_surroundings(project: UUID, *, now: datetime) -> Surroundings:
    floor = first_id(now - timedelta(days=DAYS) - LONGEST_ATTEMPT - SLACK)
    attempts = sql.run_custom_plan(ATTEMPTS, project=project, floor=floor)
    history, unit = build_history(attempts, sql.run(ANSWERS, project=project))
    agents = {row["id"]: row for row in sql.run(AGENTS, project=project)}
    tasks = sql.run(TASKS, project=project)
    tasks = [row for row in tasks if row["agent_id"] in agents]
    needs: dict[UUID, list[UUID]] = defaultdict(list)
    for row in sql.run(NEEDS, ids=[row["id"] for row in tasks]):
        needs[row["task_id"]].append(row["need_id"])
    slots = [build_slots(row, attempts, tasks, now=now) for row in agents.values()]
    return Surroundings(history, unit, agents, slots, tasks, needs, now)


def build_history(attempts: list[Row], answers: list[Row]) -> tuple[History, str]:
    # Dollars, unless most attempts that tell their tokens don't tell them.
    telling = sum(row["tokens"] > 0 or row["usd"] is not None for row in attempts)
    unit = "usd" if 2 * sum(row["usd"] is not None for row in attempts) >= telling else "tokens"
    cases = [
        Case(
            keys=list_keys(row),
            plan=row["plan_id"],
            is_retry=row["is_retry"],
            seconds=row["seconds"],
            end=ENDS[row["how"]],
            wait_s=row["wait_s"],
            # no tokens are none that were told, but no dollars are a price
            cost=row["usd"] if unit == "usd" else row["tokens"] or None,
        )
        for row in attempts
        if not row["type"].startswith(CHECKPOINT)
    ]
    found = (AnswerCase(row["seconds"], row["attempts"]) for row in answers)
    return History(cases, found), unit


def build_slots(
    agent: Row, attempts: Iterable[Row], tasks: Iterable[Row], *, now: datetime
) -> Slots:
    begin, end = (now - PEAK).timestamp(), now.timestamp()
    spans = [
        (row["started_at"].timestamp(), row["ended_at"].timestamp())
        for row in attempts
        if row["agent_id"] == agent["id"]
    ]
    running = [
        (row["started_at"].timestamp(), end)
        for row in tasks
        if row["agent_id"] == agent["id"] and row["started_at"]
    ]
    peak = measure_peak([span for span in spans if span[1] >= begin] + running)
    most = agent["concurrency"] or max(peak, 1)
    waits = agent["waits_until"]
    wait_s = max(0.0, (waits - now).total_seconds()) if waits else 0.0
    count = max(1, min(peak or most, most), len(running))
    return Slots(count, wait_s, agent["account"] or None)
