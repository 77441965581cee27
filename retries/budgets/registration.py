"""Add budgets to the core: reports count, answers grant more, and new tasks can have one."""

from typing import Any

from ledger.database.sql import Row
from ledger.journal import Stamp
from ledger.tasks import steps
from retries.budgets.counting import count_report
from retries.budgets.editing import Scope, grant_by_answer, read_spec, set_budget


def register() -> None:
    steps.AFTER_REPORT.append(count_report)
    steps.GRANT.append(grant_by_answer)
    steps.AFTER_ENQUEUE.append(set_for_tasks)


def set_for_tasks(found: list[tuple[Row, Any]], stamp: Stamp) -> None:
    for place, (row, body) in enumerate(found):
        if body.budget:
            pointer = f"/tasks/{place}/budget" if len(found) > 1 else "/budget"
            scope = Scope(row["project_id"], task_id=row["id"])
            set_budget(scope, read_spec(body.budget, pointer=pointer), stamp=stamp)
