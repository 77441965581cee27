"""End an operation early: undo it before it starts, or stop it while it runs."""

from uuid import UUID

from ledger.database import sql
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import Kind, Stamp
from retries.models import Operation
from retries.models.operation import OperationQuerySet, OperationState
from retries.operations.recording import record_event
from retries.operations.running import counts, end


@sql.atomic
def undo_operation(operation_id: UUID, *, among: OperationQuerySet, stamp: Stamp) -> Operation:
    """Undo an operation that has not started; raises NotFound and InvalidTransition."""
    operation = lock_one(operation_id, among)
    if operation.state != OperationState.WAITING:
        raise InvalidTransition(
            f"It can't be undone any more: it is {operation.state}.",
            current=operation.state,
            allowed=[OperationState.STOPPED.value] if operation.is_under_way else [],
        )
    end(operation, OperationState.UNDONE, by_name=stamp.actor.name, now=stamp.at)
    record_event(operation, Kind.OPERATION_UNDONE, stamp=stamp)
    return operation


@sql.atomic
def stop_operation(operation_id: UUID, *, among: OperationQuerySet, stamp: Stamp) -> Operation:
    """Stop an operation; raises NotFound and InvalidTransition."""
    # Rows that are done stay done.
    operation = lock_one(operation_id, among)
    if not operation.is_under_way:
        raise InvalidTransition(
            f"There is nothing to stop: it is {operation.state}.",
            current=operation.state,
            allowed=[],
        )
    end(operation, OperationState.STOPPED, by_name=stamp.actor.name, now=stamp.at)
    record_event(operation, Kind.OPERATION_STOPPED, stamp=stamp, data=counts(operation))
    return operation


def lock_one(operation_id: UUID, among: OperationQuerySet) -> Operation:
    """Lock and return an operation; raises NotFound."""
    # The lock waits for a batch that is under way.
    rows = among.filter(pk=operation_id).order_by("id").select_for_update()
    found = rows.first()
    if found is None:
        raise NotFound(f"There is no operation {operation_id} here.")
    return found
