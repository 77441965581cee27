"""Journal what happens to an operation, once in each project that it touches."""

from typing import Any

from ledger import journal
from ledger.journal import Kind, Stamp
from retries.models import Operation


def record_event(
    operation: Operation, kind: Kind, *, stamp: Stamp, data: dict[str, Any] | None = None
) -> None:
    for project_id in operation.project_ids:
        journal.record(
            kind,
            subject_type="operation",
            subject_id=operation.pk,
            project_id=project_id,
            stamp=stamp,
            data={"verb": operation.verb, **(data or {})},
        )
