"""Read, pause, resume, and edit plans; `retries.plans` aborts and restarts them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count

from ledger import journal, moves
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid, NotFound, VersionMismatch
from ledger.journal import Kind, Stamp
from ledger.models import Plan, PlanState, Task
from ledger.secrets.notes import clean_title, noted
from ledger.states import FINAL, TaskState
from ledger.tasks.exclusive_files import mark_tasks
from ledger.tasks.spec import TITLE_LENGTH, check_not_before, read_number
from ledger.tokens import TrustedCaller

# State -> number of tasks; every state is present.
StateCounts = dict[str, int]


# ---- read


def list_tasks(plan: Plan) -> list[Row]:
    """Return a plan's current tasks by number, each with `agent_name` and `need_refs`."""
    rows = sql.run(
        f"""select {moves.task_columns("t")}, g.name as agent_name, o.name as pool_name, array(
            select coalesce(n.ref, n.id::text) from ledger_need d
                join ledger_task n on n.id = d.need_id where d.task_id = t.id
            union all select m.ref from ledger_missingneed m where m.task_id = t.id
            order by 1) as need_refs
        from ledger_task t join ledger_agent g on g.id = t.agent_id
            left join ledger_agent o on o.id = t.pool_id
        where t.plan_id = %(plan)s and t.replaced_by_id is null""",
        plan=plan.pk,
    )
    return sorted(rows, key=lambda row: read_number(row["ref"]))


def count_tasks_of(plan_ids: Iterable[UUID]) -> dict[UUID, StateCounts]:
    counts = {id: dict.fromkeys(map(str, TaskState), 0) for id in plan_ids}
    rows = Task.objects.current().filter(plan__in=counts).values("plan_id", "state")
    for row in rows.annotate(count=Count("pk")).order_by():
        counts[row["plan_id"]][row["state"]] = row["count"]
    return counts


def count_tasks(plan: Plan) -> StateCounts:
    return count_tasks_of([plan.pk])[plan.pk]


# ---- pause, resume, edit


@transaction.atomic
def pause(plan_ids: Iterable[UUID], *, reason: str = "", stamp: Stamp) -> list[Plan]:
    """Stop handing out tasks of these plans; return the plans that changed.

    Running tasks continue.
    """
    return set_paused(plan_ids, True, reason=reason, stamp=stamp)


@transaction.atomic
def resume(plan_ids: Iterable[UUID], *, reason: str = "", stamp: Stamp) -> list[Plan]:
    """Hand out tasks of these plans again; return the plans that changed."""
    return set_paused(plan_ids, False, reason=reason, stamp=stamp)


def set_paused(plan_ids: Iterable[UUID], paused: bool, *, reason: str, stamp: Stamp) -> list[Plan]:
    state = PlanState.ACTIVE if paused else PlanState.PAUSED
    changed = list(Plan.objects.lock(plan_ids).in_state(state))
    for plan in changed:
        before = plan.state
        update_columns(plan, paused_at=stamp.at if paused else None, now=stamp.at)
        record_event(
            plan,
            Kind.PLAN_PAUSED if paused else Kind.PLAN_RESUMED,
            stamp=stamp,
            from_state=before,
            to_state=plan.state,
            data=noted(reason, name="reason"),
        )
    return changed


def update_columns(plan: Plan, *, now: datetime, **columns: Any) -> None:
    columns |= {"version": plan.version + 1, "updated_at": now}
    Plan.objects.filter(pk=plan.pk).update(**columns)
    for name, value in columns.items():
        setattr(plan, name, value)


def record_event(
    plan: Plan,
    kind: Kind,
    *,
    stamp: Stamp,
    from_state: str | None = None,
    to_state: str | None = None,
    data: dict[str, Any] | None = None,
) -> None:
    data = {"ref": plan.ref, "run": plan.run} | (data or {})
    journal.record_about(
        "plan", plan, kind, stamp=stamp, from_state=from_state, to_state=to_state, data=data
    )


@transaction.atomic
def change(
    plan_id: UUID,
    *,
    title: str | None = None,
    evidence: str | None = None,
    not_before: datetime | None = None,
    exclusive_files: bool | None = None,
    version: int,
    stamp: Stamp,
) -> Plan:
    """Change a plan's title, required evidence, start time, or file exclusion.

    Raises VersionMismatch if it is no longer at `version`.
    """
    plan = Plan.objects.lock([plan_id]).first()
    if plan is None:
        raise NotFound(f"Plan {plan_id} does not exist.")
    if plan.version != version:
        raise VersionMismatch(
            f"You read version {version}; the current version is {plan.version}.",
            current=plan.version,
        )
    if len(title or "") > TITLE_LENGTH:
        raise Invalid("/title", f"A title must have at most {TITLE_LENGTH} characters.")
    check_not_before(not_before, "/not_before")
    asked = {
        "title": None if title is None else clean_title(title),
        "evidence": evidence,
        "not_before": not_before,
        "exclusive_files": exclusive_files,
    }
    columns = {name: value for name, value in asked.items() if value is not None}
    if not columns:
        return plan
    own = {} if exclusive_files is None else {"own_exclusive_files": exclusive_files}
    update_columns(plan, **columns, **own, now=stamp.at)
    if exclusive_files is not None:
        mark_tasks(plan.pk, exclusive=exclusive_files)
    record_event(plan, Kind.PLAN_UPDATED, stamp=stamp, data={"changed": list(columns)})
    return plan


def note_agreement(plan: Plan, *, now: datetime) -> None:
    # The plan does not change when its file and the ledger agree, so its version stays.
    Plan.objects.filter(pk=plan.pk).update(file_agreed_at=now)
    plan.file_agreed_at = now


# ---- proposed commands

PROPOSED = "'{verify,proposed_command}'"
CONFIRM = f"""with {TrustedCaller.cte}, confirmed as (
    update ledger_task t set payload = jsonb_set(t.payload #- {PROPOSED}, '{{verify}}',
            (t.payload -> 'verify') - 'proposed_command' || jsonb_build_object(
                'command', t.payload #> {PROPOSED}, 'source', 'confirmed')),
        version = t.version + 1, updated_at = %(now)s
    where t.id = any(%(ids)s) and t.state not in ({moves.FINAL_STATES})
        and jsonb_typeof(t.payload #> {PROPOSED}) = 'string'
    returning t.id, t.project_id, t.agent_id, t.payload #>> '{{verify,command}}' as command
), events as ({
    journal.insert_without_states(
        "confirmed",
        kind=f"'{Kind.TASK_CHANGED}'",
        subject="task",
        data="jsonb_build_object('changed', jsonb_build_array('payload'), "
        "'confirmed_command', m.command)",
    )
}) select id from confirmed order by id"""


def confirm_commands(task_ids: Iterable[UUID], *, stamp: Stamp) -> list[UUID]:
    """Confirm the commands found in these tasks' prose; return the ids of the changed tasks."""
    # Only a person may do this, because agents run confirmed commands.
    caller = TrustedCaller(stamp.actor, request_id=stamp.request_id)
    rows = sql.run(CONFIRM, ids=list(task_ids), now=stamp.at, **caller.params)
    return [row["id"] for row in rows]


@transaction.atomic
def confirm_commands_by_ref(plan: Plan, commands: Mapping[str, str], *, stamp: Stamp) -> list[UUID]:
    """Confirm a plan's commands by task ref, each as it was displayed: all of them or none.

    Raises Invalid if a command has changed since. Commands that are already confirmed stay so.
    """
    rows = Task.objects.current().filter(plan=plan, ref__in=commands).order_by("pk")
    by_ref = {row.ref: row for row in rows.select_for_update()}
    for ref, command in commands.items():
        if problem := refuse_command(by_ref.get(ref), command):
            raise Invalid(f"/commands/{ref.replace('~', '~0').replace('/', '~1')}", problem)
    ids = [row.pk for row in by_ref.values()]
    return confirm_commands(ids, stamp=stamp)


def refuse_command(task: Task | None, command: str) -> str:
    """Return why this command can't be confirmed, or "" if it can be or already is."""
    if task is None:
        return "The plan has no task with this ref."
    if task.state in FINAL:
        return f"The task is {task.state}; it will not run again."
    verify = get_verify(task.payload)
    if verify.get("source") == "confirmed" and verify.get("command") == command:
        return ""
    proposed = verify.get("proposed_command")
    if not isinstance(proposed, str):
        return "The task has no proposed command."
    return "" if proposed == command else f"The proposed command is different: {proposed}"


def get_verify(payload: Any) -> Mapping[str, Any]:
    verify = payload.get("verify") if isinstance(payload, Mapping) else None
    return verify if isinstance(verify, Mapping) else {}
