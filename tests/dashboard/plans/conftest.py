"""A plan under way, and helpers for the tests of the Plans pages."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Plan
from ledger.states import TaskState
from retries import in_process
from tests.dashboard.worked import claimed, failed, make_plan

URL = "/plans/"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# 1 is done, 2 failed and is escalated, 3 waits for 2, 4 for 3, 5 is running, 6 has no needs
TASKS = [("Schema", []), ("Backfill", [1]), ("Reconcile", [2]), ("Review", [3]), ("API", [1]),
         ("Runbook", [])]  # fmt: skip


def address(plan: Plan) -> str:
    return f"{URL}{plan.pk}/"


@pytest.fixture
def under_way(agent: Agent, now: datetime) -> tuple[Plan, list[UUID]]:
    """Return a plan of TASKS after ten minutes."""
    at = now - 10 * MINUTE
    plan, ids = make_plan("03-01", TASKS, title="Ledger", agent=agent, now=at)
    in_process.report_success(
        claimed(agent, ids[0], now=at), {}, stamp=Stamp(SYSTEM, at + 90 * SECOND)
    )
    failed(agent, ids[1], now=at + 2 * MINUTE, message="3 of 9318 invoices differ")
    claimed(agent, ids[4], now=at + 6 * MINUTE)
    return plan, ids


IMPORT = f"{URL}import/"
FILE = """ref: 03-01
title: Ledger
tasks:
  - title: Add the <tables>
    agent: coder
    verify: {command: "make test > /dev/null"}
  - title: Backfill
    agent: coder
    needs: task-1
"""


def form(text: str = FILE, **more: Any) -> dict[str, Any]:
    return {"project": "default", "mode": "create", "text": text, **more}


MARKDOWN = """---
phase: 03
plan: 01
agent: coder
---
<tasks>
<task type="auto">
<name>Create the error</name>
<action>Write it</action>
<verify>`npm test -- Error`</verify>
</task>
</tasks>
"""


class TaskStub:
    """The attributes of a task that the pure modules read."""

    def __init__(self, state: TaskState, *, attempts: int = 1, reason: str | None = None) -> None:
        self.pk, self.state, self.attempts = uuid4(), state, attempts
        self.blocked_reason = reason
