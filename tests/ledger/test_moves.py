"""Every ordered pair of a task's states, against the table and against the database."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from ledger import moves
from ledger.database import sql
from ledger.journal import SYSTEM
from ledger.models import Agent, Task
from ledger.states import (
    BLOCKED_MOVES,
    FINAL,
    INDIRECT_MOVES,
    TASK_MOVES,
    BlockedReason,
    TaskState,
    Who,
    allowed_moves,
)
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
    """S3.1, S3.2, S3.3: state_transitions"""
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


@pytest.mark.parametrize("who", list(Who))
def test_who_may_ask_for_a_move_is_in_the_table(who: Who) -> None:
    """For every ordered pair: a caller is offered only its own moves, and by reason when blocked"""
    for start in S:
        reasons = list(BlockedReason) if start == S.BLOCKED else [None]
        for reason in reasons:
            offered = allowed_moves(start, who, blocked_reason=reason)
            for to in S:
                legal = who in TASK_MOVES[start].get(to, ())
                indirect = to in INDIRECT_MOVES.get(start, {}).get(who, ())
                direct = reason is None or to in BLOCKED_MOVES[reason].get(who, ())
                assert (to in offered) == (legal and direct and not indirect), (start, to, reason)
        assert allowed_moves(start, None) == []


def test_exceptions_to_the_table_are_about_moves_in_it() -> None:
    for start, by_who in INDIRECT_MOVES.items():
        for who, targets in by_who.items():
            assert all(who in TASK_MOVES[start][to] for to in targets)
    for by_who in BLOCKED_MOVES.values():
        for who, targets in by_who.items():
            assert all(who in TASK_MOVES[S.BLOCKED][to] for to in targets)


def test_a_producer_ends_nothing_that_a_person_is_asked_about() -> None:
    assert allowed_moves(S.ESCALATED, Who.PRODUCER) == []
    reported = BlockedReason.REPORTED
    assert allowed_moves(S.BLOCKED, Who.PRODUCER, blocked_reason=reported) == []


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
