"""Resolve a plan's needs to tasks, and recount the tasks whose needs an import changed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledger import journal, moves, needs
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid
from ledger.journal import Kind
from ledger.models import MissingNeed, Need, Project
from ledger.planfile import PlanFile
from ledger.planfile.model import (
    MOST_EDGES,
    DependencyCycle,
    UnknownNeed,
    cycle_detail,
    find_cycle,
    refusal_at,
)
from ledger.states import BlockedReason, TaskState
from ledger.tokens import TrustedCaller


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of one task.

    `ids` are existing tasks, `places` the positions of needed tasks among the new ones, and
    `missing` the refs that are not imported yet.
    """

    ids: list[UUID]
    places: list[int]
    missing: list[str]


def resolve_needs(
    file: PlanFile, *, project: Project, rows: Mapping[str, Row], places: Mapping[str, int]
) -> dict[str, Needs]:
    """Return the needs of each task in the file, by ref.

    `rows` are the plan's existing tasks, `places` the positions of its new ones.
    """
    first = {task.ref for task in file.first_tasks}
    others = find_tasks(outside_refs(file), project=project)
    resolved, edges = {}, 0
    for n, task in enumerate(file.tasks):
        ids: list[UUID] = []
        missing: list[str] = []
        wanted = [*(file.needs if task.ref in first else ()), *task.needs]
        for need in dict.fromkeys(wanted):
            if need in rows:
                ids.append(rows[need]["id"])
            elif need in others:
                ids += others[need]
            elif need not in places:
                missing.append(need)
        edges += len(ids)
        if edges > MOST_EDGES:
            raise Invalid(
                f"/tasks/{n}/needs",
                f"This plan has more than {MOST_EDGES} needs, counting every task of the plans "
                "it needs.",
            )
        resolved[task.ref] = Needs(
            ids=list(dict.fromkeys(ids)),
            places=[places[need] for need in task.needs if need in places],
            missing=missing,
        )
    return resolved


def outside_refs(file: PlanFile) -> set[str]:
    refs = {*file.needs, *(need for task in file.tasks for need in task.needs)}
    return {ref for ref in refs if not ref.startswith(f"{file.ref}:")}


def check_missing(file: PlanFile, missing: Collection[str], *, allow: bool) -> list[str]:
    """Return a warning for each missing need; raise UnknownNeed unless they are allowed."""
    groups = [("", file.needs)]
    groups += [(f"/tasks/{n}", task.needs) for n, task in enumerate(file.tasks)]
    places = {
        f"{at}/needs/{n}": need
        for at, needs in groups
        for n, need in enumerate(needs)
        if need in missing
    }
    if places and not allow:
        raise refusal_at(
            UnknownNeed,
            f"{next(iter(places.values()))} does not exist in this project.",
            *places,
            hint="Import it first, or set allow_missing_needs to wait for it.",
        )
    return [
        f"{need} is not imported yet. The tasks that need it wait until it is."
        for need in dict.fromkeys(places.values())
    ]


def add_missing_needs(project: Project, missing: Mapping[UUID, Sequence[str]]) -> None:
    MissingNeed.objects.bulk_create(
        MissingNeed(project=project, task_id=id, ref=ref)
        for id, refs in missing.items()
        for ref in refs
    )


STANDS_FOR = """select t.ref, t.id from ledger_task t
where t.project_id = %(project)s and t.ref = any(%(refs)s) and t.replaced_by_id is null
union all
select p.ref, t.id from ledger_plan p join ledger_task t on t.plan_id = p.id
where p.project_id = %(project)s and p.ref = any(%(refs)s) and t.replaced_by_id is null
    and not exists (select from ledger_need d join ledger_task n on n.id = d.task_id
        where d.need_id = t.id and n.plan_id = p.id and n.replaced_by_id is null)
order by 2"""


def find_tasks(refs: Iterable[str], *, project: Project) -> dict[str, list[UUID]]:
    """Return the ids of the current tasks that each ref stands for."""
    # A plan's ref stands for its last tasks: the ones that no other task in that plan needs.
    wanted = list(refs)
    tasks: dict[str, list[UUID]] = {}
    if not wanted:
        return tasks
    for row in sql.run(STANDS_FOR, refs=wanted, project=project.pk):
        tasks.setdefault(row["ref"], []).append(row["id"])
    return tasks


UPSTREAM = """with recursive up as (
    select d.task_id, d.need_id from ledger_need d join ledger_task t on t.id = d.task_id
    where t.plan_id = %(plan)s
    union
    select d.task_id, d.need_id from up join ledger_need d on d.task_id = up.need_id
) select up.*, coalesce(t.ref, t.id::text) as task, coalesce(n.ref, n.id::text) as need
from up join ledger_task t on t.id = up.task_id join ledger_task n on n.id = up.need_id"""


def refuse_cycles(plan_id: UUID) -> None:
    """Raise DependencyCycle if the plan's tasks wait for themselves through other plans."""
    rows = sql.run(UPSTREAM, plan=plan_id)
    names = {row["task_id"]: row["task"] for row in rows}
    names |= {row["need_id"]: row["need"] for row in rows}
    edges = [(str(row["task_id"]), str(row["need_id"])) for row in rows]
    if cycle := find_cycle(edges):
        refs = [names[UUID(id)] for id in cycle]
        raise refusal_at(DependencyCycle, cycle_detail(refs), "/tasks", cycle=refs)


HOLD = f"""with {TrustedCaller.cte}, held as ({moves.hold_checkpoints()}), events as ({
    journal.insert(
        "held",
        kind=f"'{Kind.TASK_BLOCKED}'",
        subject="task",
        from_state="case when m.state <> m.from_state then m.from_state end",
        to_state="case when m.state <> m.from_state then m.state end",
        data="jsonb_build_object('reason', 'became_checkpoint')",
    )
}) select id from held"""


def hold_checkpoints(task_ids: Sequence[UUID], *, caller: TrustedCaller, now: datetime) -> None:
    if task_ids:
        sql.run(HOLD, ids=list(task_ids), now=now, **caller.params)


RECOUNT = f"""with {TrustedCaller.cte}, moved as ({moves.recount_needs()}), events as ({
    journal.insert(
        "moved",
        kind=f"case m.state when '{TaskState.BLOCKED}' then '{Kind.TASK_BLOCKED}' "
        f"when '{TaskState.ESCALATED}' then '{Kind.TASK_ESCALATED}' "
        f"else '{Kind.TASK_UNBLOCKED}' end",
        subject="task",
        data="jsonb_build_object('reason', case m.blocked_reason "
        f"when '{BlockedReason.NOT_BEFORE}' then m.blocked_reason else 'needs_changed' end)",
    )
    + " where m.state <> m.from_state"
}) select id from moved"""


def recount(
    task_ids: Sequence[UUID], need_ids: Iterable[UUID], *, caller: TrustedCaller, now: datetime
) -> None:
    """Recount the unmet needs of tasks, and move the ones that now wait or no longer wait.

    `need_ids` are the tasks whose dependents changed; their number is recounted, too.
    """
    if not task_ids:
        return
    needed = Need.objects.filter(task__in=task_ids).values_list("need_id", flat=True)
    needs.count_dependents({*needed, *need_ids})
    sql.run(RECOUNT, ids=list(task_ids), now=now, **caller.params)
