"""The SQL of claims: pick tasks past every gate, move them, and open their attempts."""

from enum import Enum

from ledger import journal
from ledger.journal import Kind
from ledger.moves import TASK_COLUMNS, select_list, task_to
from ledger.standing_instructions.firing import has_rule_for_claim
from ledger.states import BlockedReason, TaskState
from ledger.tokens import Bearer, Caller, Statements, TrustedCaller
from retries.breaker import HOLDS_BACK
from retries.claiming import pools
from retries.states import EscalationState

CALLERS: tuple[type[Caller], ...] = (Bearer, TrustedCaller)


def lease_s(row: str) -> str:
    # The claim's own value comes before that of the task or attempt.
    return f"coalesce(%(lease)s, {row}.lease_s)"


def pending_instructions(agent_id: str) -> str:
    # The count stops at 100, however long the queue is.
    return f"""(select count(*) from (select from ledger_instruction i
            where i.agent_id = {agent_id} and i.state = 'queued' limit 100) i)"""


# ---- what a claim returns

# Only a response over HTTP shows the whole task.
WORK_COLUMNS = (
    "id",
    "project_id",
    "agent_id",
    "plan_id",
    "ref",
    "title",
    "type",
    "state",
    "priority",
    "payload",
    "attempt_limit",
    "attempts",
    "lease_s",
    "timeout_s",
    "current_attempt",
    "version",
)
COLUMNS: dict[type[Caller], tuple[str, ...]] = {Bearer: TASK_COLUMNS, TrustedCaller: WORK_COLUMNS}

# An attempt begins when the previous one has ended, although the clocks of two servers differ. A
# statement does not see an attempt that began after it did, but it has the task's current row.
STARTED_AT = """case when t.attempts > 1 then greatest(%(now)s, old.updated_at, (
        select p.ended_at from ledger_attempt p
        where p.task_id = t.id and p.number = t.attempts - 1)) else %(now)s::timestamptz end"""
# of an attempt that a claim opens for the task `m`
OPENED = {
    "id": "m.current_attempt",
    "number": "m.attempts",
    "worker_id": "%(worker)s::text",
    "started_at": "m.attempt_started_at",
    "lease_s": lease_s("m"),
    "lease_expires_at": f"%(now)s + {lease_s('m')} * interval '1 second'",
    "deadline_at": "%(now)s + m.timeout_s * interval '1 second'",
}
OPENED_COLUMNS = ", ".join(f"{value} as attempt_{name}" for name, value in OPENED.items())
HELD_COLUMNS = ", ".join(f"h.{name} as attempt_{name}" for name in OPENED)


# ---- gates

# Each gate reads one row. As 'not exists' inside an 'or' it would read all plans, or all breakers.
PLAN_RUNS = """(plan_id is null or (
                select p.paused_at is null and (p.not_before is null or p.not_before <= %(now)s)
                    and (p.spent_until is null or p.spent_until <= %(now)s)
                from ledger_plan p where p.id = plan_id))"""
# Where a type is paused, the claim is made again with the types that it leaves out.
PROJECT_RUNS = """(select (p.spent_until is null or p.spent_until <= %(now)s)
                    and (p.paused_types is null or coalesce(%(held_types)s::text[]
                        @> array(select jsonb_object_keys(p.paused_types)), false))
                from ledger_project p where p.id = a.project_id)"""
BREAKER_CLOSED = f"""(%(probe)s or (select b.state from ledger_breaker b
                where b.agent_id = a.id and {HOLDS_BACK}) is null)"""
WAITING = f"t.state in ('{TaskState.QUEUED}', '{TaskState.RETRY}')"
IS_DUE = f"(state = '{TaskState.QUEUED}' or state = '{TaskState.RETRY}' and due_at <= %(now)s)"


def gates(caller: type[Caller], *, resume: bool, pooled: bool) -> str:
    """Return the condition that the caller's agent `a` may open an attempt."""
    nothing_held = " and not exists (select from held)" if resume else ""
    ruled = has_rule_for_claim(project="a.project_id", agent="a.id", pooled=pooled)
    alone = "" if pooled else " and not a.in_pools"
    return f"""a.id = {agent_of(caller)} and not a.paused{alone}{nothing_held}
            and (a.waits_until is null or a.waits_until <= %(now)s)
            and (%(limited)s or a.concurrency is null) and {PROJECT_RUNS}
            and (%(ruled)s or {ruled} is null) and {BREAKER_CLOSED}"""


def is_of_held_type(task: str) -> str:
    return f"({task}.type = any(%(held_types)s::text[]))"


def can_start(task: str = "ledger_task") -> str:
    """Return the condition that a task's time has come, and its plan, type, and files are free.

    Neither its own budget nor its plan's is used up.
    """
    # PostgreSQL evaluates the function last, because it costs most: other claims in the project
    # that reach such a task wait for this one to commit.
    return f"""({task}.not_before is null or {task}.not_before <= %(now)s)
                and ({task}.spent_until is null or {task}.spent_until <= %(now)s)
                and {is_of_held_type(task)} is not true
                and {PLAN_RUNS} and (not {task}.exclusive or ledger_take_files({task}.project_id,
                {task}.id, {task}.plan_id, {task}.agent_id, {task}.state, {task}.priority,
                {task}.payload -> 'files'))"""


def agent_of(caller: type[Caller]) -> str:
    return "(select agent_id from caller)" if caller is Bearer else "%(agent)s"


# ---- which task: the id of one


def pick_named(caller: type[Caller], *, pooled: bool) -> str:
    agent = agent_of(caller)
    mine = f"agent_id = {agent}"
    if pooled:
        mine = f"agent_id in (select queue from queues) and {pools.may_take(agent)}"
    return f"""(select id from ledger_task
            where id = %(task)s and {mine} and {IS_DUE} and {can_start()}
            for update skip locked)"""


IS_QUEUED = f"state = '{TaskState.QUEUED}' and {can_start()}"
IS_RETRIED = f"state = '{TaskState.RETRY}' and due_at <= %(now)s and {can_start()}"


def pick_next(caller: type[Caller], *, pooled: bool) -> str:
    """Return the SQL of the next task: the queue's head, or the retry that is longest due."""
    # The retry goes first if its priority is at least as high. Two short index walks find both,
    # however deep the queue is.
    agent = agent_of(caller)
    if pooled:
        free = f" and {pools.may_take(agent)}"
        head = pools.pick_from_queues(
            where=IS_QUEUED + free, order="priority desc, id", columns="priority"
        )
        due = pools.pick_from_queues(
            where=IS_RETRIED + free, order="due_at", columns="priority, due_at"
        )
    else:
        head = f"""from ledger_task where agent_id = {agent} and {IS_QUEUED}
            order by priority desc, id limit 1 for update skip locked"""
        due = f"""from ledger_task where agent_id = {agent} and {IS_RETRIED}
            order by due_at limit 1 for update skip locked"""
    return f"""(with due as materialized (select id, priority {due}),
                head as materialized (select id, priority {head})
            select coalesce((select id from due
                where due.priority >= coalesce((select priority from head), due.priority)),
                (select id from head)))"""


def pick_next_or_offered(caller: type[Caller], *, pooled: bool) -> str:
    # An answered task goes first to the worker that had it last: while no other attempt has begun
    # since, and through the same gates. Other workers are not kept from it.
    offered = select_offered(agent_of(caller), limit="1", pooled=pooled)
    return f"coalesce(({offered}), {pick_next(caller, pooled=pooled)})"


def select_offered(agent: str, *, limit: str, pooled: bool) -> str:
    mine = "t.agent_id = e.agent_id"
    if pooled:
        mine = f"t.agent_id in (select queue from queues) and {pools.may_take(agent, 't')}"
    return f"""select t.id from retries_escalation e join ledger_task t on t.id = e.task_id
        where e.agent_id = {agent} and e.offered_to = %(worker)s
            and {mine} and t.attempts = e.attempts and {can_start("t")}
            and (t.state = '{TaskState.QUEUED}'
                or t.state = '{TaskState.RETRY}' and t.due_at <= %(now)s)
        order by t.priority desc, t.id limit {limit} for update of t skip locked"""


# ---- which tasks: the CTE `picked` of several

LIMIT = "(select %(limit)s::int)"


def pick_several(*, pooled: bool, limit: str = LIMIT, but_for: str = "", prefix: str = "") -> str:
    """Return the CTEs that pick tasks as `pick_next` does, best first."""
    # `but_for` is a further condition, and the rows of the query `prefix` go first.
    best = f"""select id from (
            select id, priority, due_at from due union all select id, priority, null from queued
        ) found order by priority desc, due_at nulls last, id limit {limit}"""
    found = {
        "queued": (IS_QUEUED + but_for, "priority desc, id", "priority"),
        "due": (IS_RETRIED + but_for, "due_at", "priority, due_at"),
    }
    pick = pick_from_pools if pooled else pick_from_queue
    ctes = [pick(name, *of, limit=limit) for name, of in found.items()]
    return f"""{", ".join(ctes)}, picked as materialized (
        {f"{prefix} union all ({best})" if prefix else best}
    )"""


def pick_from_queue(name: str, where: str, order: str, columns: str, *, limit: str) -> str:
    return f"""{name} as materialized (
        select id, {columns} from ledger_task where agent_id = (select id from free) and {where}
        order by {order} limit {limit} for update skip locked
    )"""


def pick_from_pools(name: str, where: str, order: str, columns: str, *, limit: str) -> str:
    # Where other claims hold the best tasks, those behind them follow, queue by queue.
    where = f"{where} and {pools.may_take('(select id from free)')}"
    best = pools.pick_best_of_queues(where=where, order=order, columns=columns, limit=limit)
    rest = pools.pick_from_queues(
        where=f"{where} and id <> all(array(select id from best_{name}))",
        order=order,
        columns=columns,
        limit=f"greatest(0, {limit} - (select count(*) from best_{name}))",
    )
    return f"""best_{name} as materialized ({best}), {name} as materialized (
        select id, {columns} from best_{name}
        union all (select id, {columns} {rest})
    )"""


def pick_several_or_offered(*, pooled: bool) -> str:
    return f"""offered as materialized (
        {select_offered("(select id from free)", limit=LIMIT, pooled=pooled)}
    ), """ + pick_several(
        pooled=pooled,
        limit="(select %(limit)s::int - count(*) from offered)",
        but_for=" and id <> all(array(select id from offered))",
        prefix="select id from offered",
    )


# the picked tasks without those whose files overlap with a better one's
APART = """placed as materialized (
        select t.id, t.plan_id, t.exclusive, p.place,
            case when t.exclusive then ledger_held_folders(t.payload -> 'files') end as held,
            case when t.exclusive then ledger_wanted_folders(t.payload -> 'files') end as wanted,
            (select j.exclusive_files from ledger_project j where j.id = t.project_id) as scope
        from (select id, row_number() over () as place from picked) p
            join ledger_task t on t.id = p.id
    ), apart as materialized (
        select p.id from placed p where not p.exclusive or not exists (select from placed better
            where better.place < p.place and better.exclusive
                and (better.plan_id = p.plan_id or p.scope <> 'off')
                and better.held && p.wanted)
    )"""


# ---- the claim

HELD = f"""held as (
        update ledger_attempt a set heartbeat_at = %(now)s,
            lease_expires_at = greatest(a.lease_expires_at,
                %(now)s + {lease_s("a")} * interval '1 second')
        where a.agent_id = (select agent_id from caller) and a.outcome is null
            and a.deadline_at > %(now)s and a.worker_id = %(worker)s
            and (%(task)s::uuid is null or a.task_id = %(task)s)
        returning a.*
    ), """


def need_ids(task_id: str) -> str:
    return f"""array(select n.need_id from ledger_need n where n.task_id = {task_id}
            order by n.need_id) as need_ids"""


# Other claims compare with them, which is faster than with the files.
HELD_FOLDERS = """held_folders = case when t.exclusive
            then ledger_held_folders(t.payload -> 'files') end"""
SYSTEM_TEXT = "(select a.system_text from ledger_agent a where a.id = c.agent_id)"


def claim_one(caller: type[Caller], task: str, *, resume: bool, pooled: bool) -> str:
    where = f"{gates(caller, resume=resume, pooled=pooled)} and t.id = {task}"
    moved = start(caller, where, "ledger_agent a", member="a.id" if pooled else "")
    before = pools.queues(agent_of(caller)) if pooled else ""
    return claim_statement(caller, moved, resume=resume, pooled=pooled, before=before)


def claim_several(caller: type[Caller], picked: str, *, resume: bool, pooled: bool) -> str:
    queues = pools.queues("(select id from free)") if pooled else ""
    free = f"""free as (
        select a.id from ledger_agent a where {gates(caller, resume=resume, pooled=pooled)}
    ), {queues}{picked}, {APART}, """
    which = "t.id = any(array(select id from apart))"
    moved = start(caller, which, "caller c", member="c.agent_id" if pooled else "")
    return claim_statement(caller, moved, resume=resume, pooled=pooled, before=free)


def start(caller: type[Caller], where: str, source: str, *, member: str) -> str:
    # A pool's task becomes that of the member.
    own = f", agent_id = {member}" if member else ""
    return (
        task_to(
            TaskState.RUNNING,
            where=where,
            sets=f"current_attempt = uuidv7(), {HELD_FOLDERS}{own}",
            source=source,
            columns=COLUMNS[caller],
        )
        + f", {STARTED_AT} as attempt_started_at"
    )


def claim_statement(
    caller: type[Caller], moved: str, *, resume: bool, pooled: bool, before: str = ""
) -> str:
    """Return the statement that gives a worker its live attempts again, or else new ones."""
    # The statement returns no row if there is nothing to give. `moved` starts the tasks, and
    # `before` has the CTEs that it reads. Rows that another claim has locked are skipped.
    is_bearer = caller is Bearer
    agent = f"""c.agent_name, c.unseen,
        {pending_instructions("c.agent_id") if is_bearer else "0"} as pending_instructions,
        {SYSTEM_TEXT if is_bearer else "''"} as system_text"""

    def task(row: str) -> str:
        needs = f", {need_ids(f'{row}.id')}" if is_bearer else ""
        pool = f", (select p.name from ledger_agent p where p.id = {row}.pool_id) as pool_name"
        return select_list(row, COLUMNS[caller]) + needs + (pool if is_bearer and pooled else "")

    held = f"""union all
    select {task("t")}, {HELD_COLUMNS}, true as resumed, {agent}
    from held h join ledger_task t on t.id = h.task_id, caller c"""
    return f"""with {caller.cte}, {HELD if resume else ""}{before}moved as ({moved}), opened as (
        insert into ledger_attempt (task_id, agent_id, {", ".join(OPENED)})
        select m.id, m.agent_id, {", ".join(OPENED.values())} from moved m
    ), journaled as ({
        journal.insert(
            "moved",
            kind=f"'{Kind.TASK_CLAIMED}'",
            subject="task",
            data="jsonb_build_object('attempt', m.attempts)",
            id="m.current_attempt",
        )
    })
    select {task("m")}, {OPENED_COLUMNS}, false as resumed, {agent}
    from moved m, caller c {held if resume else ""}"""


class Pick(Enum):
    """Which tasks a claim takes."""

    NAMED = "named"
    NEXT = "next"
    NEXT_OR_OFFERED = "next or offered"
    SEVERAL = "several"
    SEVERAL_OR_OFFERED = "several or offered"


def build_claim(caller: type[Caller], pick: Pick, *, resume: bool, pooled: bool) -> str:
    match pick:
        case Pick.NAMED:
            task = pick_named(caller, pooled=pooled)
        case Pick.NEXT:
            task = pick_next(caller, pooled=pooled)
        case Pick.NEXT_OR_OFFERED:
            task = pick_next_or_offered(caller, pooled=pooled)
        case Pick.SEVERAL:
            picked = pick_several(pooled=pooled)
            return claim_several(caller, picked, resume=resume, pooled=pooled)
        case Pick.SEVERAL_OR_OFFERED:
            picked = pick_several_or_offered(pooled=pooled)
            return claim_several(caller, picked, resume=resume, pooled=pooled)
    return claim_one(caller, task, resume=resume, pooled=pooled)


def build_claims(*, pooled: bool) -> dict[tuple[type[Caller], Pick, bool], str]:
    return {
        (caller, pick, resume): build_claim(caller, pick, resume=resume, pooled=pooled)
        for caller in CALLERS
        for pick in Pick
        for resume in (False, True)
    }


CLAIM = build_claims(pooled=False)
# of agents that are members of pools
POOL_CLAIM = build_claims(pooled=True)


# An agent gets the answer to its question as soon as one that has just worked.
AWAITS_ANSWER = f"""(select e.state = '{EscalationState.OPEN}' and e.asked_in_id is not null
                and e.opened_at > %(now)s - interval '1 hour'
            from retries_escalation e where e.agent_id = c.agent_id
            order by e.id desc limit 1)"""


def least_of(select: str, *, pooled: bool) -> str:
    """Return the SQL of the least value that a query finds for the agent, or for a queue of it."""
    # queue by queue, because only the walk through one is short
    if not pooled:
        return f"({select.format(queue='c.agent_id')})"
    return f"""(select min(each.least) from queues q cross join lateral (
                {select.format(queue="q.queue")}) each(least))"""


# when a waiting task of a queue, or the plan of one, may start
OWN_START = f"""select min(t.not_before) from ledger_task t
                where t.agent_id = {{queue}} and t.blocked_reason = '{BlockedReason.NOT_BEFORE}'
                    and (t.plan_id is null
                        or (select p.paused_at from ledger_plan p where p.id = t.plan_id) is null)
                    and (%(task)s::uuid is null or t.id = %(task)s)"""
PLAN_START = f"""select min(p.not_before) from ledger_task t join ledger_plan p on p.id = t.plan_id
                where t.agent_id = {{queue}} and {WAITING} and p.not_before > %(now)s
                    and p.paused_at is null
                    and (%(task)s::uuid is null or t.id = %(task)s)"""
# its type is not paused, and no budget of the task or of the project of its agent is used up
HAS_BUDGET = f"""{is_of_held_type("t")} is not true
                and (t.spent_until is null or t.spent_until <= %(now)s)
                and (select p.spent_until > %(now)s from ledger_project p
                    where p.id = c.project_id) is not true"""
NEXT_DUE = f"""select min(due_at) from ledger_task t
            where t.agent_id = {{queue}} and t.state = '{TaskState.RETRY}'
                and {PLAN_RUNS} and {HAS_BUDGET}"""


# until when a budget is used up: that of the agent's project, or of a waiting task or its plan
SPENT_UNTIL = f"""coalesce(
            (select p.spent_until from ledger_project p
                where p.id = c.project_id and p.spent_until > %(now)s),
            (select greatest(t.spent_until, p.spent_until)
                from ledger_task t left join ledger_plan p on p.id = t.plan_id
                where {{mine}} and {WAITING}
                    and (%(task)s::uuid is null or t.id = %(task)s)
                    and greatest(t.spent_until, p.spent_until) > %(now)s
                limit 1))"""


def why_statement(caller: type[Caller], *, pooled: bool) -> str:
    """Return the statement that explains an empty claim; it has no row for an unknown caller."""
    pending = pending_instructions("c.agent_id") if caller is Bearer else "0"
    mine = (
        "t.agent_id = any(array(select queue from queues))"
        if pooled
        else ("t.agent_id = c.agent_id")
    )
    queues = f", {pools.queues(agent_of(caller)).rstrip().rstrip(',')}" if pooled else ""
    next_due = f"{NEXT_DUE} and {pools.pool_runs('t')}" if pooled else NEXT_DUE
    return f"""with {caller.cte}{queues}
    select null::uuid as id, c.agent_id as caller_agent, c.agent_name, c.unheard as unseen,
        case when {AWAITS_ANSWER} then 0 else c.idle_s end as idle_s,
        (select paused from ledger_agent a where a.id = c.agent_id) as paused,
        (select in_pools from ledger_agent a where a.id = c.agent_id) as in_pools,
        (select waits_until from ledger_agent a
            where a.id = c.agent_id and waits_until > %(now)s) as waits_until,
        (select concurrency from ledger_agent a where a.id = c.agent_id) as concurrency,
        (select state from ledger_breaker b
            where b.agent_id = c.agent_id and {HOLDS_BACK}) as gate,
        {has_rule_for_claim(project="c.project_id", agent="c.agent_id", pooled=pooled)} as ruled,
        least({least_of(OWN_START, pooled=pooled)},
            {least_of(PLAN_START, pooled=pooled)}) as next_start_at,
        {SPENT_UNTIL.format(mine=mine)} as spent_until,
        exists (select from ledger_task t
            where {mine} and t.state = '{TaskState.QUEUED}' and t.exclusive
                and {PLAN_RUNS} and {HAS_BUDGET}) as waits_for_files,
        exists (select from ledger_task t join ledger_plan p on p.id = t.plan_id
            where {mine}
                and {WAITING}
                and (%(task)s::uuid is null or t.id = %(task)s)
                and p.paused_at is not null) as plan_paused,
        (select p.paused_types from ledger_project p where p.id = c.project_id) as paused_types,
        %(held_types)s::text[] is not null and exists (select from ledger_task t
            where {mine} and {WAITING} and (%(task)s::uuid is null or t.id = %(task)s)
                and {is_of_held_type("t")}) as type_paused,
        {least_of(next_due, pooled=pooled)} as next_due_at,
        {pending} as pending_instructions
    from caller c where c.agent_id is not null"""


WHY: Statements = {caller: why_statement(caller, pooled=False) for caller in CALLERS}
POOL_WHY: Statements = {caller: why_statement(caller, pooled=True) for caller in CALLERS}

PENDING = f"select {pending_instructions('%(agent)s')} as pending_instructions"
