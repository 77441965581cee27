"""Tasks that were sent to a pool: which member gets them, and who retries them."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from ledger import accounts, agents
from ledger.database import sql
from ledger.errors import InvalidTransition, NotFound
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Attempt, Breaker, DeadLetter, Event, Task
from ledger.pools import membership
from ledger.tasks import Change
from ledger.tasks.changing import change
from ledger.tokens import TrustedCaller
from ledger.values.account_windows import LimitSource, LimitWindow, WindowFact
from retries import claims, deadletters
from retries.attempts import releases
from retries.claims import PoolTask
from tests.elsewhere import at_once, blocked
from tests.factories import MINUTE, NOW, make_agent, make_project
from tests.retries.moves import attempt_of, claim, fail, make_task
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db
STAMP = Stamp(SYSTEM, NOW)
HOUR = timedelta(hours=1)


def make_pool(name: str = "reviewers", *members: Agent, **more: Any) -> Agent:
    return membership.create(name, members=members, project=make_project(), stamp=STAMP, **more)


@pytest.fixture
def second(agent: Agent) -> Agent:
    return make_agent("second")


@pytest.fixture
def pool(agent: Agent, second: Agent) -> Agent:
    return make_pool("reviewers", agent, second)


def see(*seen: Agent) -> None:
    """Let these agents have called just now."""
    Agent.objects.filter(pk__in=[each.pk for each in seen]).update(last_seen_at=NOW)


def task_of(found: claims.ClaimResult) -> UUID | None:
    return found.rows[0]["id"] if found.rows else None


def test_a_member_gets_the_pools_task_and_is_its_agent_while_it_runs(
    agent: Agent, pool: Agent
) -> None:
    id = make_task(pool)
    assert (Task.objects.get(pk=id).agent, Task.objects.get(pk=id).pool) == (pool, pool)
    assert task_of(claim(agent)) == id
    task, attempt = Task.objects.get(pk=id), Attempt.objects.get(task=id)
    assert (task.agent, task.pool, attempt.agent) == (agent, pool, agent)
    claimed = Event.objects.get(subject_id=id, kind="task.claimed")
    assert claimed.agent_id == agent.pk


def test_others_get_nothing_of_a_pool(pool: Agent) -> None:
    id = make_task(pool)
    stranger = make_agent("stranger")
    assert claim(stranger).rows == [] and claim(stranger, limit=5).rows == []
    with pytest.raises(NotFound):
        claim(stranger, task=id)


@pytest.mark.parametrize("limit", [1, 5])
def test_own_and_pool_queues_are_one_queue(agent: Agent, second: Agent, limit: int) -> None:
    one, two = make_pool("one", agent), make_pool("two", agent, second)
    names = {
        make_task(queue, priority=priority): name
        for name, queue, priority in [
            ("first own", agent, 0),
            ("first of one", one, 0),
            ("urgent of two", two, 9),
            ("second own", agent, 0),
            ("first of two", two, 0),
        ]
    }
    found: list[str] = []
    while rows := claim(agent, limit=limit).rows:
        found += [names[row["id"]] for row in rows]
    first = ["urgent of two", "first own", "first of one", "second own", "first of two"]
    # of several with one priority, a claim of all of them says no order
    assert found == first if limit == 1 else sorted(found) == sorted(first)
    assert found[0] == first[0]


@pytest.mark.parametrize("limit", [2, 3])
def test_a_claim_of_several_takes_the_best_of_all_queues(agent: Agent, limit: int) -> None:
    one, two = make_pool("one", agent), make_pool("two", agent)
    make_task(one), make_task(one)
    best = {make_task(queue, priority=5) for queue in (two, agent, one)}
    taken = {row["id"] for row in claim(agent, limit=limit).rows}
    assert len(taken) == limit and taken <= best


def test_the_longest_due_retry_of_all_queues_goes_first(agent: Agent, pool: Agent) -> None:
    late, early, new = make_task(agent), make_task(pool), make_task(pool)
    Task.objects.filter(pk=late).update(state="retry", due_at=NOW - MINUTE)
    Task.objects.filter(pk=early).update(state="retry", due_at=NOW - 2 * MINUTE)
    found: list[UUID] = []
    while rows := claim(agent).rows:
        found += [row["id"] for row in rows]
    assert found == [early, late, new]


def test_a_member_can_claim_a_pools_task_by_its_id(agent: Agent, pool: Agent) -> None:
    first, wanted = make_task(pool), make_task(pool)
    assert task_of(claim(agent, task=wanted)) == wanted
    assert task_of(claim(agent, task=first, worker_id="w")) == first


def test_a_task_of_a_pool_can_not_be_started_for_no_member(pool: Agent) -> None:
    id = make_task(pool)
    with pytest.raises(PoolTask, match="a member of the pool reviewers"):
        claims.start(id, stamp=STAMP)


def test_a_paused_pool_hands_out_nothing_but_its_members_work_on(agent: Agent, pool: Agent) -> None:
    id, own = make_task(pool), make_task(agent)
    agents.pause([pool], stamp=STAMP)
    assert task_of(claim(agent)) == own
    assert claim(agent).rows == []
    with pytest.raises(InvalidTransition, match="The pool reviewers is paused"):
        claim(agent, task=id)
    agents.pause([pool], paused=False, stamp=STAMP)
    assert task_of(claim(agent)) == id


@pytest.mark.parametrize("held", ["breaker", "pause", "wait", "full"])
def test_a_member_that_may_not_claim_does_not_block_the_others(
    held: str, agent: Agent, second: Agent, pool: Agent
) -> None:
    id = make_task(pool)
    if held == "breaker":
        Breaker.objects.create(agent=agent, state="open", failures=5, opened_at=NOW, updated_at=NOW)
    elif held == "pause":
        Agent.objects.filter(pk=agent.pk).update(paused=True)
    elif held == "wait":
        Agent.objects.filter(pk=agent.pk).update(waits_until=NOW + HOUR)
    else:
        Agent.objects.filter(pk=agent.pk).update(concurrency=1)
        claim(agent, task=make_task(agent))
    assert claim(agent).rows == [] and claim(agent, limit=5).rows == []
    if held == "breaker":
        assert claim(agent, task=id).reason == "breaker_open"
    assert Task.objects.get(pk=id).state == "queued"
    assert task_of(claim(second)) == id


def test_an_agent_joins_and_leaves_at_its_next_claim(agent: Agent) -> None:
    pool = make_pool()
    first, last = make_task(pool), make_task(pool)
    assert claim(agent).rows == []
    membership.add_members(pool, [agent], stamp=STAMP)
    assert task_of(claim(agent)) == first
    membership.remove_members(pool, [agent], stamp=STAMP)
    assert claim(agent).rows == []
    assert Task.objects.get(pk=last).state == "queued"
    assert not Agent.objects.get(pk=agent.pk).in_pools


# ---- who retries


def fail_once(agent: Agent, **options: Any) -> UUID:
    """Let the agent fail a new task of its pool, and return the task's id."""
    pool = Agent.objects.get(is_pool=True)
    id = make_task(pool, max_attempts=5, **options)
    fail(agent, attempt_of(claim(agent, task=id)), now=NOW)
    return id


@pytest.mark.parametrize(
    ("retry_on", "failed_gets", "other_gets"),
    [(None, True, True), ("any", True, True), ("same", True, False), ("other", False, True)],
)
def test_retry_on_says_which_member_retries(
    agent: Agent,
    second: Agent,
    pool: Agent,
    retry_on: str | None,
    failed_gets: bool,
    other_gets: bool,
) -> None:
    see(agent, second)
    id = fail_once(agent, retry_on=retry_on)
    for each, gets in ((agent, failed_gets), (second, other_gets)):
        for limit in (1, 3):
            with transaction.atomic():
                found = claim(each, now=NOW + MINUTE, limit=limit)
                assert task_of(found) == (id if gets else None), (each, limit)
                transaction.set_rollback(True)


def test_a_pools_word_counts_where_the_task_has_none(agent: Agent, second: Agent) -> None:
    pool = make_pool("reviewers", agent, second, retry_on="same")
    id = fail_once(agent)
    assert Task.objects.get(pk=id).agent == agent
    assert Task.objects.get(pk=id).pool == pool
    any_one = fail_once(agent, retry_on="any")
    assert Task.objects.get(pk=any_one).agent == pool


def test_a_paused_pool_holds_retries_of_one_member(agent: Agent, pool: Agent) -> None:
    held, due = fail_once(agent, retry_on="same"), NOW + MINUTE
    agents.pause([pool], stamp=STAMP)
    for limit in (1, 3):
        found = claim(agent, now=due, limit=limit)
        assert (found.rows, found.next_due_at) == ([], None)
    with pytest.raises(InvalidTransition, match="The pool reviewers is paused"):
        claim(agent, task=held, now=due)
    own = make_task(agent)
    assert task_of(claim(agent, now=due)) == own
    agents.pause([pool], paused=False, stamp=STAMP)
    assert task_of(claim(agent, now=due)) == held


@pytest.mark.parametrize("unable", ["pause", "wait", "breaker", "silent", "gone"])
def test_the_agent_that_failed_retries_if_no_other_member_can(
    unable: str, agent: Agent, second: Agent, pool: Agent
) -> None:
    see(agent, second)
    id = fail_once(agent, retry_on="other")
    at = NOW + MINUTE
    with pytest.raises(InvalidTransition, match="waits for another member of the pool reviewers"):
        claim(agent, task=id, now=at)
    if unable == "breaker":
        Breaker.objects.create(agent=second, state="open", opened_at=NOW, updated_at=NOW)
    elif unable == "gone":
        membership.remove_members(pool, [second], stamp=STAMP)
    else:
        changes: dict[str, Any] = {
            "pause": {"paused": True},
            "wait": {"waits_until": NOW + HOUR},
            "silent": {"last_seen_at": NOW - HOUR},
        }[unable]
        Agent.objects.filter(pk=second.pk).update(**changes)
    assert task_of(claim(agent, now=at)) == id


def test_a_member_that_works_is_not_silent(agent: Agent, second: Agent, pool: Agent) -> None:
    id = fail_once(agent, retry_on="other")
    claim(second, task=make_task(second), now=NOW + MINUTE, lease_s=600)
    assert claim(agent, now=NOW + MINUTE).rows == []
    assert task_of(claim(agent, now=NOW + 11 * MINUTE)) == id


def test_a_retry_waits_for_another_member_an_hour_at_most(
    agent: Agent, second: Agent, pool: Agent
) -> None:
    id = fail_once(agent, retry_on="other")
    later = Task.objects.get(pk=id).due_at + HOUR
    Agent.objects.update(last_seen_at=later)
    assert claim(agent, now=later - MINUTE).rows == []
    assert task_of(claim(agent, now=later + MINUTE)) == id


def test_a_failure_belongs_to_the_member_in_the_journal(agent: Agent, pool: Agent) -> None:
    id = fail_once(agent)
    event = Event.objects.get(subject_id=id, kind="task.retry_scheduled")
    assert event.agent_id == agent.pk


def test_a_released_task_goes_back_to_the_pool(agent: Agent, second: Agent, pool: Agent) -> None:
    id = make_task(pool)
    found = claim(agent)
    releases.release(attempt_of(found), caller=TrustedCaller(SYSTEM, agent=agent), now=NOW)
    assert Task.objects.get(pk=id).agent == pool
    assert task_of(claim(second, now=NOW + MINUTE)) == id


def test_a_limit_of_the_members_account_lets_another_member_retry_at_once(
    agent: Agent, second: Agent, pool: Agent
) -> None:
    id = make_task(pool)
    line = "You've hit your session limit · resets 3:45pm"
    fail(agent, attempt_of(claim(agent)), now=NOW, message=line)
    assert Agent.objects.get(pk=agent.pk).waits_until
    assert claim(agent, now=NOW + MINUTE).rows == []
    assert task_of(claim(second, now=NOW + MINUTE)) == id
    assert Task.objects.get(pk=id).retry_count == 0


def test_the_tasks_of_a_member_that_leaves_go_back_to_the_pool(
    agent: Agent, second: Agent, pool: Agent
) -> None:
    id = fail_once(agent, retry_on="same")
    assert claim(second, now=NOW + MINUTE).rows == []
    membership.remove_members(pool, [agent], stamp=STAMP)
    assert task_of(claim(second, now=NOW + MINUTE)) == id


def test_the_running_task_of_a_member_that_left_is_retried_by_the_pool(
    agent: Agent, second: Agent, pool: Agent
) -> None:
    id = make_task(pool, retry_on="same", max_attempts=3)
    attempt = attempt_of(claim(agent))
    membership.remove_members(pool, [agent], stamp=STAMP)
    fail(agent, attempt, now=NOW)
    assert task_of(claim(second, now=NOW + MINUTE)) == id


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_dead_letter_of_a_pools_task_is_replayed_by_the_pool_while_it_exists(
    agent: Agent, pool: Agent, is_removed: bool
) -> None:
    make_task(pool, max_attempts=1)
    fail(agent, attempt_of(claim(agent)), now=NOW)
    if is_removed:
        membership.remove(pool, stamp=STAMP)
    letter = DeadLetter.objects.get()
    deadletters.replay([letter.pk], among=DeadLetter.objects.all(), stamp=STAMP)
    again = Task.objects.get(replay_of=letter.task_id)
    assert again.agent == (agent if is_removed else pool)


def test_a_person_changes_who_retries_a_waiting_task(
    agent: Agent, second: Agent, pool: Agent
) -> None:
    id = fail_once(agent)
    for retry_on, waits_for in (("same", agent), ("any", pool)):
        row = Task.objects.get(pk=id)
        change(id, Change(retry_on=retry_on), version=row.version, stamp=STAMP)
        assert Task.objects.get(pk=id).agent == waits_for


def test_a_task_moves_to_a_pool_and_away_from_it(agent: Agent, second: Agent, pool: Agent) -> None:
    id = make_task(agent)
    change(id, Change(agent=pool), version=1, stamp=STAMP)
    task = Task.objects.get(pk=id)
    assert (task.agent, task.pool, task.retry_on) == (pool, pool, "any")
    change(id, Change(agent=second), version=task.version, stamp=STAMP)
    task = Task.objects.get(pk=id)
    assert (task.agent, task.pool) == (second, None)


def test_a_task_that_moves_to_another_pool_takes_its_retry_on(agent: Agent, pool: Agent) -> None:
    other = make_pool("others", agent, retry_on="same")
    moved, own, kept = (make_task(pool, retry_on="other") for _ in range(3))
    change(moved, Change(agent=other), version=1, stamp=STAMP)
    change(own, Change(agent=other, retry_on="any"), version=1, stamp=STAMP)
    change(kept, Change(agent=pool), version=1, stamp=STAMP)
    found = [Task.objects.get(pk=id).retry_on for id in (moved, own, kept)]
    assert found == ["same", "any", "other"]


# ---- several at once


@pytest.mark.django_db(transaction=True)
def test_two_members_that_ask_at_once_get_two_tasks(
    agent: Agent, second: Agent, pool: Agent, elsewhere: Any
) -> None:
    first, next_one = make_task(pool), make_task(pool)
    with transaction.atomic():
        assert task_of(claim(agent)) == first
        # the first task is still locked here
        other = elsewhere(lambda: task_of(claim(second)))
        assert other.result(PATIENCE_S) == next_one
    assert Attempt.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_many_members_get_each_task_once(pool: Agent) -> None:
    members = [make_agent(f"member-{n}") for n in range(6)]
    membership.add_members(pool, members, stamp=STAMP)
    ids = {make_task(pool) for _ in range(30)}

    def drain(n: int) -> list[UUID]:
        found: list[UUID] = []
        while rows := claim(members[n], limit=1 + n % 3).rows:
            found += [row["id"] for row in rows]
        return found

    found = at_once(6, drain)
    assert [each for each in found if isinstance(each, Exception)] == []
    assert sorted(id for each in found for id in each) == sorted(ids)
    assert Attempt.objects.count() == 30


@pytest.mark.django_db(transaction=True)
def test_a_claim_locks_no_task_that_it_does_not_take(agent: Agent) -> None:
    pools = [make_pool(f"pool-{n}", agent) for n in range(5)]
    for each in pools:
        make_task(each)
    with transaction.atomic():
        taken = task_of(claim(agent))
        free = sql.run("select id from ledger_task where id <> %(id)s for update", id=taken)
    assert len(free) == 4


@pytest.mark.django_db(transaction=True)
def test_other_claims_see_the_heads_that_a_claim_compared(
    agent: Agent, second: Agent, elsewhere: Any
) -> None:
    one, two = make_pool("one", agent, second), make_pool("two", agent, second)
    first, next_one = make_task(one), make_task(two)
    with transaction.atomic():
        assert task_of(claim(agent)) == first
        assert elsewhere(lambda: task_of(claim(second))).result(PATIENCE_S) == next_one


@pytest.mark.django_db(transaction=True)
def test_a_task_is_not_sent_to_a_pool_that_is_being_removed(pool: Agent, elsewhere: Any) -> None:
    with transaction.atomic():
        membership.remove(pool, stamp=STAMP)
        late = elsewhere(lambda: make_task(pool))
        with blocked(late):
            pass
    with pytest.raises(agents.PoolRemoved):
        late.result(PATIENCE_S)


def test_an_accounts_facts_let_a_member_wait_and_not_the_pool(
    agent: Agent, second: Agent, pool: Agent
) -> None:
    id = make_task(pool)
    full = WindowFact(LimitWindow.FIVE_HOURS, 1.0, NOW + HOUR, NOW)
    accounts.note_windows(agent.pk, [full], source=LimitSource.CODEX, now=NOW)
    assert claim(agent).waits_until == NOW + HOUR
    assert task_of(claim(second)) == id
