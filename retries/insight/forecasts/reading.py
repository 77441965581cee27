"""Read what the forecasts of a project's plans rest on, in seven statements."""

from collections import defaultdict
from collections.abc import Container, Hashable, Iterable
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
MOST_ATTEMPTS, MOST_TRIES = 10_000, 50
# tasks that no forecast is made of, over all agents, and at least of each
MOST_OTHERS, LEAST_OTHERS = 2_000, 20
# tasks of other plans that stand behind the plan's last one in the queues
MOST_BEHIND = 100
ENDS = {"done": End.DONE, "failed": End.FAILED, "released": End.RELEASED, "asked": End.ASKED}

# The last failure before an attempt says which pattern a retry is for. The attempts of a project
# have no index in their order, but its tasks do.
ATTEMPTS = f"""with newest as materialized (
    select a.*, t.plan_id, t.type, t.title from ledger_task t cross join lateral (
        select b.task_id, b.agent_id, b.number, b.outcome, b.started_at, b.ended_at, b.decision,
            b.usage
        from ledger_attempt b
        where b.task_id = t.id and b.id >= %(floor)s and b.outcome <> '{Outcome.ABORTED}'
        order by b.number desc limit {MOST_TRIES}
    ) a
    where t.project_id = %(project)s and t.id >= %(floor)s
    order by t.id desc limit {MOST_ATTEMPTS}
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
    a.plan_id, a.type, a.title, coalesce(p.title, '') as plan_title, l.pattern_id
from newest a left join ledger_plan p on p.id = a.plan_id
left join lateral (
    select g.pattern_id from ledger_attempt b join ledger_failure f on f.attempt_id = b.id
        join retries_grouped g on g.failure_id = f.id
    where a.number > 1 and b.task_id = a.task_id and b.number = a.number - 1
    limit 1
) l on true
order by a.ended_at desc"""

# An answer that aborts its plan lets no task go on.
ANSWERS = f"""select extract(epoch from e.closed_at - e.opened_at)::float8 as seconds,
    case e.action when '{Answer.RETRY}' then t.max_attempts
        when '{Answer.FIX}' then 1 when '{Answer.ANSWER}' then 1 else 0 end as attempts
from retries_escalation e join ledger_task t on t.id = e.task_id
where e.project_id = %(project)s and e.state = '{EscalationState.RESOLVED}'
    and e.action <> '{Answer.ABORT}'
order by e.id desc limit {MOST_CASES}"""

# The tasks of a pool run where its members have room; `seats` counts the members' slots.
AGENTS = """select id, name, account, concurrency, paused, waits_until, (
        select sum(coalesce(m.concurrency, 1)) from ledger_poolmember s
            join ledger_agent m on m.id = s.agent_id
        where s.pool_id = a.id and not m.paused) as seats
from ledger_agent a where project_id = %(project)s and id = any(%(agents)s)"""

# All open tasks of these plans, and those of other plans that they need, directly or not.
NEEDED = f"""with recursive found as (
    select t.id, t.agent_id from ledger_task t
    where t.plan_id = any(%(plans)s) and t.state not in ({FINAL_STATES})
        and t.replaced_by_id is null
    union select m.id, m.agent_id from found f cross join lateral (
        select t.id, t.agent_id from ledger_need n join ledger_task t on t.id = n.need_id
        where n.task_id = f.id and t.state not in ({FINAL_STATES}) and t.replaced_by_id is null
        offset 0
    ) m
)
select id, agent_id from found"""

# The other tasks of these agents, by the indexes of their states. Only the queue has an order.
OTHERS = f"""select o.id from unnest(%(agents)s::uuid[]) g(id) cross join lateral (
    (select t.id from ledger_task t where t.agent_id = g.id and t.state = '{TaskState.QUEUED}'
        order by t.priority desc, t.id limit %(most)s)
    union all (select a.task_id from ledger_attempt a
        where a.agent_id = g.id and a.outcome is null order by a.id limit %(most)s)
    union all (select t.id from ledger_task t
        where t.agent_id = g.id and t.state = '{TaskState.RETRY}'
        order by t.due_at limit %(most)s)
    union all (select t.id from ledger_task t
        where t.agent_id = g.id and t.state = '{TaskState.BLOCKED}' limit %(most)s)
) o
union all (select e.task_id from retries_escalation e
    where e.project_id = %(project)s and e.state = '{EscalationState.OPEN}'
        and e.agent_id = any(%(agents)s) and e.task_id is not null
    order by e.id limit {MOST_OTHERS})"""

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
where t.id = any(%(ids)s) and t.state not in ({FINAL_STATES}) and t.replaced_by_id is null
    and p.paused_at is null
order by t.priority desc, t.id"""

NEEDS = """select task_id, need_id from ledger_need where task_id = any(%(ids)s)"""

# the states that only a person ends
WAIT_FOR_PERSON = (BlockedReason.REPORTED, BlockedReason.DEPENDENCY_SKIPPED)


def list_keys(row: Row) -> tuple[Hashable, ...]:
    keys: list[Hashable] = [("pattern", row["pattern_id"])] if row["pattern_id"] else []
    if row["plan_title"]:
        keys.append(("task", row["plan_title"], row["title"], row["type"]))
        keys.append(("plan", row["plan_title"], row["type"]))
    return (*keys, ("agent", row["agent_id"], row["type"]), ("type", row["type"]))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A project's history, agents, and open tasks; `unit` is that of the costs, usd or tokens.

    Only the agents that have one of the tasks are there.
    """

    history: History
    unit: str
    agents: dict[UUID, Row]
    slots: dict[UUID, Slots]
    tasks: dict[UUID, Row]
    needs: dict[UUID, list[UUID]]
    now: datetime

    def find_needed(self, plan: UUID) -> dict[UUID, Row]:
        """Return the plan's open tasks, and those of other plans that they need."""
        found = {id: row for id, row in self.tasks.items() if row["plan_id"] == plan}
        left = list(found)
        while left:
            for need in self.needs.get(left.pop(), ()):
                if need in self.tasks and need not in found:
                    found[need] = self.tasks[need]
                    left.append(need)
        return found

    def has_paused_agent(self, rows: Iterable[Row]) -> bool:
        return any(self.agents[row["agent_id"]]["paused"] for row in rows)

    def is_stuck(self, needed: dict[UUID, Row]) -> bool:
        """Return whether a task needs one that no agent will do: missing, failed, or paused."""
        rows = needed.values()
        return self.has_paused_agent(rows) or any(self.lacks(row, needed) for row in rows)

    def lacks(self, row: Row, among: Container[UUID]) -> bool:
        return bool(row["unmet"] > sum(need in among for need in self.needs.get(row["id"], ())))

    def choose_rows(self, needed: dict[UUID, Row]) -> list[Row]:
        """Return the needed tasks, and those of others that their agents may take before."""
        agents = {row["agent_id"] for row in needed.values()}
        rows: dict[UUID, Row] = {}
        left, others, behind = len(needed), 0, 0
        for id, row in self.tasks.items():
            if id in needed:
                left -= 1
                rows[id] = row
            elif row["agent_id"] in agents and others < MOST_OTHERS:
                behind += not left
                # Few of those behind it are begun while its own tasks wait for each other.
                if behind <= MOST_BEHIND:
                    others += 1
                    rows[id] = row
        # A task that needs one outside can't begin here. Most tasks are newer than their needs.
        before = 0
        while before != len(rows):
            before = len(rows)
            for id in sorted(rows):
                if id not in needed and self.lacks(rows[id], rows):
                    del rows[id]
        return list(rows.values())

    def build(self, plan: UUID, needed: dict[UUID, Row]) -> tuple[list[OpenTask], list[Slots]]:
        """Return the tasks to simulate, in the order of the queues, and their agents."""
        rows = self.choose_rows(needed)
        agents = {row["agent_id"]: self.slots[row["agent_id"]] for row in rows}
        numbers = {agent: number for number, agent in enumerate(agents)}
        places = {row["id"]: place for place, row in enumerate(rows)}
        tasks = [
            self.build_task(row, numbers[row["agent_id"]], places, is_own=row["plan_id"] == plan)
            for row in rows
        ]
        return tasks, list(agents.values())

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


def read_surroundings(project: UUID, plans: list[UUID], *, now: datetime) -> Surroundings:
    floor = first_id(now - timedelta(days=DAYS) - LONGEST_ATTEMPT - SLACK)
    attempts = sql.run_custom_plan(ATTEMPTS, project=project, floor=floor)
    history, unit = build_history(attempts, sql.run(ANSWERS, project=project))
    needed = sql.run(NEEDED, plans=plans)
    taking = list({row["agent_id"] for row in needed})
    most = max(LEAST_OTHERS, MOST_OTHERS // max(1, len(taking)))
    others = sql.run(OTHERS, project=project, agents=taking, most=most)
    agents = {row["id"]: row for row in sql.run(AGENTS, project=project, agents=taking)}
    tasks = sql.run(TASKS, ids=list({row["id"] for row in [*needed, *others]}))
    known = {row["id"]: row for row in tasks if row["agent_id"] in agents}
    needs: dict[UUID, list[UUID]] = defaultdict(list)
    for row in sql.run(NEEDS, ids=list(known)):
        needs[row["task_id"]].append(row["need_id"])
    slots = build_slots(agents, attempts, known.values(), now=now)
    return Surroundings(history, unit, agents, slots, known, needs, now)


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
    agents: dict[UUID, Row], attempts: Iterable[Row], tasks: Iterable[Row], *, now: datetime
) -> dict[UUID, Slots]:
    begin, end = (now - PEAK).timestamp(), now.timestamp()
    past: dict[UUID, list[tuple[float, float]]] = defaultdict(list)
    running: dict[UUID, list[tuple[float, float]]] = defaultdict(list)
    for row in attempts:
        if row["ended_at"].timestamp() >= begin:
            span = row["started_at"].timestamp(), row["ended_at"].timestamp()
            past[row["agent_id"]].append(span)
    for row in tasks:
        if row["started_at"]:
            running[row["agent_id"]].append((row["started_at"].timestamp(), end))
    found = {}
    for id, agent in agents.items():
        peak = measure_peak(past[id] + running[id])
        most = agent["concurrency"] or max(peak, 1)
        waits = agent["waits_until"]
        wait_s = max(0.0, (waits - now).total_seconds()) if waits else 0.0
        count = max(1, min(peak or most, most), len(running[id]), int(agent["seats"] or 0))
        found[id] = Slots(count, wait_s, agent["account"] or None)
    return found
