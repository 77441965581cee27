"""Plans: read, paused, changed. What stops one or starts it anew is decided in `retries`."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from ledger import journal, moves, sql, tasks
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import Plan, PlanState, Task
from ledger.redaction import redacted, stripped, titled
from ledger.sql import Row
from ledger.states import FINAL, TaskState
from ledger.tokens import TrustedCaller

REASON_LENGTH = 2000

Progress = dict[str, int]


# ---- read


def rows_of(plan: Plan) -> list[Row]:
    """The current tasks of a plan, in the order of their numbers: rows with `agent_name` and
    `need_refs`."""
    rows = sql.run(
        f"""select {moves.task_columns("t")}, g.name as agent_name, array(
            select coalesce(n.ref, n.id::text) from ledger_need d
                join ledger_task n on n.id = d.need_id where d.task_id = t.id
            union all select m.ref from ledger_missingneed m where m.task_id = t.id
            order by 1) as need_refs
        from ledger_task t join ledger_agent g on g.id = t.agent_id
        where t.plan_id = %(plan)s and t.replaced_by_id is null""",
        plan=plan.pk,
    )
    return sorted(rows, key=lambda row: number_of(row["ref"]))


def number_of(ref: str) -> int:
    """3 of `03-01:task-3`."""
    return int(ref.rpartition("-")[2])


def progress_of(plan_ids: Iterable[UUID]) -> dict[UUID, Progress]:
    """How many current tasks of each plan are in each state; every state has its count."""
    found = {id: dict.fromkeys(map(str, TaskState), 0) for id in plan_ids}
    counted = Task.objects.current().filter(plan__in=found).values("plan_id", "state")
    for row in counted.annotate(count=Count("pk")).order_by():
        found[row["plan_id"]][row["state"]] = row["count"]
    return found


def progress(plan: Plan) -> Progress:
    """How many of its current tasks are in each state."""
    return progress_of([plan.pk])[plan.pk]


# ---- paused, changed


@transaction.atomic
def pause(
    plan_ids: Iterable[UUID],
    *,
    reason: str = "",
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Plan]:
    """Hand out no more tasks of these plans; those that really changed. What runs goes on."""
    return turn(
        plan_ids, True, reason=reason, actor=actor, now=now or timezone.now(), request_id=request_id
    )


@transaction.atomic
def resume(
    plan_ids: Iterable[UUID],
    *,
    reason: str = "",
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> list[Plan]:
    """Hand out tasks of these plans again; those that really changed."""
    return turn(
        plan_ids,
        False,
        reason=reason,
        actor=actor,
        now=now or timezone.now(),
        request_id=request_id,
    )


def turn(
    plan_ids: Iterable[UUID],
    pauses: bool,
    *,
    reason: str,
    actor: Actor,
    now: datetime,
    request_id: str,
) -> list[Plan]:
    state = PlanState.ACTIVE if pauses else PlanState.PAUSED
    found = locked(plan_ids).in_state(state)
    changed = list(found)
    for plan in changed:
        stood = plan.state
        put(plan, paused_at=now if pauses else None, now=now)
        tell(
            plan,
            Kind.PLAN_PAUSED if pauses else Kind.PLAN_RESUMED,
            actor=actor,
            now=now,
            from_state=stood,
            to_state=plan.state,
            data=why(reason),
            request_id=request_id,
        )
    return changed


def locked(plan_ids: Iterable[UUID]) -> Any:
    """These plans, locked in the order of their ids; tasks that name one may still be made."""
    rows = Plan.objects.filter(pk__in=list(plan_ids)).order_by("pk")
    return rows.select_for_update(no_key=True)


def put(plan: Plan, *, now: datetime, **columns: Any) -> None:
    """Write columns of a plan that is locked, and into the object too."""
    columns |= {"version": plan.version + 1, "updated_at": now}
    Plan.objects.filter(pk=plan.pk).update(**columns)
    for name, value in columns.items():
        setattr(plan, name, value)


def why(reason: str) -> dict[str, Any]:
    kept = stripped(redacted(reason)).strip()
    return {"reason": kept[:REASON_LENGTH]} if kept else {}


def tell(
    plan: Plan,
    kind: Kind,
    *,
    actor: Actor,
    now: datetime,
    from_state: str | None = None,
    to_state: str | None = None,
    data: dict[str, Any] | None = None,
    request_id: str = "",
) -> None:
    """Journal what happened to a plan."""
    journal.record(
        kind,
        subject_type="plan",
        subject_id=plan.pk,
        project_id=plan.project_id,
        actor=actor,
        now=now,
        from_state=from_state,
        to_state=to_state,
        data={"ref": plan.ref, "run": plan.run} | (data or {}),
        request_id=request_id,
    )


@transaction.atomic
def change(
    plan_id: UUID,
    *,
    title: str | None = None,
    version: int,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> Plan:
    """Give a plan another title, as it was read at `version`; raises VersionMismatch."""
    plan: Plan | None = locked([plan_id]).first()
    if plan is None:
        raise NotFound(f"There is no plan {plan_id}.")
    if plan.version != version:
        raise VersionMismatch(
            f"You have read version {version}; it is at {plan.version} now.", current=plan.version
        )
    if title is None:
        return plan
    if len(title) > tasks.TITLE_LENGTH:
        raise Invalid("/title", f"A title has at most {tasks.TITLE_LENGTH} characters.")
    now = now or timezone.now()
    put(plan, title=titled(redacted(title)), now=now)
    tell(
        plan,
        Kind.PLAN_UPDATED,
        actor=actor,
        now=now,
        data={"changed": ["title"]},
        request_id=request_id,
    )
    return plan


# ---- commands that nobody has said to run

PROPOSED = "'{verify,proposed_command}'"
CONFIRM = f"""with {TrustedCaller.cte}, confirmed as (
    update ledger_task t set payload = jsonb_set(t.payload #- {PROPOSED}, '{{verify}}',
            (t.payload -> 'verify') - 'proposed_command' || jsonb_build_object(
                'command', t.payload #> {PROPOSED}, 'source', 'confirmed')),
        version = t.version + 1, updated_at = %(now)s
    where t.id = any(%(ids)s) and t.state not in ({tasks.OVER})
        and jsonb_typeof(t.payload #> {PROPOSED}) = 'string'
    returning t.id, t.project_id, t.agent_id, t.payload #>> '{{verify,command}}' as command
), told as ({
    journal.insert(
        "confirmed",
        kind=f"'{Kind.TASK_CHANGED}'",
        subject="task",
        from_state="null",
        to_state="null",
        data="jsonb_build_object('changed', jsonb_build_array('payload'), "
        "'confirmed_command', m.command)",
    )
}) select id from confirmed order by id"""


def confirm_commands(
    task_ids: Iterable[UUID],
    *,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[UUID]:
    """Say that the commands which were found in prose are to be run; the ids of those that changed.

    Only a person may say that: agents run them.
    """
    known = TrustedCaller(actor, request_id=request_id)
    rows = sql.run(CONFIRM, ids=list(task_ids), now=now or timezone.now(), **known.params)
    return [row["id"] for row in rows]


@transaction.atomic
def confirm_shown(
    plan: Plan,
    commands: Mapping[str, str],
    *,
    actor: Actor,
    now: datetime | None = None,
    request_id: str = "",
) -> list[UUID]:
    """As `confirm_commands`, of tasks of a plan by ref, each command as it was shown: all or none.

    Raises Invalid where one is another by now; one that was confirmed already stays so.
    """
    rows = Task.objects.current().filter(plan=plan, ref__in=commands).order_by("pk")
    found = {row.ref: row for row in rows.select_for_update()}
    for ref, command in commands.items():
        if wrong := misfit(found.get(ref), command):
            raise Invalid(f"/commands/{ref.replace('~', '~0').replace('/', '~1')}", wrong)
    ids = [row.pk for row in found.values()]
    return confirm_commands(ids, actor=actor, now=now, request_id=request_id)


def misfit(task: Task | None, command: str) -> str:
    """Why this command of a task can't be confirmed; empty where it can, or was."""
    if task is None:
        return "The plan has no task of this ref."
    if task.state in FINAL:
        return f"The task is {task.state}: nothing of it is run any more."
    verify = verify_of(task.payload)
    if verify.get("source") == "confirmed" and verify.get("command") == command:
        return ""
    proposed = verify.get("proposed_command")
    if not isinstance(proposed, str):
        return "The task has no command that was found in prose."
    return "" if proposed == command else f"The command that was found is another: {proposed}"


def verify_of(payload: Any) -> Mapping[str, Any]:
    """What a task's payload says of its check."""
    verify = payload.get("verify") if isinstance(payload, Mapping) else None
    return verify if isinstance(verify, Mapping) else {}
