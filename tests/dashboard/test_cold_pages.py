"""How many statements a page runs that shows all it can, while nothing is cached."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Membership, Task
from ledger.roles import Role
from retries.plans import aborting, restarting
from tests.access_world import make_world
from tests.dashboard.plans.conftest import TASKS
from tests.dashboard.worked import claimed, failed, make_plan

MINUTE = timedelta(minutes=1)
MOST = 15
LISTS = (
    *("tasks", "instructions", "plans", "dead-letters", "patterns", "agents", "sessions"),
    *("activity", "escalations", "search"),
)


@pytest.fixture
def member(agent: Agent) -> Client:
    """Return a client with an admin of the project signed in, who has no other rights."""
    user = User.objects.create_user("eve")
    Membership.objects.create(user=user, project=agent.project, role=Role.ADMIN, added_by="mara")
    client = Client()
    client.force_login(user)
    return client


def restart_plan(agent: Agent, now: datetime) -> tuple[str, str]:
    """Return the addresses of a restarted plan, and of a running task that it carried over."""
    start = now - 20 * MINUTE
    plan, ids = make_plan("07-01", TASKS, title="Ledger", agent=agent, now=start)
    failed(agent, ids[0], now=start, message="3 of 9 differ", type="verification_failed")
    stamp = Stamp(SYSTEM, start + 2 * MINUTE)
    aborting.abort([plan.pk], stamp=stamp)
    restarting.restart(plan.pk, carry_over=start, stamp=stamp)
    going_on = Task.objects.current().get(plan=plan, ref="07-01:task-1")
    assert going_on.carries_id == ids[0]
    claimed(agent, going_on.pk, now=now - MINUTE)
    return f"/plans/{plan.pk}/", f"/tasks/{going_on.pk}/"


def test_every_page_with_cold_caches_runs_at_most_15_statements(
    browser: Client,
    member: Client,
    agent: Agent,
    now: datetime,
    statements: Callable[..., int],
) -> None:
    """Each page has its neighbors in a list; the sessions of browsers are read as well."""
    ids = make_world(agent, now).ids
    plan, task = restart_plan(agent, now)
    words, sorted_by = "?q=zebra", "?q=agent:coder&sort="
    paths = [
        f"/agents/{agent.pk}/?sort=errors&range=7d",
        f"{task}?q=schema",
        f"{task}{sorted_by}-attempts",
        f"/tasks/{ids['task_id']}/{words}",
        f"{plan}?q=ledger&sort=-created",
        f"/dead-letters/{ids['letter_id']}/{words}",
        f"/patterns/{ids['pattern_id']}/{words}",
        f"/sessions/{ids['session_id']}/{sorted_by}&make=4",
        f"/instructions/{ids['ignored_id']}/{words}",
        f"/instructions/standing/{ids['rule_id']}/",
        *(f"/escalations/{ids[name]}/{words}" for name in ("escalation_id", "undoable_id")),
        f"/escalations/{ids['question_id']}/?answered={ids['undoable_id']}",
        f"/operations/{ids['operation_id']}/",
        *(f"/{name}/{words}" for name in LISTS),
        *("/", "/insight/"),
        *(f"/settings/{name}/" for name in ("people", "tokens", "notifications", "audit")),
    ]
    found = {}
    for path in paths:
        for who, client in (("superuser", browser), ("member", member)):
            cache.clear()
            found[path, who] = statements(client, path)
    assert {key: count for key, count in found.items() if count > MOST} == {}
