"""Operations for tests: a person who starts them, and the work of a worker in this process."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet

from ledger.journal import Stamp, person
from ledger.models import Event
from retries.models import Operation
from retries.operations.running import run_operation
from retries.operations.starting import start_operation

LATER = timedelta(minutes=1)


def make_person(name: str = "mara") -> User:
    return User.objects.create_superuser(name)


def start(
    verb: str, chosen: QuerySet[Any], *, by: User | None = None, now: datetime, **more: Any
) -> Operation:
    """Start an operation and return it as stored."""
    by = by or User.objects.filter(username="mara").first() or make_person()
    made = start_operation(verb, chosen, stamp=Stamp(person(by), now, "req_1"), **more)
    return Operation.objects.get(pk=made.pk)


def run(operation: Operation, *, now: datetime) -> Operation:
    """Run an operation to its end, when its time to undo is over; return it as stored."""
    while run_operation(operation.pk, now=now + LATER):
        pass
    operation.refresh_from_db()
    return operation


def list_kinds(subject_id: UUID) -> list[str]:
    """Return the kinds of the events about a subject, oldest first."""
    rows = Event.objects.filter(subject_id=subject_id).order_by("tx", "id")
    return list(rows.values_list("kind", flat=True))


def list_refusals(operation: Operation) -> list[tuple[UUID, str]]:
    """Return the rows that an operation left, with the reasons."""
    rows = operation.items.filter(state="refused").order_by("id")
    return list(rows.values_list("subject_id", "refusal"))
