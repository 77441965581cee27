"""Add budgets to the core: reports count, answers grant more, and new tasks can have one."""

from typing import Any

from ledger.database.sql import Row
from ledger.journal import Stamp
from ledger.plans.import_diff import ImportOptions, ImportResult
from ledger.tasks import steps
from retries.budgets.amounts import format_amount
from retries.budgets.asking import name_scope
from retries.budgets.counting import count_report
from retries.budgets.editing import Scope, grant_by_answer, read_declared, read_spec, set_budget


def register() -> None:
    steps.AFTER_REPORT.append(count_report)
    steps.GRANT.append(grant_by_answer)
    steps.AFTER_ENQUEUE.append(set_for_tasks)
    steps.AFTER_IMPORT.append(set_for_plan)


def set_for_tasks(found: list[tuple[Row, Any]], stamp: Stamp) -> None:
    for place, (row, body) in enumerate(found):
        if body.budget:
            pointer = f"/tasks/{place}/budget" if len(found) > 1 else "/budget"
            scope = Scope(row["project_id"], task_id=row["id"])
            set_budget(scope, read_spec(body.budget, pointer=pointer), stamp=stamp)


def set_for_plan(found: ImportResult, options: ImportOptions, stamp: Stamp) -> list[str]:
    """Set the budgets that a plan's file names, or names otherwise than before."""
    project, new = found.plan.project_id, {*found.diff.added}
    new |= {ref for ref, names in found.diff.changed.items() if "budget" in names}
    ids = {row["ref"]: row["id"] for row in found.tasks}
    declared: list[tuple[Scope, Any, str]] = [
        (Scope(project, task_id=ids[task.ref]), task.budget, f"/tasks/{n}/budget")
        for n, task in enumerate(found.file.tasks)
        if task.budget is not None and task.ref in new
    ]
    if found.has_new_budget:
        declared.append((Scope(project, plan_id=found.plan.pk), found.file.budget, "/budget"))
    warnings = []
    for scope, value, pointer in declared:
        spec = read_declared(value, pointer=pointer)
        if options.dry_run:
            continue
        row = set_budget(scope, spec, only_new=not options.changes_budgets, stamp=stamp)
        if (row.amount, row.at_limit) != (spec.amount, spec.at_limit):
            amount = format_amount(row.amount, row.unit)
            warnings.append(
                f"The budget of {name_scope(row)} stays at {amount}: only people change budgets."
            )
    return warnings
