"""Propose the check of a task that declares none: one that proved tasks near it."""

from ledger.database import sql
from ledger.models import Task
from ledger.states import Proof
from retries.attempts.checks.reported import LEVEL_SQL

MOST_READ = 500  # tasks that were created last, of the plan and of the project

# Of the plan first, then of the same type, then with a file in common; the most frequent wins.
NEAR = f"""with near as (
    (select id, plan_id, type, payload, proof from ledger_task
        where plan_id = %(plan)s::uuid order by id desc limit %(most)s)
    union all
    (select id, plan_id, type, payload, proof from ledger_task
        where project_id = %(project)s
            and (%(plan)s::uuid is null or plan_id is distinct from %(plan)s)
        order by id desc limit %(most)s)
), ranked as (
    select payload -> 'verify' ->> 'command' as command, case
        when plan_id = %(plan)s::uuid then 0 when type = %(type)s then 1
        when payload -> 'files' ?| %(files)s::text[] then 2 end as distance
    from near where proof = '{Proof.PROVEN}'
)
select command from ranked where command <> '' and distance is not null
group by command order by min(distance), count(*) desc, command limit 1"""


def propose_check(task: Task) -> str:
    """Return the check that tasks of this plan, type, or set of files have passed, or ""."""
    files = task.payload.get("files") if isinstance(task.payload, dict) else None
    rows = sql.run(
        NEAR,
        plan=task.plan_id,
        project=task.project_id,
        type=task.type,
        files=files or [],
        most=MOST_READ,
    )
    return str(rows[0]["command"]) if rows else ""


LEVEL = f"select {LEVEL_SQL} as level from ledger_task t where t.id = %(id)s"


def read_level(task: Task) -> str | None:
    level: str | None = sql.run(LEVEL, id=task.pk)[0]["level"]
    return level
