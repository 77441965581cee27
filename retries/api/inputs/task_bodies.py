"""Tasks as the API returns them: one shape everywhere, with the open escalation."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.http import HttpResponse

from ledger.api.responses import json_response
from ledger.api.tasks import as_rows
from ledger.database.sql import Row
from ledger.models import Task
from ledger.schemas.tasks import task_out
from ledger.states import TaskState, Who
from retries.models import Escalation

# Only such tasks can have an open escalation.
ASKED = (TaskState.ESCALATED, TaskState.BLOCKED)


def task_bodies(rows: Iterable[Row], *, who: Who | None) -> list[dict[str, Any]]:
    rows = list(rows)
    asked = [row["id"] for row in rows if row["state"] in ASKED]
    found = Escalation.objects.open().filter(task__in=asked).values_list("task", "pk")
    escalations = dict(found) if asked else {}
    return [task_out(row, who=who, escalation=escalations.get(row["id"])) for row in rows]


def task_response(row: Row, *, who: Who | None) -> HttpResponse:
    return json_response(task_bodies([row], who=who)[0], version=row["version"])


def read_task(id: UUID) -> Row:
    row: Row = as_rows(Task.objects.filter(pk=id)).get()
    return row
