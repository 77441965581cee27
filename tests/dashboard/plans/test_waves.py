"""Waves, and the blockers of tasks."""

from functools import cache
from random import Random
from typing import Any

from dashboard.charts.dependencies import NeedLink, natural_key
from dashboard.plans.waves import assign_waves, find_blockers
from ledger.states import TaskState
from tests.dashboard.plans.conftest import TaskStub


def link(task: TaskStub, need: TaskStub) -> NeedLink:
    return NeedLink(task.pk, need.pk, "p-1:task-1", need.state, "")


def test_the_wave_of_a_task_follows_its_needs() -> None:
    a, b, c, d = (TaskStub(TaskState.QUEUED) for _ in range(4))
    found = assign_waves([d.pk, c.pk, b.pk, a.pk], [link(b, a), link(c, b), link(c, a)])
    assert found == {a.pk: 1, b.pk: 2, c.pk: 3, d.pk: 1}
    assert assign_waves([a.pk, b.pk], [link(a, b), link(b, a)]) == {
        a.pk: 1,
        b.pk: 1,
    }  # never for ever


def test_blockers_are_found_at_the_head_of_a_chain() -> None:
    first = TaskStub(TaskState.FAILED)
    second, third = (TaskStub(TaskState.BLOCKED, reason="dependency") for _ in range(2))
    met = TaskStub(TaskState.DONE)
    chain = [link(second, first), link(third, second), link(third, met)]
    found = find_blockers([first, second, third], chain)
    assert {id: [each.need for each in held] for id, held in found.items()} == {
        second.pk: [first.pk],
        third.pk: [first.pk],
    }


def test_blockers_in_a_large_plan() -> None:
    """500 tasks and 2,000 needs have the blockers that a search from each task finds."""
    chance = Random(5)
    rows = [
        TaskStub(TaskState.BLOCKED, reason="dependency")
        if n > 40 and n % 9
        else TaskStub(TaskState.QUEUED)
        for n in range(500)
    ]
    links = [
        NeedLink(row.pk, need.pk, f"p-1:task-{rows.index(need)}", need.state, "")
        for n, row in enumerate(rows)
        if row.blocked_reason
        for need in chance.sample(rows[max(0, n - 60) : n], 4)
    ]
    needs: dict[Any, list[NeedLink]] = {}
    for each in links:
        needs.setdefault(each.task, []).append(each)

    @cache
    def heads(id: Any) -> frozenset[NeedLink]:
        below = (heads(each.need) if each.need in needs else {each} for each in needs[id])
        return frozenset(link for found in below for link in found)

    held = find_blockers(rows, links)
    assert held.keys() == needs.keys()
    for id, found in held.items():
        assert {each.need for each in found} == {each.need for each in heads(id)}
        assert [each.ref for each in found] == sorted((each.ref for each in found), key=natural_key)
        assert len(found) == len({each.need for each in found})
