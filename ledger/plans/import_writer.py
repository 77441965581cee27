"""Plans imported: made, or brought up to date with their file; all of it or nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from ledger import agents, journal, moves, needs, sql, tasks
from ledger.errors import Invalid, InvalidTransition, Refusal
from ledger.journal import SYSTEM, Actor, Kind
from ledger.models import Agent, MissingNeed, Need, Plan, PlanState, Project, Task
from ledger.planfile import PlanFile, PlanTask
from ledger.planfile.model import (
    MOST_EDGES,
    DependencyCycle,
    UnknownNeed,
    cycle_detail,
    find_cycle,
    refusal_at,
)
from ledger.plans.editing import rows_of, tell
from ledger.redaction import redacted, titled
from ledger.sql import Row
from ledger.states import FINAL, BlockedReason, TaskState
from ledger.tasks import Backoff, Spec
from ledger.tokens import TrustedCaller

CREATE, MERGE, REPLACE = "create", "merge", "replace"
MODES = (CREATE, MERGE, REPLACE)


class PlanChanged(Refusal):
    """The plan is there already, with another content"""

    code = "plan_changed"
    hint = "Import it with mode 'merge' or 'replace'; a dry run says what that would change."


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What an import does to each task, by ref; `changed` names what is new of it."""

    added: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    same: list[str] = field(default_factory=list)
    # would be changed or aborted, but have begun or are over
    untouched: list[str] = field(default_factory=list)
    # not in the file
    left: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = {name: len(refs) for name, refs in asdict(self).items() if refs}
        return ", ".join(f"{count} {name}" for name, count in counts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A plan and its current tasks (rows of `rows_of`), and what the import did.

    After a dry run they are what they would be: nothing of it is kept.
    """

    plan: Plan
    tasks: list[Row]
    diff: Diff
    warnings: list[str] = field(default_factory=list)
    unchanged: bool = False


# ---- imported


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """What an import may do; `warnings` are those that reading the file has given."""

    mode: str = CREATE
    dry_run: bool = False
    register: bool = False
    allow_missing_needs: bool = False
    warnings: Sequence[str] = ()


CREATED = How()


@transaction.atomic
def import_plan(
    project: Project,
    planfile: PlanFile,
    *,
    how: How = CREATED,
    actor: Actor = SYSTEM,
    now: datetime | None = None,
    request_id: str = "",
) -> Imported:
    """Make a plan with its tasks, or bring the one of its ref up to date; all of it or nothing.

    The same plan again changes nothing. Another one of the same ref raises PlanChanged, but for
    the modes: `merge` adds what is new and updates what nobody has begun, `replace` also aborts
    what the file no longer has and what neither runs nor is over. Raises UnknownAgent unless
    `register`, UnknownNeed unless `allow_missing_needs`, DependencyCycle, and InvalidTransition
    for an aborted plan. A `dry_run` is undone, to where the transaction around it stood.
    """
    if how.mode not in MODES:
        raise Invalid("/mode", f"mode is one of: {', '.join(MODES)}.")
    # one import at a time, so that two can't need each other in a circle
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    work = Import(
        project=project,
        file=planfile,
        how=how,
        actor=actor,
        now=now or timezone.now(),
        request_id=request_id,
        warnings=[*how.warnings],
    )
    done = work.run()
    if how.dry_run:
        transaction.set_rollback(True)
    return done


@dataclass(kw_only=True)
class Import:
    """One import under way, in its transaction."""

    project: Project
    file: PlanFile
    how: How
    actor: Actor
    now: datetime
    request_id: str
    agents: dict[str, Agent] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    # tasks that others have come to wait for, or wait for no more
    rewired: set[UUID] = field(default_factory=set)

    def run(self) -> Imported:
        plans = Plan.objects.select_for_update(no_key=True)
        found = plans.filter(project=self.project, ref=self.file.ref)
        plan = found.first()
        refs = [task.ref for task in self.file.tasks]
        if plan and plan.content_hash == self.file.content_hash:
            return Imported(
                plan=plan,
                tasks=rows_of(plan),
                diff=Diff(same=refs),
                warnings=self.warnings,
                unchanged=True,
            )
        if plan is None:
            self.agents = self.agents_known()
            plan, diff = self.plan_made(), Diff(added=refs)
            self.write(plan, {}, diff)
        else:
            of_plan = Task.objects.filter(plan=plan).order_by("pk")
            list(of_plan.select_for_update(no_key=True).values_list("pk"))  # none begins meanwhile
            rows = {row["ref"]: row for row in rows_of(plan)}
            diff = self.diff(plan, rows)
            self.check_mode(plan, diff)
            self.agents = self.agents_known()
            self.write(plan, rows, diff)
            self.plan_updated(plan, diff)
        self.check_circles(plan)
        return Imported(plan=plan, tasks=rows_of(plan), diff=diff, warnings=self.warnings)

    def check_mode(self, plan: Plan, diff: Diff) -> None:
        if self.how.mode == CREATE:
            raise PlanChanged(
                f"Plan {plan.ref} is there with another content: {diff}.", diff=asdict(diff)
            )
        if plan.state == PlanState.ABORTED:
            raise InvalidTransition(
                f"Plan {plan.ref} is aborted. Restart it, then import the new one.",
                current=plan.state,
                allowed=[],
            )

    def diff(self, plan: Plan, rows: Mapping[str, Row]) -> Diff:
        before = {task["ref"]: task for task in plan.source["tasks"]}
        begins = set(before_begin(plan.source)) ^ {task.ref for task in self.file.first_tasks}
        needs_moved = list(plan.source["needs"]) != list(self.file.needs)
        diff = Diff()
        for task in self.file.tasks:
            row = rows.get(task.ref)
            if row is None:
                diff.added.append(task.ref)
                continue
            old, new = before.get(task.ref, {}), redacted(as_json(task))
            fields = [name for name, value in new.items() if old.get(name) != value]
            first = task in self.file.first_tasks
            if (task.ref in begins or (needs_moved and first)) and "needs" not in fields:
                fields.append("needs")
            if not fields:
                diff.same.append(task.ref)
            elif not_begun(row):
                diff.changed[task.ref] = fields
            else:
                diff.untouched.append(task.ref)
        kept = {task.ref for task in self.file.tasks}
        for ref, row in rows.items():
            if ref not in kept:
                gone = self.how.mode == REPLACE and may_go(row)
                (diff.aborted if gone else diff.left).append(ref)
        return diff

    def agents_known(self) -> dict[str, Agent]:
        """The agents that the tasks are for, by name."""
        wanted: dict[str, list[int]] = {}
        for n, task in enumerate(self.file.tasks):
            wanted.setdefault(task.agent, []).append(n)
        found = Agent.objects.filter(project=self.project, name__in=wanted)
        known = {agent.name: agent for agent in found}
        for name, places in wanted.items():
            pointers = [f"/tasks/{n}/agent" for n in places]
            agents.check_name(name, pointer=pointers[0])
            if name in known:
                continue
            if not self.how.register:
                raise unknown_agent(name, pointers, project=self.project)
            known[name] = agents.register(
                name,
                project=self.project,
                actor=self.actor,
                now=self.now,
                request_id=self.request_id,
            )
        return known

    def plan_made(self) -> Plan:
        plan: Plan = Plan.objects.create(
            project=self.project,
            ref=self.file.ref,
            created_by_type=self.actor.type,
            created_by_name=self.actor.name,
            created_at=self.now,
            updated_at=self.now,
            **self.columns,
        )
        plan.refresh_from_db()
        tell(
            plan,
            Kind.PLAN_IMPORTED,
            actor=self.actor,
            now=self.now,
            to_state=PlanState.ACTIVE,
            data={"tasks": len(self.file.tasks)},
            request_id=self.request_id,
        )
        return plan

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "title": titled(redacted(self.file.title)),
            "objective": titled(redacted(self.file.objective)),
            "source": redacted(as_json(self.file)),
            "content_hash": self.file.content_hash,
        }

    def plan_updated(self, plan: Plan, diff: Diff) -> None:
        before = plan.state
        completed_at = None if diff.added else plan.completed_at
        columns = self.columns
        stand = {
            task["ref"]: task for task in plan.source["tasks"] if task["ref"] in diff.untouched
        }
        source = columns["source"]
        # what was not touched is not what the file says: the next import must see that
        source["tasks"] = [stand.get(task["ref"], task) for task in source["tasks"]]
        Plan.objects.filter(pk=plan.pk).update(
            version=plan.version + 1, updated_at=self.now, completed_at=completed_at, **columns
        )
        plan.refresh_from_db()
        tell(
            plan,
            Kind.PLAN_UPDATED,
            actor=self.actor,
            now=self.now,
            from_state=before,
            to_state=plan.state,
            data={name: len(refs) for name, refs in asdict(diff).items() if refs},
            request_id=self.request_id,
        )

    # ---- its tasks

    def write(self, plan: Plan, rows: Mapping[str, Row], diff: Diff) -> None:
        """Add, change and abort tasks as the diff says."""
        places = {ref: n for n, ref in enumerate(diff.added)}
        file = {task.ref: n for n, task in enumerate(self.file.tasks)}
        needs = self.needs(rows, places)
        specs = []
        for ref in diff.added:
            task, found = self.file.tasks[file[ref]], needs[ref]
            spec = spec_of(
                task,
                plan_id=plan.pk,
                run=plan.run,
                needs=found.ids,
                after=found.places,
                missing=len(found.missing),
            )
            specs.append((self.agents[task.agent], spec))
        made = tasks.enqueue_many(
            specs,
            actor=self.actor,
            now=self.now,
            request_id=self.request_id,
            places=[f"/tasks/{file[ref]}" for ref in diff.added],
        )
        ids = {row["ref"]: row["id"] for row in made} | {
            ref: row["id"] for ref, row in rows.items()
        }
        self.note_missing({ids[ref]: needs[ref].missing for ref in diff.added})
        for ref, fields in diff.changed.items():
            self.change(ids[ref], self.file.tasks[file[ref]], at=f"/tasks/{file[ref]}")
            if "needs" in fields:
                self.rewire(ids[ref], needs[ref], [ids[diff.added[n]] for n in needs[ref].places])
        recount([ids[ref] for ref in diff.changed], self)
        if diff.aborted:
            tasks.abort(
                [ids[ref] for ref in diff.aborted],
                actor=self.actor,
                now=self.now,
                request_id=self.request_id,
            )
        self.arrived(plan, {ref: ids[ref] for ref in diff.added})

    def needs(self, rows: Mapping[str, Row], places: Mapping[str, int]) -> dict[str, "Needs"]:
        """What each task of the file waits for: rows, places among the new ones, and what is
        missing."""
        firsts = {task.ref for task in self.file.first_tasks}
        outside = {need for need in self.file.needs} | {
            need
            for task in self.file.tasks
            for need in task.needs
            if not need.startswith(f"{self.file.ref}:")
        }
        known = elsewhere(outside, project=self.project)
        found, edges = {}, 0
        for n, task in enumerate(self.file.tasks):
            ids: list[UUID] = []
            missing: list[str] = []
            wanted = [*(self.file.needs if task.ref in firsts else ()), *task.needs]
            for need in dict.fromkeys(wanted):
                if need in rows:
                    ids.append(rows[need]["id"])
                elif need in known:
                    ids += known[need]
                elif need not in places:
                    missing.append(need)
            edges += len(ids)
            if edges > MOST_EDGES:
                raise Invalid(
                    f"/tasks/{n}/needs",
                    f"With the tasks of the plans that it needs this plan has more than "
                    f"{MOST_EDGES} needs.",
                )
            found[task.ref] = Needs(
                ids=list(dict.fromkeys(ids)),
                places=[places[need] for need in task.needs if need in places],
                missing=missing,
            )
        self.refuse_missing(known)
        return found

    def refuse_missing(self, known: Mapping[str, list[UUID]]) -> None:
        asked = [("", self.file.needs)]
        asked += [(f"/tasks/{n}", task.needs) for n, task in enumerate(self.file.tasks)]
        missing = {
            f"{at}/needs/{n}": need
            for at, needs in asked
            for n, need in enumerate(needs)
            if need not in known and not need.startswith(f"{self.file.ref}:")
        }
        if missing and not self.how.allow_missing_needs:
            first = next(iter(missing.values()))
            raise refusal_at(
                UnknownNeed,
                f"There is no {first} in this project.",
                *missing,
                hint="Import what is needed first, or allow_missing_needs to wait for it.",
            )
        for need in dict.fromkeys(missing.values()):
            self.warnings.append(f"{need} is not imported yet: what needs it waits for that.")

    def note_missing(self, missing: Mapping[UUID, Sequence[str]]) -> None:
        MissingNeed.objects.bulk_create(
            MissingNeed(project=self.project, task_id=id, ref=ref)
            for id, refs in missing.items()
            for ref in refs
        )

    def change(self, id: UUID, task: PlanTask, *, at: str) -> None:
        """Write what the file says now into a row that nobody has begun."""
        row = tasks.written(self.agents[task.agent], spec_of(task), at=at)
        names = ("title", "type", "priority", "payload", "redactions", "max_attempts")
        more = ("on_exhausted", "lease_s", "timeout_s", "idempotent", "non_retryable")
        Task.objects.filter(pk=id).update(
            agent=self.agents[task.agent],
            attempt_limit=row["max_attempts"],
            **{name: row[name] for name in (*names, *more, *tasks.BACKOFF)},
        )
        journal.record(
            Kind.TASK_CHANGED,
            subject_type="task",
            subject_id=id,
            project_id=self.project.pk,
            agent_id=self.agents[task.agent].pk,
            actor=self.actor,
            now=self.now,
            data={"changed": ["plan"]},
            request_id=self.request_id,
        )

    def rewire(self, id: UUID, needs: "Needs", more: Sequence[UUID]) -> None:
        before = Need.objects.filter(task_id=id)
        self.rewired |= set(before.values_list("need_id", flat=True))
        before.delete()
        MissingNeed.objects.filter(task_id=id).delete()
        wanted = [*needs.ids, *more]
        Need.objects.bulk_create(Need(task_id=id, need_id=need) for need in wanted)
        self.rewired |= set(wanted)
        self.note_missing({id: needs.missing})

    def arrived(self, plan: Plan, added: Mapping[str, UUID]) -> None:
        """Let wait for the tasks themselves what has waited for this plan to come."""
        waiting = MissingNeed.objects.filter(
            project=self.project, ref__in=[plan.ref, *added]
        ).order_by("task_id")
        found = list(waiting)
        if not found:
            return
        known = elsewhere({each.ref for each in found}, project=self.project)
        met = {(each.task_id, need) for each in found for need in known.get(each.ref, ())}
        waiting.filter(ref__in=list(known)).delete()
        Need.objects.bulk_create(
            (Need(task_id=task, need_id=need) for task, need in sorted(met)), ignore_conflicts=True
        )
        self.rewired |= {need for _, need in met}
        recount(sorted({each.task_id for each in found}), self)

    def check_circles(self, plan: Plan) -> None:
        """Refuse needs that go through other plans and come back."""
        rows = sql.run(UPSTREAM, plan=plan.pk)
        names = {row["task_id"]: row["task"] for row in rows}
        names |= {row["need_id"]: row["need"] for row in rows}
        edges = [(str(row["task_id"]), str(row["need_id"])) for row in rows]
        if cycle := find_cycle(edges):
            refs = [names[UUID(id)] for id in cycle]
            raise refusal_at(DependencyCycle, cycle_detail(refs), "/tasks", cycle=refs)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a task waits for: rows, places among the new ones, refs that nobody has imported."""

    ids: list[UUID]
    places: list[int]
    missing: list[str]


UPSTREAM = """with recursive up as (
    select d.task_id, d.need_id from ledger_need d join ledger_task t on t.id = d.task_id
    where t.plan_id = %(plan)s
    union
    select d.task_id, d.need_id from up join ledger_need d on d.task_id = up.need_id
) select up.*, coalesce(t.ref, t.id::text) as task, coalesce(n.ref, n.id::text) as need
from up join ledger_task t on t.id = up.task_id join ledger_task n on n.id = up.need_id"""

RECOUNT = f"""with {TrustedCaller.cte}, moved as ({moves.needs_counted()}), told as ({
    journal.insert(
        "moved",
        kind=f"case m.state when '{TaskState.BLOCKED}' then '{Kind.TASK_BLOCKED}' "
        f"when '{TaskState.ESCALATED}' then '{Kind.TASK_ESCALATED}' "
        f"else '{Kind.TASK_UNBLOCKED}' end",
        subject="task",
        data="jsonb_build_object('reason', 'needs_changed')",
    )
    + " where m.state <> m.from_state"
}) select id from moved"""


def recount(ids: Sequence[UUID], work: Import) -> None:
    """Count anew what these tasks need, and move those that now wait, or wait no more."""
    if not ids:
        return
    needed = Need.objects.filter(task__in=ids).values_list("need_id", flat=True)
    needs.count_dependents({*needed, *work.rewired})
    known = TrustedCaller(work.actor, project_id=work.project.pk, request_id=work.request_id)
    sql.run(RECOUNT, ids=list(ids), now=work.now, **known.params)


def spec_of(task: PlanTask, **more: Any) -> Spec:
    return Spec(
        type=task.type,
        payload=task.payload,
        title=task.title,
        priority=task.priority,
        max_attempts=task.max_attempts,
        on_exhausted=task.on_exhausted,
        backoff=Backoff(**task.backoff),
        lease_s=task.lease_s,
        timeout_s=task.timeout_s,
        idempotent=task.idempotent,
        non_retryable=task.non_retryable,
        ref=task.ref,
        **more,
    )


def as_json(value: PlanFile | PlanTask) -> dict[str, Any]:
    """As it is kept: lists where the dataclass has tuples."""
    return {name: listed(each) for name, each in asdict(value).items()}


def listed(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [listed(each) for each in value]
    if isinstance(value, dict):
        return {name: listed(each) for name, each in value.items()}
    return value


def before_begin(source: Mapping[str, Any]) -> list[str]:
    """The refs of a kept plan's tasks that need no other one of it."""
    own = {task["ref"] for task in source["tasks"]}
    return [task["ref"] for task in source["tasks"] if own.isdisjoint(task["needs"])]


def not_begun(row: Row) -> bool:
    """Whether an import may still change it."""
    waits = row["state"] == TaskState.QUEUED or (
        row["state"] == TaskState.BLOCKED and row["blocked_reason"] != BlockedReason.REPORTED
    )
    return waits and not row["attempts"]


def may_go(row: Row) -> bool:
    """Whether an import may abort it: not what runs, is over, or a person is asked about."""
    asked = row["state"] == TaskState.ESCALATED or row["blocked_reason"] == BlockedReason.REPORTED
    return row["state"] not in (TaskState.RUNNING, *FINAL) and not asked


def unknown_agent(name: str, pointers: Sequence[str], *, project: Project) -> Refusal:
    """The refusal for an agent that nobody made known, with its places in the file."""
    near = agents.nearest(name, project=project)
    known = f" Nearest: {', '.join(near)}." if near else ""
    detail = f"No agent is called '{name}' in project '{project.name}'.{known}"
    return agents.UnknownAgent(
        detail,
        hint="Use one of the nearest names, or import with 'register' to make the agent known.",
        nearest=near,
        errors=[{"pointer": pointer, "detail": detail} for pointer in pointers],
    )


def elsewhere(refs: Iterable[str], *, project: Project) -> dict[str, list[UUID]]:
    """The current tasks that refs stand for: one of a task, all last ones of a plan.

    The last ones of a plan are those that no other of its tasks needs.
    """
    asked = list(refs)
    found: dict[str, list[UUID]] = {}
    if not asked:
        return found
    for row in sql.run(STANDS_FOR, refs=asked, project=project.pk):
        found.setdefault(row["ref"], []).append(row["id"])
    return found


STANDS_FOR = """select t.ref, t.id from ledger_task t
where t.project_id = %(project)s and t.ref = any(%(refs)s) and t.replaced_by_id is null
union all
select p.ref, t.id from ledger_plan p join ledger_task t on t.plan_id = p.id
where p.project_id = %(project)s and p.ref = any(%(refs)s) and t.replaced_by_id is null
    and not exists (select from ledger_need d join ledger_task n on n.id = d.task_id
        where d.need_id = t.id and n.plan_id = p.id and n.replaced_by_id is null)
order by 2"""
