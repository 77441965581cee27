"""Pools: their names, their members, and what their removal needs."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger import agents, instructions, tokens
from ledger.access.audit import audit
from ledger.errors import Invalid
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Event, Instruction, PoolMember, Task
from ledger.pools import figures, membership
from ledger.pools.membership import NameTaken, PoolHasTasks
from tests.factories import MINUTE, NOW, make_agent, make_project, send
from tests.retries.moves import claim, make_task

pytestmark = pytest.mark.django_db
STAMP = Stamp(SYSTEM, NOW)


def make_pool(name: str = "reviewers", *members: Agent, **more: Any) -> Agent:
    return membership.create(name, members=members, project=make_project(), stamp=STAMP, **more)


def members_of(pool: Agent) -> list[str]:
    return [agent.name for agent in membership.list_members(pool)]


def test_pools_and_agents_share_their_names(agent: Agent) -> None:
    with pytest.raises(NameTaken, match="has an agent called 'coder'"):
        make_pool("coder")
    pool = make_pool()
    with pytest.raises(NameTaken, match="has a pool called 'reviewers'"):
        make_pool()
    assert agents.register("reviewers", project=pool.project, stamp=STAMP) == pool


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 65, " x", "a\nb"])
def test_a_pools_name_follows_the_rules_of_agents_names(db: None, name: str) -> None:
    with pytest.raises(Invalid):
        make_pool(name)


def test_only_agents_of_the_project_are_members(agent: Agent) -> None:
    pool, other = make_pool(), make_agent(project=make_project("other"))
    for wrong in (make_pool("more"), other):
        with pytest.raises(Invalid):
            membership.add_members(pool, [wrong], stamp=STAMP)
    assert members_of(pool) == []


def test_members_are_added_once_and_the_journal_names_them(agent: Agent) -> None:
    pool, second = make_pool("reviewers", agent), make_agent("second")
    assert membership.add_members(pool, [agent, second], stamp=STAMP) == [second]
    assert membership.add_members(pool, [agent, second], stamp=STAMP) == []
    told = Event.objects.filter(kind="pool.changed").order_by("id").values_list("data", flat=True)
    assert list(told) == [{"added": ["coder"]}, {"added": ["second"]}]


def test_an_agent_that_left_one_pool_stays_in_the_other(agent: Agent) -> None:
    one, two = make_pool("one", agent), make_pool("two", agent)
    membership.remove_members(one, [agent], stamp=STAMP)
    assert Agent.objects.get(pk=agent.pk).in_pools
    membership.remove_members(two, [agent], stamp=STAMP)
    assert not Agent.objects.get(pk=agent.pk).in_pools


def test_an_agent_is_in_a_limited_number_of_pools(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "MOST_POOLS", 1)
    make_pool("one", agent)
    with pytest.raises(Invalid, match="is in 1 pools"):
        make_pool("two", agent)


def test_a_pool_with_open_tasks_is_removed_only_if_they_go_elsewhere(agent: Agent) -> None:
    pool = make_pool("reviewers", agent)
    running, waiting = make_task(pool), make_task(pool)
    claim(agent)
    with pytest.raises(PoolHasTasks, match="has 2 open tasks"):
        membership.remove(pool, stamp=STAMP)
    assert membership.remove(pool, move_to=agent, stamp=STAMP) == 2
    moved = {row.pk: (row.agent, row.pool) for row in Task.objects.all()}
    assert moved == {running: (agent, None), waiting: (agent, None)}
    assert not PoolMember.objects.exists()
    with pytest.raises(agents.PoolRemoved):
        agents.get_by_name("reviewers", project=pool.project)
    with pytest.raises(agents.PoolRemoved):
        make_task(pool)


def test_tasks_of_a_removed_pool_can_go_to_another_one(agent: Agent) -> None:
    pool, other = make_pool("reviewers", agent), make_pool("others", retry_on="other")
    running, waiting = make_task(pool), make_task(pool)
    claim(agent)
    membership.remove(pool, move_to=other, stamp=STAMP)
    moved = {row.pk: (row.agent, row.pool) for row in Task.objects.all()}
    assert moved == {running: (agent, other), waiting: (other, other)}
    assert {row.retry_on for row in Task.objects.all()} == {"other"}


def test_a_removed_pool_comes_back_by_its_name(agent: Agent) -> None:
    pool = make_pool("reviewers", agent)
    membership.remove(pool, stamp=STAMP)
    again = make_pool("reviewers", retry_on="other")
    assert (again.pk, members_of(again), again.retry_on) == (pool.pk, [], "other")


def test_a_pool_has_no_token(agent: Agent) -> None:
    pool = make_pool()
    with pytest.raises(Invalid, match="Create tokens for its members"):
        tokens.issue("agent", project=pool.project, agent=pool, stamp=STAMP)


def test_an_instruction_to_a_pool_goes_to_each_member(agent: Agent) -> None:
    pool = make_pool("reviewers", agent, make_agent("second"))
    row = instructions.send(pool, "Look at the log", stamp=STAMP)
    sent = Instruction.objects.order_by("agent__name")
    assert [each.agent.name for each in sent] == ["coder", "second"]
    assert [row["id"], *row["also_sent"]] == [each.pk for each in sent]
    with pytest.raises(Invalid, match="has no members"):
        send(make_pool("empty"))


def test_the_figures_say_what_waits_and_why_members_claim_nothing(
    agent: Agent, django_assert_num_queries: Callable[..., Any]
) -> None:
    second = make_agent("second")
    pool, other = make_pool("reviewers", agent, second), make_pool("other", second)
    make_task(agent)
    claim(agent)
    make_task(pool, now=NOW - MINUTE)
    make_task(pool)
    claim(second)
    Agent.objects.filter(pk=second.pk).update(paused=True)
    found = figures.read_figures([pool.pk, other.pk], now=NOW + MINUTE)
    assert (found[pool.pk].queued, found[pool.pk].running, found[other.pk].running) == (1, 1, 0)
    assert found[pool.pk].oldest_at == NOW
    holds = {each.name: each.find_hold(NOW, silent=MINUTE) for each in found[pool.pk].members}
    assert holds == {"coder": "", "second": "paused"}


def test_the_audit_finds_tasks_and_members_that_fit_no_pool(agent: Agent) -> None:
    make_task(make_pool("reviewers", agent))
    assert list(audit()) == []
    Task.objects.update(pool=agent)
    Agent.objects.update(in_pools=False)
    assert [found.what for found in audit()] == ["pool", "member"]


def test_a_pool_is_no_silent_agent(agent: Agent) -> None:
    make_task(make_pool("reviewers", agent), now=NOW)
    assert list(agents.find_silent(NOW + 100 * MINUTE)) == []
