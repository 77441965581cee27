"""A new task takes the place of an old one."""

from uuid import UUID

import pytest

from ledger import tasks
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Need, Task
from ledger.tasks.replacing import take_places
from tests.factories import MINUTE, NOW

pytestmark = pytest.mark.django_db


def abort(*ids: UUID) -> None:
    assert tasks.abort(ids, stamp=Stamp(SYSTEM, NOW)) == dict.fromkeys(ids, True)


def needs_of(id: UUID) -> list[UUID]:
    return list(Need.objects.filter(task=id).values_list("need_id", flat=True))


def test_only_tasks_that_still_wait_get_the_new_need(agent: Agent) -> None:
    old = tasks.enqueue(agent, "build", now=NOW)
    over, waits = (tasks.enqueue(agent, "test", needs=[old], now=NOW) for _ in range(2))
    abort(old, over)
    new = tasks.enqueue(agent, "build", now=NOW)
    version = Task.objects.get(pk=old).version
    take_places({old: new}, now=NOW + MINUTE)
    assert (needs_of(over), needs_of(waits)) == ([old], [new])
    first, second = Task.objects.get(pk=old), Task.objects.get(pk=new)
    assert (first.needed_by, second.needed_by) == (1, 1)
    assert (first.replaced_by_id, first.version, first.updated_at) == (
        new,
        version + 1,
        NOW + MINUTE,
    )


def test_a_need_that_was_met_stays_with_the_old_task(agent: Agent) -> None:
    met, other = (tasks.enqueue(agent, "build", now=NOW) for _ in range(2))
    waits = tasks.enqueue(agent, "test", needs=[met, other], now=NOW)
    Task.objects.filter(pk=met).update(state="skipped", completed_at=NOW)
    new = tasks.enqueue(agent, "build", now=NOW)
    take_places({met: new}, now=NOW)
    assert set(needs_of(waits)) == {met, other}
