"""Every ordered pair of a task's states, against the table and against the database."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from ledger import moves, sql
from ledger.journal import SYSTEM
from ledger.models import Agent, Task
from ledger.states import FINAL, TASK_MOVES, TaskState, Who, allowed_moves
from ledger.tasks import enqueue
from ledger.tokens import TrustedCaller
from tests.factories import NOW

pytestmark = pytest.mark.django_db
S = TaskState

EXTRA: dict[str, dict[str, Any]] = {
    S.BLOCKED: {"blocked_reason": "dependency"},
    S.RUNNING: {"current_attempt": "01a1fe6d-9b01-7830-98b6-0164ecc5924c"},
    S.RETRY: {"due_at": NOW},
    **{state: {"completed_at": NOW} for state in FINAL},
}


def in_state(agent: Agent, state: TaskState) -> Task:
    """A row in any state, whatever led there."""
    id = enqueue(agent, "code", now=NOW)
    Task.objects.filter(pk=id).update(**{"state": state, **EXTRA.get(state, {})})
    return Task.objects.get(pk=id)


@pytest.mark.parametrize("to", list(S))
@pytest.mark.parametrize("start", list(S))
def test_a_move_is_legal_or_changes_nothing(agent: Agent, start: TaskState, to: TaskState) -> None:
    """S3.2, S3.3: state_transitions"""
    task = in_state(agent, start)
    sets = {S.RUNNING: "current_attempt = uuidv7()", S.RETRY: "due_at = %(now)s"}.get(to, "")
    reason = "'reported'" if to == S.BLOCKED else "null"
    move = moves.task_to(to, where="t.id = %(id)s", sets=sets, reason=reason)
    rows = sql.run(
        f"with {TrustedCaller.cte} {move}", id=task.pk, now=NOW, **TrustedCaller(SYSTEM).params
    )
    after = Task.objects.get(pk=task.pk)
    if to in TASK_MOVES[start]:
        assert (after.state, rows[0]["from_state"]) == (to, start)
        assert after.version == task.version + 1
    else:
        assert rows == [] and (after.state, after.version) == (start, task.version)


def test_final_states_are_four() -> None:
    assert set(FINAL) == {S.DONE, S.FAILED, S.SKIPPED, S.ABORTED}
    assert all(allowed_moves(state, who) == [] for state in FINAL for who in Who)


def test_every_move_has_somebody_who_may_make_it() -> None:
    assert all(who for targets in TASK_MOVES.values() for who in targets.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "lost"},
        {"state": S.DONE},
        {"state": S.BLOCKED},
        {"blocked_reason": "dependency"},
        {"state": S.RUNNING},
        {"state": S.RETRY},
        {"completed_at": NOW},
        {"unmet": -1},
        {"attempts": 4},
    ],
)
def test_the_database_refuses_what_can_not_be(agent: Agent, wrong: dict[str, Any]) -> None:
    id = enqueue(agent, "code", now=timezone.now())
    with pytest.raises(IntegrityError), transaction.atomic():
        Task.objects.filter(pk=id).update(**wrong)
