"""Carry out operations: each row once, in batches that survive the death of their worker.

A batch changes its rows and records their results in one transaction. If its worker dies, neither
is stored, and another worker repeats the batch.
"""

import logging
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Q
from psycopg.errors import QueryCanceled

from ledger.authorization.permissions import may
from ledger.database import server_time, sql
from ledger.errors import Refusal
from ledger.journal import Actor, Kind, Stamp
from ledger.models import Project
from ledger.secrets.sealing import unseal
from retries.models import Operation, OperationItem
from retries.models.operation import ItemState, OperationState
from retries.operations.recording import record_event
from retries.operations.registry import find_verb
from retries.verbs.verb import Left, Verb

logger = logging.getLogger(__name__)

# A worker that is silent for so long is dead, or its batch is; another one continues.
LEASE = timedelta(seconds=15)
# A job ends after so long and asks for the next one, so that other jobs get their turn.
SLICE_SECONDS = 10.0
# A row that always exceeds the time limit of statements would repeat its batch for ever.
SLOW_TRIES = 2
TOO_SLOW = Left("Took too long", "The database ended it at its time limit. Nothing was changed.")
WORKER = Actor("system", "operations", "operations")


def list_due(now: datetime) -> list[UUID]:
    rows = Operation.objects.under_way().filter(starts_at__lte=now)
    free = Q(lease_until=None) | Q(lease_until__lte=now)
    return list(rows.filter(free).order_by("starts_at", "id").values_list("pk", flat=True))


def count_due(*, now: datetime, project: Project | None = None) -> dict[str, int]:
    return {"due": len(list_due(now))}


def run_operation(operation_id: UUID, *, now: datetime | None = None) -> bool:
    """Run an operation for a while; return whether it has to continue."""
    # Return False at once if another worker holds it: that worker continues it.
    if not take(operation_id, now=now or server_time.now()):
        return False
    ends_at = time.monotonic() + SLICE_SECONDS
    goes_on = True
    while goes_on and time.monotonic() < ends_at:
        goes_on = run_batch(operation_id, now=now or server_time.now())
    if goes_on:
        Operation.objects.filter(pk=operation_id).update(lease_until=None)
    return goes_on


@sql.atomic
def take(operation_id: UUID, *, now: datetime) -> bool:
    """Acquire the operation's lease; return whether this worker may run it."""
    operation = lock(operation_id)
    if operation is None or not operation.is_under_way or operation.starts_at > now:
        return False
    if operation.lease_until is not None and operation.lease_until > now:
        return False
    if reason := find_missing_right(operation):
        end(operation, OperationState.STOPPED, because=reason, now=now)
        record_event(
            operation,
            Kind.OPERATION_STOPPED,
            stamp=Stamp(WORKER, now),
            data={"reason": reason, **counts(operation)},
        )
        return False
    if operation.lease_until is not None:
        # Its worker ended without giving the lease back.
        record_event(
            operation, Kind.OPERATION_RESUMED, stamp=Stamp(WORKER, now), data=counts(operation)
        )
    operation.lease_until = now + LEASE
    operation.state = OperationState.RUNNING
    operation.started_at = operation.started_at or now
    operation.save(update_fields=["lease_until", "state", "started_at"])
    return True


def lock(operation_id: UUID) -> Operation | None:
    # Another worker's batch holds the lock while it is under way.
    rows = Operation.objects.filter(pk=operation_id).order_by("id")
    return rows.select_for_update(skip_locked=True).first()


def find_missing_right(operation: Operation) -> str:
    """Return why the person who started it may no longer do so; empty if they may."""
    if operation.actor_type != "user":
        return ""
    user = User.objects.filter(pk=operation.actor_id).first()
    verb = find_verb(operation.verb)
    if user and all(may(user, verb.permission, project) for project in operation.project_ids):
        return ""
    return f"{operation.actor_name} may no longer do this."


@sql.atomic
def run_batch(operation_id: UUID, *, now: datetime) -> bool:
    """Apply the verb to the next rows and record the results; return whether there are more."""
    operation = lock(operation_id)
    if operation is None or operation.state != OperationState.RUNNING:
        return False
    verb = find_verb(operation.verb)
    pending = operation.items.filter(state=ItemState.PENDING).order_by("id")
    items = list(pending.values_list("pk", "subject_id")[: verb.batch])
    if items:
        actor = Actor(operation.actor_type, operation.actor_id, operation.actor_name)
        stamp = Stamp(actor, now, operation.request_id)
        options = unseal(operation.options, operation.sealed)
        left = apply_to(verb, [subject for _, subject in items], options, stamp)
        record_results(operation, items, left, now=now)
        return True
    end(operation, OperationState.DONE, now=now)
    record_event(
        operation, Kind.OPERATION_COMPLETED, stamp=Stamp(WORKER, now), data=counts(operation)
    )
    return False


def apply_to(
    verb: Verb, ids: list[UUID], options: dict[str, object], stamp: Stamp
) -> dict[UUID, Left]:
    """Apply the verb to these rows; return those that it left, with the reason."""
    # If one of several rows fails, each is tried by itself.
    for try_number in range(1, SLOW_TRIES + 1):
        try:
            with transaction.atomic():
                return verb.apply(ids, options, stamp)
        except (OperationalError, InterfaceError) as error:
            if not is_too_slow(error):
                raise  # the connection or a deadlock, not the row: the batch is repeated
            if len(ids) == 1 and try_number == SLOW_TRIES:
                logger.error("%s took too long for %s", verb.name, ids[0], exc_info=error)
                return {ids[0]: TOO_SLOW}
        except Exception as error:
            if len(ids) == 1:
                return {ids[0]: describe_error(error, verb, ids[0])}
        if len(ids) > 1:
            break
    left: dict[UUID, Left] = {}
    for id in ids:
        left |= apply_to(verb, [id], options, stamp)
    return left


def is_too_slow(error: OperationalError | InterfaceError) -> bool:
    # PostgreSQL ended the statement at its time limit, or a person did.
    return isinstance(error.__cause__, QueryCanceled)


def describe_error(error: Exception, verb: Verb, subject_id: UUID) -> Left:
    if isinstance(error, Refusal):
        return Left(error.title(), error.detail)
    # The details of an unexpected error go to the log; the result only refers to it.
    logger.error("%s failed for %s", verb.name, subject_id, exc_info=error)
    return Left("Internal error", "The server's log has the details. Nothing was changed.")


def record_results(
    operation: Operation,
    items: Iterable[tuple[UUID, UUID]],
    left: dict[UUID, Left],
    *,
    now: datetime,
) -> None:
    rows = [
        OperationItem(
            pk=pk,
            operation=operation,
            subject_id=subject,
            state=ItemState.REFUSED if subject in left else ItemState.CHANGED,
            refusal=left[subject].why[:80] if subject in left else "",
            detail=left[subject].detail if subject in left else "",
            at=now,
        )
        for pk, subject in items
    ]
    OperationItem.objects.bulk_update(rows, ["state", "refusal", "detail", "at"])
    refused = sum(row.state == ItemState.REFUSED for row in rows)
    Operation.objects.filter(pk=operation.pk).update(
        changed=F("changed") + len(rows) - refused,
        refused=F("refused") + refused,
        lease_until=now + LEASE,
    )


def end(
    operation: Operation,
    state: OperationState,
    *,
    by_name: str = "",
    because: str = "",
    now: datetime,
) -> None:
    operation.state, operation.ended_at, operation.lease_until = state, now, None
    operation.ended_by_name, operation.ended_because = by_name, because
    operation.save(
        update_fields=["state", "ended_at", "lease_until", "ended_by_name", "ended_because"]
    )


def counts(operation: Operation) -> dict[str, int]:
    return {"changed": operation.changed, "refused": operation.refused, "left": operation.left}
