"""Two transactions that wait for each other: one is undone, and run once more."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, transaction

from ledger import needs
from ledger.access.audit import audit
from ledger.database import sql
from ledger.models import Agent, Plan
from ledger.states import TaskState
from retries import deadletters
from retries.attempts import finishing
from retries.escalations import answering
from retries.plans import aborting, importing, restarting
from retries.tasks import actions as task_actions
from tests.elsewhere import blocked
from tests.ledger.plans.test_import_writer import imported, states, task
from tests.retries.moves import make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def crossing(calls: list[list[UUID]]) -> Callable[[Iterable[UUID]], list[UUID]]:
    """A verb that locks its tasks one by one; the first two calls hold one each at first.

    Locks are taken in the order in which they are named, as two careless verbs would.
    """
    both, passed = threading.Barrier(2), threading.Event()

    @sql.atomic
    def verb(order: Iterable[UUID]) -> list[UUID]:
        first, second = order
        is_first_try = len(calls) < 2
        calls.append([first, second])
        if not is_first_try:
            # or it could take back what the other waits for, and cross it again
            passed.wait(PATIENCE_S)
        needs.hold([first])
        if is_first_try:
            both.wait(PATIENCE_S)
        needs.hold([second])
        passed.set()
        return [first, second]

    return verb


def test_the_one_that_was_undone_is_run_again(agent: Agent, elsewhere: Callable[..., Any]) -> None:
    """Whichever it is, and though its ids can be read only once."""
    one, two = sorted(make_task(agent) for _ in range(2))
    calls: list[list[UUID]] = []
    verb = crossing(calls)
    found = [elsewhere(lambda ids=ids: verb(iter(ids))) for ids in ([one, two], [two, one])]
    assert [each.result(PATIENCE_S) for each in found] == [[one, two], [two, one]]
    assert len(calls) == 3


def test_inside_another_transaction_nothing_is_run_again(
    agent: Agent, elsewhere: Callable[..., Any]
) -> None:
    one, two = sorted(make_task(agent) for _ in range(2))
    calls: list[list[UUID]] = []
    verb = crossing(calls)

    def within(ids: list[UUID]) -> object:
        with transaction.atomic():
            return verb(ids)

    found = [elsewhere(lambda ids=ids: within(ids)) for ids in ([one, two], [two, one])]
    errors = [each.exception(PATIENCE_S) for each in found]
    assert sorted(type(each) for each in errors if each) == [OperationalError]
    assert len(calls) == 2


def test_an_import_that_was_undone_is_run_again(
    agent: Agent, elsewhere: Callable[..., Any]
) -> None:
    """It holds its plan and waits for a task, whose holder wants the plan. Its wait is the longer
    one, so it is undone; where it is back before the holder wakes, they cross once more."""
    plan = imported({}, {}).plan
    with suppress(OperationalError), transaction.atomic():
        needs.hold([task("03-01:task-1").pk])
        found = elsewhere(lambda: imported({}, {"needs": "task-1"}, mode="merge"))
        with blocked(found):
            Plan.objects.select_for_update(no_key=True).get(pk=plan.pk)
    assert found.result(PATIENCE_S).diff.changed == {"03-01:task-2": ["needs"]}
    assert states() == {"task-1": TaskState.QUEUED, "task-2": TaskState.BLOCKED}
    assert list(audit()) == []


def test_the_verbs_that_may_cross_are_run_again() -> None:
    verbs = [
        finishing.settle,
        answering.answer_untraced,
        importing.import_plan,
        aborting.abort,
        restarting.restart,
    ]
    verbs += [deadletters.replay, deadletters.dismiss, task_actions.skip, task_actions.abort]
    of_sql = sql.atomic(needs.hold).__code__  # type: ignore[attr-defined]
    assert [verb for verb in verbs if verb.__code__ is not of_sql] == []
