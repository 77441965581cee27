"""The rule when a need is met, in SQL and as a queryset."""

import pytest

from ledger import tasks
from ledger.database import sql
from ledger.models import Agent, DeadLetter, Need, Task
from ledger.moves import need_is_met
from ledger.needs import unmet_needs
from ledger.states import TaskState
from tests.factories import NOW

pytestmark = pytest.mark.django_db

MET = {TaskState.DONE, TaskState.SKIPPED}
ENDS = {
    **{state: {"state": state, "completed_at": NOW} for state in ("done", "skipped", "aborted")},
    "retry": {"state": "retry", "due_at": NOW},
    "queued": {"state": "queued"},
    "escalated": {"state": "escalated"},
}


def end_as_failed(agent: Agent, need: Task, closed_as: str | None) -> None:
    Task.objects.filter(pk=need.pk).update(state="failed", completed_at=NOW)
    DeadLetter.objects.create(
        project=agent.project,
        agent=agent,
        task=need,
        type=need.type,
        payload={},
        error="",
        reason="max_retries_exhausted",
        retry_count=3,
        failed_at=NOW,
        closed_at=NOW if closed_as else None,
        closed_as=closed_as,
    )


@pytest.mark.parametrize("end", [*ENDS, "failed", "replayed", "dismissed"])
def test_the_fragment_and_the_queryset_agree(agent: Agent, end: str) -> None:
    need = Task.objects.get(pk=tasks.enqueue(agent, "build", now=NOW))
    waits = tasks.enqueue(agent, "test", needs=[need.pk], now=NOW)
    if end in ENDS:
        Task.objects.filter(pk=need.pk).update(**ENDS[end])
    else:
        end_as_failed(agent, need, None if end == "failed" else end)
    is_met = end in MET or end == "dismissed"
    rows = sql.run(
        f"select {need_is_met('n')} as met from ledger_task n where n.id = %(id)s", id=need.pk
    )
    assert [row["met"] for row in rows] == [is_met]
    assert list(unmet_needs().filter(task=waits)) == ([] if is_met else [Need.objects.get()])
