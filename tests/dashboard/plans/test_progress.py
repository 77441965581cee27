"""Figures and bars of a plan."""

from collections import Counter
from typing import Any

from dashboard.plans import progress
from ledger.states import TaskState
from tests.dashboard.plans.conftest import TaskStub


def test_the_figures_match_the_retry_summary() -> None:
    """S1.66: of five tasks, three succeed at once and one of two after a retry."""
    once = [TaskStub(TaskState.DONE) for _ in range(3)]
    retried, skipped = TaskStub(TaskState.DONE, attempts=2), TaskStub(TaskState.SKIPPED, attempts=3)
    rows: list[Any] = [*once, retried, skipped]
    failures = Counter({retried.pk: 1, skipped.pk: 3})
    tally = progress.TaskCounts(Counter(row.state for row in rows))
    found = progress.build_figures(tally, rows, failures, questions=1, open_questions=0)
    assert [(each.value, each.note) for each in found] == [
        ("5", "5 started"), ("60%", "3 of 5"), ("40%", "2 of 5"), ("50%", "1 of 2 finished"),
        ("1", ""), ("1", "of 5"),
    ]  # fmt: skip


def test_a_bar_shows_all_tasks() -> None:
    found = progress.build_bar(Counter({"done": 1, "running": 1, "queued": 2}))
    assert [(each.state, each.x, each.width) for each in found.segments] == [
        ("done", 0.0, 25.0), ("running", 25.0, 25.0), ("queued", 50.0, 50.0)
    ]  # fmt: skip
    assert progress.build_bar(Counter()).summary == "no tasks"
