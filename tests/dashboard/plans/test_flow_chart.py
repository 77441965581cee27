"""The chart of the task flow."""

from collections import Counter
from typing import Any

from dashboard.plans.flow_chart import draw_flow
from ledger.states import TaskState
from tests.dashboard.plans.conftest import TaskStub


def test_the_flow_shows_every_started_task_and_its_state() -> None:
    done, again, asked = (
        TaskStub(TaskState.DONE),
        TaskStub(TaskState.DONE, attempts=2),
        TaskStub(TaskState.ESCALATED),
    )
    rows: list[Any] = [done, again, asked, TaskStub(TaskState.QUEUED, attempts=0)]
    drawn = draw_flow(rows, Counter({again.pk: 1, asked.pk: 1}))
    assert drawn and drawn.summary == "3 tasks started, 1 failed once, 2 done, 1 needs an answer."
    assert [(bar.count, bar.word) for bar in drawn.bars] == [
        (2, "done"), (1, "needs an answer"), (3, "started"), (1, "failed once")
    ]  # fmt: skip
    assert draw_flow([TaskStub(TaskState.QUEUED, attempts=0)], {}) is None
