"""How many statements a page runs that shows all it can, while nothing is cached."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Breaker, Membership, Task
from ledger.states import TaskState
from retries.models import Channel
from retries.plans import aborting, restarting
from tests.access_world import make_world
from tests.dashboard.notifications.deliveries import make_delivery
from tests.dashboard.plans.conftest import TASKS
from tests.dashboard.worked import claimed, failed, make_plan, make_task
from tests.factories import make_agent, make_token
from tests.ledger.standing_instructions.rules import make_rule
from tests.retries.operations.worlds import start as start_operation

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
    browser: Client, member: Client, agent: Agent, now: datetime, statements: Callable[..., int]
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
        *(
            f"/settings/{name}/"
            for name in ("people", "tokens", "notifications", "on-call", "audit")
        ),
    ]
    found = {}
    for path in paths:
        for who, client in (("superuser", browser), ("member", member)):
            cache.clear()
            found[path, who] = statements(client, path)
    # Overview has the causes of the last hour and markers beside its other figures. A task and a
    # plan have budgets, and a pattern has the marker before it.
    more = {"/": 3, plan: 1, task: 1, f"/patterns/{ids['pattern_id']}/": 1}
    assert {
        key: n for key, n in found.items() if n > MOST + more.get(key[0].partition("?")[0], 0)
    } == {}


def test_lists_settings_and_forms_run_as_many_statements_for_many_rows(
    browser: Client, member: Client, agent: Agent, now: datetime, statements: Callable[..., int]
) -> None:
    ids = make_world(agent, now).ids
    answer_all = f"/escalations/answer-all/?pattern={ids['pattern_id']}"
    paths = [
        *("/instructions/standing/", "/operations/", "/settings/deliveries/", answer_all),
        *("/settings/", "/settings/policies/", "/settings/profile/"),
        f"/settings/deliveries/?open={ids['delivery_id']}",
        f"/settings/notifications/rules/{ids['notification_rule_id']}/preview/",
        f"/settings/notifications/?edit={ids['notification_rule_id']}",
        f"/settings/notifications/?channel={ids['channel_id']}",
        f"/tasks/{ids['task_id']}/contexts/",
        f"/tasks/{ids['task_id']}/spans/1/",
        f"/agents/connect/?token={ids['token_id']}",
        f"/agents/connect/{ids['token_id']}/",
        f"/instructions/{ids['ignored_id']}/edit/",
        f"/instructions/standing/{ids['rule_id']}/edit/",
        *("/instructions/new/", "/instructions/standing/new/"),
        *("/plans/import/", "/sessions/import/", "/settings/tokens/?new=1"),
        f"/plans/{ids['plan_id']}/summary/",
    ]

    def count() -> dict[tuple[str, str], int]:
        found = {}
        for path in paths:
            for who, client in (("superuser", browser), ("member", member)):
                cache.clear()
                found[path, who] = statements(client, path)
        return found

    few = count()
    channel = Channel.objects.get(pk=ids["channel_id"])
    why = {"message": "zebra broke", "type": "verification_failed"}
    Breaker.objects.all().delete()  # what the world failed has opened it
    for number in range(12):
        make_rule(f"Rule {number}", project=agent.project)
        make_delivery(channel, now=now)
        make_token("agent", agent=make_agent(f"a{number}"), name=f"t{number}")
        task = make_task(TaskState.ESCALATED, agent=agent, now=now, why=why)
        start_operation("task.skip", Task.objects.filter(pk=task.pk), now=now)
    many = count()
    more = {"/settings/policies/": 1}  # it has a scope of files beside its policies
    assert {key: n for key, n in many.items() if n > MOST + more.get(key[0], 0)} == {}
    assert {key: (few[key], many[key]) for key in few if many[key] > few[key]} == {}
