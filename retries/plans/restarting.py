"""What stops a plan or starts it anew, and the questions that its checkpoints ask."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from ledger import journal, needs, sql
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import SYSTEM, Actor, Kind, clock
from ledger.models import DeadLetter, Event, MissingNeed, Need, Plan, PlanState, Project, Task
from ledger.moves import FINAL_STATES
from ledger.planfile import PlanFile
from ledger.plans import import_writer
from ledger.plans.editing import lock_plans, reason_data, record_event, update_columns
from ledger.plans.import_diff import DEFAULT_OPTIONS, ImportOptions, ImportResult
from ledger.sql import Row
from ledger.states import FINAL, TaskState
from ledger.tasks import enqueue_many
from ledger.tasks.spec import spec_of_task
from ledger.tokens import TrustedCaller
from retries import checkpoints, deadletters, task_actions
from retries.models import Escalation
from retries.states import Answer


@sql.atomic
def import_plan(
    project: Project,
    planfile: PlanFile,
    *,
    options: ImportOptions = DEFAULT_OPTIONS,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> ImportResult:
    """Import a plan as `ledger.plans.import_writer` does, and open its checkpoints' questions."""
    now = now or timezone.now()
    done = import_writer.import_plan(
        project, planfile, options=options, actor=actor, now=now, request_id=request_id
    )
    if not options.dry_run and not done.unchanged:
        new = {*done.diff.added, *done.diff.changed}
        begun = [row for row in done.tasks if row["ref"] in new and waits_for_answer(row)]
        checkpoints.ask(begun, actor=actor, now=now, request_id=request_id)
    return done


def waits_for_answer(row: Row) -> bool:
    return bool(row["state"] == TaskState.ESCALATED)


# ---- stopped


@sql.atomic
def abort(
    plan_ids: Iterable[UUID],
    *,
    reason: str = "",
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Plan]:
    """Stop these plans: no further task of them begins; those that really changed.

    What runs is told so, everything else that is not over is aborted, and the open questions about
    it are withdrawn. What is done stays done.
    """
    now, ids = now or timezone.now(), list(plan_ids)
    # In the order of an answer: the question, then its plan, then the tasks.
    asked = Escalation.objects.open().filter(task__plan__in=ids)
    list(asked.order_by("id").select_for_update(of=("self",)).values_list("pk"))
    changed = list(lock_plans(ids).in_state(PlanState.ACTIVE, PlanState.PAUSED))
    for plan in changed:
        stood = plan.state
        update_columns(plan, aborted_at=now, now=now)
        under_way = Task.objects.filter(plan=plan).exclude(state__in=FINAL).order_by("pk")
        # locked first: what is claimed just now is seen as running
        found = list(under_way.select_for_update(no_key=True).values_list("pk", flat=True))
        stopped = task_actions.abort(found, actor=actor, now=now, request_id=request_id)
        record_event(
            plan,
            Kind.PLAN_ABORTED,
            actor=actor,
            now=now,
            from_state=stood,
            to_state=plan.state,
            data={
                "aborted": sum(stopped.values()),
                "running": len(stopped) - sum(stopped.values()),
                **reason_data(reason),
            },
            request_id=request_id,
        )
    return changed


def stopped(aborted: Iterable[Plan], *, at: datetime) -> tuple[int, int]:
    """How many tasks of plans that were aborted at that time ended, and how many were told to."""
    told = Event.objects.filter(
        subject_id__in=[plan.pk for plan in aborted], kind=Kind.PLAN_ABORTED, at=at
    )
    counts = list(told.values_list("data", flat=True))
    return sum(each["aborted"] for each in counts), sum(each["running"] for each in counts)


def answered(task: Task, action: str, *, actor: Actor, now: datetime, request_id: str = "") -> None:
    """What an answer about one of its tasks means for a plan; after the task has moved.

    `abort` stops the whole plan, and `skip` may have met the last need of a checkpoint.
    """
    if action == Answer.ABORT and task.plan_id:
        abort([task.plan_id], actor=actor, now=now, request_id=request_id)
    if action == Answer.SKIP:
        checkpoints.ask_after([task.pk], actor=actor, now=now, request_id=request_id)


# ---- started anew


@sql.atomic
def restart(
    plan_id: UUID,
    *,
    carry_over: datetime | None = None,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> Plan:
    """Run a plan that is aborted or completed once more: what is not done begins anew.

    New rows take the places of the old ones, for all that waits for them; open dead letters count
    as replayed by them. Counters start at 0, but with `carry_over` a row that was begun at or
    after that time goes on with its attempts and failures. Raises InvalidTransition.
    """
    now = now or timezone.now()
    plan: Plan | None = lock_plans([plan_id]).first()
    if plan is None:
        raise NotFound(f"There is no plan {plan_id}.")
    stood = plan.state
    # before their tasks, as who dismisses one does
    letters = DeadLetter.objects.open().filter(task__plan=plan).order_by("pk")
    list(letters.select_for_update(of=("self",)).values_list("pk"))
    current = Task.objects.current().filter(plan=plan).order_by("pk")
    rows = list(current.select_for_update(of=("self",), no_key=True).select_related("agent"))
    old = [task for task in rows if task.state != TaskState.DONE]
    check_over(plan, old)
    run = plan.run + 1
    new = made_anew(plan, old, run=run, actor=actor, now=now, request_id=request_id)
    take_over(old, new, actor=actor, now=now, request_id=request_id)
    carried = carry(old, new, since=carry_over)
    update_columns(plan, run=run, aborted_at=None, completed_at=None, paused_at=None, now=now)
    record_event(
        plan,
        Kind.PLAN_RESTARTED,
        actor=actor,
        now=now,
        from_state=stood,
        to_state=plan.state,
        data={"tasks": len(new), "carried": carried},
        request_id=request_id,
    )
    begun = [row for row in new.values() if waits_for_answer(row)]
    checkpoints.ask(begun, actor=actor, now=now, request_id=request_id)
    return plan


def check_over(plan: Plan, rest: Sequence[Task]) -> None:
    under_way = [task for task in rest if task.state not in FINAL]
    if plan.state not in (PlanState.ABORTED, PlanState.COMPLETED):
        raise InvalidTransition(
            f"Plan {plan.ref} is {plan.state}. Abort it first; then it can be restarted.",
            current=plan.state,
            allowed=[],
        )
    if under_way:
        raise InvalidTransition(
            f"{under_way[0].ref} is still {under_way[0].state}: it ends when its agent reports or "
            "its lease runs out.",
            current=plan.state,
            allowed=[],
            tasks=[task.ref for task in under_way],
        )
    if not rest:
        raise InvalidTransition(
            f"Every task of plan {plan.ref} is done: there is nothing to run again.",
            current=plan.state,
            allowed=[],
        )


def made_anew(
    plan: Plan, old: Sequence[Task], *, run: int, actor: Actor, now: datetime, request_id: str
) -> dict[UUID, Row]:
    """The new rows by the ids of the old ones, waiting for each other as those did."""
    places = {task.pk: n for n, task in enumerate(old)}
    needed: dict[UUID, list[UUID]] = {}
    for each in Need.objects.filter(task__in=places).order_by("need_id"):
        needed.setdefault(each.task_id, []).append(each.need_id)
    missing: dict[UUID, list[MissingNeed]] = {}
    for wait in MissingNeed.objects.filter(task__in=places):
        missing.setdefault(wait.task_id, []).append(wait)
    specs = [
        (
            task.agent,
            spec_of_task(
                task,
                run=run,
                needs=[need for need in needed.get(task.pk, ()) if need not in places],
                after=[places[need] for need in needed.get(task.pk, ()) if need in places],
                missing=len(missing.get(task.pk, ())),
            ),
        )
        for task in old
    ]
    made = enqueue_many(specs, actor=actor, now=now, request_id=request_id)
    new = {task.pk: row for task, row in zip(old, made, strict=True)}
    MissingNeed.objects.bulk_create(
        MissingNeed(project_id=plan.project_id, task_id=new[id]["id"], ref=wait.ref)
        for id, waits in missing.items()
        for wait in waits
    )
    return new


TAKE_PLACE = f"""with pairs as (select * from unnest(%(old)s::uuid[], %(new)s::uuid[]) p(old, new)),
gone as (
    update ledger_task t set replaced_by_id = p.new, updated_at = %(now)s, version = t.version + 1
    from pairs p where t.id = p.old returning t.id
)
update ledger_need d set need_id = p.new
from pairs p, ledger_task n, ledger_task w
where d.need_id = p.old and n.id = p.old and w.id = d.task_id
    -- what was skipped or dismissed is waited for no more, and what is over waits for nothing
    and n.state in ('{TaskState.FAILED}', '{TaskState.ABORTED}') and w.state not in ({FINAL_STATES})
    and not exists (select from ledger_deadletter l
        where l.task_id = p.old and l.closed_as = 'dismissed')"""


def take_over(
    old: Sequence[Task], new: Mapping[UUID, Row], *, actor: Actor, now: datetime, request_id: str
) -> None:
    """Put the new rows into the old ones' places."""
    pairs = [(task.pk, new[task.pk]["id"]) for task in old]
    sql.run(TAKE_PLACE, old=[pair[0] for pair in pairs], new=[pair[1] for pair in pairs], now=now)
    needs.count_dependents(id for pair in pairs for id in pair)
    for letter in DeadLetter.objects.open().filter(task__in=old).order_by("pk"):
        id = new[letter.task_id]["id"]
        deadletters.shut(letter, "replayed", actor=actor, now=now, replayed_as_id=id)
        deadletters.tell(letter, Kind.TASK_REPLAYED, actor=actor, now=now, request_id=request_id)


def carry(old: Sequence[Task], new: Mapping[UUID, Row], *, since: datetime | None) -> int:
    """Let what was begun since then go on with its attempts; how many do.

    Where no attempt was left, there is one more.
    """
    begun = [task for task in old if since and task.started_at and task.started_at >= since]
    for task in begun:
        row = new[task.pk]
        goes_on = {
            "retry_count": task.retry_count,
            "attempts": task.attempts,
            "attempt_limit": max(task.attempt_limit, task.attempts + 1),
            "error": task.error,
            "started_at": task.started_at,
        }
        Task.objects.filter(pk=row["id"]).update(carries=task, **goes_on)
        row.update(goes_on)  # its question, if it asks one, is told how it stands
    return len(begun)


# ---- the clock

COMPLETED = f"""with {TrustedCaller.cte}, over as materialized (
    select p.id from ledger_plan p
    where p.completed_at is null and p.aborted_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and not exists (select from ledger_task t
            where t.plan_id = p.id and t.state not in ({FINAL_STATES}))
    order by p.id limit 1000 for update of p skip locked
), noted as (
    update ledger_plan p set completed_at = %(now)s, version = p.version + 1, updated_at = %(now)s
    where p.id = any(array(select id from over))
    returning p.id, p.project_id, p.ref, p.run, old.paused_at
), told as ({
    journal.insert(
        "noted",
        kind=f"'{Kind.PLAN_COMPLETED}'",
        subject="plan",
        agent="null",
        from_state=f"case when m.paused_at is null then '{PlanState.ACTIVE}' "
        f"else '{PlanState.PAUSED}' end",
        to_state=f"'{PlanState.COMPLETED}'",
        data="jsonb_build_object('ref', m.ref, 'run', m.run)",
    )
}) select id from noted"""

REOPENED = f"""with {TrustedCaller.cte}, again as materialized (
    select p.id from ledger_plan p
    where p.completed_at is not null and p.aborted_at is null
        and (%(of)s::uuid is null or p.project_id = %(of)s)
        and p.id = any(array(select distinct t.plan_id from ledger_task t
            where t.plan_id is not null and t.state not in ({FINAL_STATES})))
    order by p.id limit 1000 for update of p skip locked
), noted as (
    update ledger_plan p set completed_at = null, version = p.version + 1, updated_at = %(now)s
    where p.id = any(array(select id from again))
    returning p.id, p.project_id, p.ref, p.run, p.paused_at
), told as ({
    journal.insert(
        "noted",
        kind=f"'{Kind.PLAN_UPDATED}'",
        subject="plan",
        agent="null",
        from_state=f"'{PlanState.COMPLETED}'",
        to_state=f"case when m.paused_at is null then '{PlanState.ACTIVE}' "
        f"else '{PlanState.PAUSED}' end",
        data="jsonb_build_object('ref', m.ref, 'run', m.run, 'reason', 'reopened')",
    )
}) select id from noted"""


def complete(*, now: datetime, project: Project | None = None) -> dict[str, Any]:
    """Note which plans are over, and which are no longer because a task of theirs was replayed."""
    known = TrustedCaller(clock("plans"))
    of = project.pk if project else None
    return {
        "completed": len(sql.run(COMPLETED, now=now, of=of, **known.params)),
        "reopened": len(sql.run(REOPENED, now=now, of=of, **known.params)),
    }
