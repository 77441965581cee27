"""The progress and the result of one answer for a group."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count

from dashboard.escalations.queries import fetch_listed
from retries.models import Escalation, Operation
from retries.models.operation import ItemState, OperationState

SHOWN = 20


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """An escalation that the operation left, and why."""

    escalation: Escalation | None
    why: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """An operation that answers escalations, as its page shows it."""

    operation: Operation
    left: list[NotAnswered]
    reasons: list[tuple[str, int]]
    undo_seconds: float | None

    @property
    def done(self) -> int:
        return self.operation.changed + self.operation.refused

    @property
    def percent(self) -> int:
        return 100 * self.done // self.operation.total if self.operation.total else 0

    @property
    def key(self) -> str:
        """A value that changes when there is something new to show."""
        return f"{self.operation.state}.{self.done}.{self.undo_seconds is None}"

    @property
    def is_undone(self) -> bool:
        return self.operation.state == OperationState.UNDONE

    @property
    def gone(self) -> int:
        """The number of escalations that were closed before the operation was stored."""
        return self.operation.matching - self.operation.total


def find_result(operation_id: UUID, *, now: datetime) -> GroupResult | None:
    operation = Operation.objects.filter(pk=operation_id, noun="escalation").first()
    if operation is None:
        return None
    refused = operation.items.filter(state=ItemState.REFUSED)
    seconds = (operation.starts_at - now).total_seconds()
    can_undo = operation.state == OperationState.WAITING and seconds > 0
    reasons = refused.order_by().values_list("refusal").annotate(n=Count("pk"))
    items = list(refused.order_by("id")[:SHOWN])
    rows = fetch_listed(each.subject_id for each in items)
    return GroupResult(
        operation=operation,
        left=[NotAnswered(rows.get(each.subject_id), each.refusal, each.detail) for each in items],
        reasons=sorted(reasons, key=lambda each: -each[1]),
        undo_seconds=round(seconds, 1) if can_undo else None,
    )
