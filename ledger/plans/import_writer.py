"""Import plans: create one, or update it from its file, completely or not at all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from ledger import agents, journal, tasks
from ledger.database import sql
from ledger.database.sql import Row
from ledger.errors import Invalid, InvalidTransition, Refusal
from ledger.journal import Kind, Stamp
from ledger.models import Agent, MissingNeed, Need, Plan, PlanState, Project, Task
from ledger.planfile import PlanFile, PlanTask
from ledger.plans.alignment import Match, align
from ledger.plans.editing import list_tasks, record_event
from ledger.plans.identity import PlanAmbiguous
from ledger.plans.import_diff import (
    CREATE,
    DEFAULT_OPTIONS,
    MODES,
    Diff,
    ImportOptions,
    ImportResult,
    PlanChanged,
    becomes_checkpoint,
    can_abort,
    can_change,
    compare,
    keep_untouched,
    source_of,
)
from ledger.plans.import_needs import (
    Needs,
    add_missing_needs,
    check_missing,
    find_tasks,
    hold_checkpoints,
    recount,
    refuse_cycles,
    resolve_needs,
)
from ledger.plans.provenance import describe_lines, name_lines, rename_again, store_lines
from ledger.secrets.notes import clean_title
from ledger.secrets.redaction import redacted
from ledger.states import FileScope, TaskState
from ledger.tasks.enqueuing import prepare_columns
from ledger.tasks.exclusive_files import mark_tasks
from ledger.tasks.spec import BACKOFF, Backoff, Spec, check_not_before, spec_of
from ledger.tokens import TrustedCaller

# No lock that excludes changes of the project's row: a report that holds a task or a budget that
# this import waits for can mark the project's budget as used up there. The row is only kept.
LOCK = """select pg_advisory_xact_lock(hashtext('tenfour.imports'), hashtext(id::text))
from ledger_project where id = %(project)s for key share"""


@transaction.atomic
def import_plan(
    project: Project, planfile: PlanFile, *, options: ImportOptions = DEFAULT_OPTIONS, stamp: Stamp
) -> ImportResult:
    """Create a plan with its tasks, or update the plan that has its ref.

    An identical plan changes nothing. A different plan with the same ref raises PlanChanged unless
    a mode allows it: `merge` adds new tasks and updates those that have not started, and `replace`
    also aborts tasks that are no longer in the file and are neither running nor over. Raises
    UnknownAgent unless `register`, UnknownNeed unless `allow_missing_needs`, DependencyCycle, and
    InvalidTransition for an aborted plan. A `dry_run` is rolled back to the start of the enclosing
    transaction.
    """
    if options.mode not in MODES:
        raise Invalid("/mode", f"mode must be one of: {', '.join(MODES)}.")
    # One import at a time per project, so that two plans can't end up needing each other.
    sql.run(LOCK, project=project.pk)
    result = PlanImport(
        project=project, file=planfile, options=options, stamp=stamp, warnings=[*options.warnings]
    ).run()
    if options.dry_run:
        transaction.set_rollback(True)
    return result


@dataclass(kw_only=True)
class PlanImport:
    """An import in progress, inside its transaction."""

    project: Project
    file: PlanFile
    options: ImportOptions
    stamp: Stamp
    agents: dict[str, Agent] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)
    refs: dict[str, str] = field(default_factory=dict)
    ticked: list[UUID] = field(default_factory=list)
    content_hash: str = ""
    has_new_budget: bool = False
    # Tasks that gained or lost a dependent.
    rewired: set[UUID] = field(default_factory=set)

    def run(self) -> ImportResult:
        plans = Plan.objects.select_for_update(no_key=True)
        plan = plans.filter(project=self.project, ref=self.file.ref).first()
        self.content_hash = self.file.content_hash
        known = plan.source.get("budget") if plan else None
        self.has_new_budget = self.file.budget not in (None, known)
        if plan and plan.content_hash == self.content_hash:
            same = [task["ref"] for task in plan.source["tasks"]]
            self.file = rename_again(self.file, plan, {row["ref"]: row for row in list_tasks(plan)})
            store_lines(plan, self.file)
            return self.result(plan, Diff(same=same), unchanged=True)
        if plan is None:
            self.check_tasks()
            self.agents = self.find_agents()
            plan, diff = self.create_plan(), Diff(added=[task.ref for task in self.file.tasks])
            self.write_tasks(plan, {}, diff)
        else:
            rows = self.lock_tasks(plan)
            self.check_state(plan)
            self.align(plan, rows)
            diff = compare(self.file, source=plan.source, rows=rows, mode=self.options.mode)
            if self.options.mode == CREATE:
                raise plan_changed(plan, f"{diff}.", diff=asdict(diff))
            self.agents = self.find_agents()
            self.read_ticks(rows)
            self.write_tasks(plan, rows, diff)
            self.update_plan(plan, diff, known=rows)
        refuse_cycles(plan.pk)
        return self.result(plan, diff)

    def result(self, plan: Plan, diff: Diff, *, unchanged: bool = False) -> ImportResult:
        return ImportResult(
            plan=plan,
            file=self.file,
            tasks=list_tasks(plan),
            diff=diff,
            warnings=self.warnings,
            matches=self.matches,
            ticked=self.ticked,
            unchanged=unchanged,
            has_new_budget=self.has_new_budget,
            lines=self.file.lines,
        )

    def check_tasks(self) -> None:
        if not self.file.tasks:
            raise Invalid("/tasks", f"The file marks all its {len(self.file.done)} tasks as done.")

    def align(self, plan: Plan, rows: Mapping[str, Row]) -> None:
        started = {ref for ref, row in rows.items() if not can_change(row)}
        try:
            found = align(
                self.file, rows=rows, source=plan.source, started=started, pairs=self.options.pairs
            )
        except PlanAmbiguous as unclear:
            if self.options.mode == CREATE:
                raise plan_changed(plan, unclear.detail, diff=asdict(Diff())) from unclear
            raise
        self.file, self.matches, self.refs = found.file, found.matches, found.refs

    def read_ticks(self, rows: Mapping[str, Row]) -> None:
        for task in self.file.done:
            row = rows.get(task.ref)
            if row is None or row["state"] in (TaskState.DONE, TaskState.SKIPPED):
                continue
            if can_abort(row):
                self.ticked.append(row["id"])
            else:
                state = row["state"]
                self.warnings.append(
                    f"The file marks {task.ref} as done, but it is {state} here and stays so."
                )

    def lock_tasks(self, plan: Plan) -> dict[str, Row]:
        # The lock keeps tasks from starting meanwhile.
        of_plan = Task.objects.filter(plan=plan).order_by("pk")
        list(of_plan.select_for_update(no_key=True).values_list("pk"))
        return {row["ref"]: row for row in list_tasks(plan)}

    def check_state(self, plan: Plan) -> None:
        if self.options.mode != CREATE and plan.state == PlanState.ABORTED:
            raise InvalidTransition(
                f"Plan {plan.ref} is aborted. Restart it, then import the new version.",
                current=plan.state,
                allowed=[],
            )

    def find_agents(self) -> dict[str, Agent]:
        wanted: dict[str, list[int]] = {}
        for n, task in enumerate(self.file.tasks):
            wanted.setdefault(task.agent, []).append(n)
        rows = Agent.objects.filter(project=self.project, name__in=wanted)
        known = {agent.name: agent for agent in rows}
        for name, places in wanted.items():
            if name in known:
                agents.check_open(known[name])
            pointers = [f"/tasks/{n}/agent" for n in places]
            agents.check_name(name, pointer=pointers[0])
            if name in known:
                continue
            if not self.options.register:
                raise unknown_agent(name, pointers, project=self.project)
            known[name] = agents.register(
                name, project=self.project, stamp=self.stamp, pointer=pointers[0]
            )
        return known

    # ---- the plan

    @property
    def columns(self) -> dict[str, Any]:
        # What the file does not say stays as it is.
        timing = {
            "not_before": self.file.not_before,
            "exclusive_files": self.file.exclusive_files,
            "own_exclusive_files": self.file.exclusive_files,
        }
        check_not_before(self.file.not_before, "/not_before")
        return {
            "title": clean_title(self.file.title),
            "objective": clean_title(self.file.objective),
            "source": redacted(source_of(self.file) | describe_lines(self.file, self.refs)),
            "content_hash": self.content_hash,
            **{name: value for name, value in timing.items() if value is not None},
        }

    def create_plan(self) -> Plan:
        as_project = {"exclusive_files": self.project.exclusive_files != FileScope.OFF}
        plan: Plan = Plan.objects.create(
            project=self.project,
            ref=self.file.ref,
            created_by_type=self.stamp.actor.type,
            created_by_name=self.stamp.actor.name,
            created_at=self.stamp.at,
            updated_at=self.stamp.at,
            **as_project | self.columns,
        )
        plan.refresh_from_db()
        record_event(
            plan,
            Kind.PLAN_IMPORTED,
            stamp=self.stamp,
            to_state=PlanState.ACTIVE,
            data={"tasks": len(self.file.tasks)} | name_lines(self.file, Diff()),
        )
        return plan

    def update_plan(self, plan: Plan, diff: Diff, *, known: Collection[str]) -> None:
        before = plan.state
        completed_at = None if diff.added else plan.completed_at
        columns = self.columns
        keep_untouched(columns["source"], before=plan.source, diff=diff)
        Plan.objects.filter(pk=plan.pk).update(
            version=plan.version + 1, updated_at=self.stamp.at, completed_at=completed_at, **columns
        )
        if self.file.exclusive_files is not None:
            mark_tasks(plan.pk, exclusive=self.file.exclusive_files)
        plan.refresh_from_db()
        record_event(
            plan,
            Kind.PLAN_UPDATED,
            stamp=self.stamp,
            from_state=before,
            to_state=plan.state,
            data={name: len(refs) for name, refs in asdict(diff).items() if refs}
            | name_lines(self.file, diff, known=known),
        )

    # ---- its tasks

    def write_tasks(self, plan: Plan, rows: Mapping[str, Row], diff: Diff) -> None:
        places = {task.ref: n for n, task in enumerate(self.file.tasks)}
        needs = self.resolve_needs(rows, diff)
        ids = {ref: row["id"] for ref, row in rows.items()}
        ids |= self.add_tasks(plan, diff.added, places, needs)
        for ref, fields in diff.changed.items():
            task, at = self.file.tasks[places[ref]], f"/tasks/{places[ref]}"
            self.update_task(ids[ref], task, at=at, is_timed="not_before" in fields)
            if "needs" in fields:
                added = [ids[diff.added[n]] for n in needs[ref].places]
                self.replace_needs(ids[ref], needs[ref], added)
        asking = [
            ids[ref]
            for ref in diff.changed
            if becomes_checkpoint(rows[ref], self.file.tasks[places[ref]])
        ]
        hold_checkpoints(asking, caller=self.caller, now=self.stamp.at)
        self.recount([ids[ref] for ref in diff.changed])
        if diff.aborted:
            tasks.abort([ids[ref] for ref in diff.aborted], stamp=self.stamp)
        self.resolve_placeholders(plan, diff.added)

    def resolve_needs(self, rows: Mapping[str, Row], diff: Diff) -> dict[str, Needs]:
        needs = resolve_needs(
            self.file,
            project=self.project,
            rows=rows,
            places={ref: n for n, ref in enumerate(diff.added)},
        )
        missing = {ref for each in needs.values() for ref in each.missing}
        allow = self.options.allow_missing_needs
        self.warnings += check_missing(self.file, missing, allow=allow)
        return needs

    def add_tasks(
        self, plan: Plan, refs: Sequence[str], places: Mapping[str, int], needs: Mapping[str, Needs]
    ) -> dict[str, UUID]:
        specs = []
        for ref in refs:
            task = self.file.tasks[places[ref]]
            spec = plan_spec(
                task,
                plan_id=plan.pk,
                run=plan.run,
                needs=needs[ref].ids,
                after=needs[ref].places,
                missing=len(needs[ref].missing),
            )
            specs.append((self.agents[task.agent], spec))
        inserted = tasks.enqueue_many(
            specs, stamp=self.stamp, pointers=[f"/tasks/{places[ref]}" for ref in refs]
        )
        ids = {row["ref"]: row["id"] for row in inserted}
        add_missing_needs(self.project, {ids[ref]: needs[ref].missing for ref in refs})
        return ids

    def update_task(self, id: UUID, task: PlanTask, *, at: str, is_timed: bool) -> None:
        row = prepare_columns(self.agents[task.agent], plan_spec(task), pointer=at)
        names = ("title", "type", "priority", "payload", "redactions", "max_attempts")
        more = ("on_exhausted", "evidence", "lease_s", "timeout_s", "idempotent", "non_retryable")
        sent_to = ("pool_id", "retry_on")
        # A time that a person has set stays, unless the file's own changes.
        timing = ("not_before",) if is_timed else ()
        Task.objects.filter(pk=id).update(
            agent=self.agents[task.agent],
            attempt_limit=row["max_attempts"],
            **{name: row[name] for name in (*names, *more, *sent_to, *timing, *BACKOFF)},
        )
        journal.record(
            Kind.TASK_CHANGED,
            subject_type="task",
            subject_id=id,
            project_id=self.project.pk,
            agent_id=self.agents[task.agent].pk,
            stamp=self.stamp,
            data={"changed": ["plan"]},
        )

    def replace_needs(self, id: UUID, needs: Needs, added: Sequence[UUID]) -> None:
        """Replace a task's needs; `added` are the needed tasks that this import has inserted."""
        before = Need.objects.filter(task_id=id)
        self.rewired |= set(before.values_list("need_id", flat=True))
        before.delete()
        MissingNeed.objects.filter(task_id=id).delete()
        wanted = [*needs.ids, *added]
        Need.objects.bulk_create(Need(task_id=id, need_id=need) for need in wanted)
        self.rewired |= set(wanted)
        add_missing_needs(self.project, {id: needs.missing})

    def resolve_placeholders(self, plan: Plan, added: Sequence[str]) -> None:
        waiting = MissingNeed.objects.filter(
            project=self.project, ref__in=[plan.ref, *added]
        ).order_by("task_id")
        placeholders = list(waiting)
        if not placeholders:
            return
        known = find_tasks({each.ref for each in placeholders}, project=self.project)
        pairs = {(each.task_id, id) for each in placeholders for id in known.get(each.ref, ())}
        waiting.filter(ref__in=list(known)).delete()
        Need.objects.bulk_create(
            (Need(task_id=task, need_id=need) for task, need in sorted(pairs)),
            ignore_conflicts=True,
        )
        self.rewired |= {need for _, need in pairs}
        self.recount(sorted({each.task_id for each in placeholders}))

    def recount(self, task_ids: Sequence[UUID]) -> None:
        recount(task_ids, self.rewired, caller=self.caller, now=self.stamp.at)

    @property
    def caller(self) -> TrustedCaller:
        return TrustedCaller(
            self.stamp.actor, project_id=self.project.pk, request_id=self.stamp.request_id
        )


def plan_changed(plan: Plan, what: str, *, diff: dict[str, Any]) -> PlanChanged:
    return PlanChanged(f"Plan {plan.ref} already exists with different content: {what}", diff=diff)


def plan_spec(task: PlanTask, **more: Any) -> Spec:
    return spec_of(task, backoff=Backoff(**task.backoff), ref=task.ref, **more)


def unknown_agent(name: str, pointers: Sequence[str], *, project: Project) -> Refusal:
    near = agents.find_similar_names(name, project=project)
    nearest = f" Nearest: {', '.join(near)}." if near else ""
    detail = f"No agent is called '{name}' in project '{project.name}'.{nearest}"
    return agents.UnknownAgent(
        detail,
        hint="Use one of the nearest names, or import with 'register' to register the agent.",
        nearest=near,
        errors=[{"pointer": pointer, "detail": detail} for pointer in pointers],
    )
