"""How agents are found that have not called although something waits for them."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from ledger.agents import find_silent
from ledger.models import Agent
from ledger.states import TaskState
from tests.dashboard.worked import make_task
from tests.factories import make_agent

pytestmark = pytest.mark.django_db

# in the order in which the indexes of all agents have them, so that reading all looks cheap
MANY = """insert into ledger_task
select copy.* from ledger_task t, generate_series(1, 100) g,
    (select id, row_number() over () as n from ledger_agent) a,
    jsonb_populate_record(t, jsonb_build_object(
        'id', uuidv7(), 'agent_id', a.id, 'due_at', t.due_at + g * interval '1 s'
    )) copy
order by t.state, g, a.n"""


def test_the_tasks_of_all_agents_are_not_read_for_each_of_them(agent: Agent) -> None:
    now = timezone.now()
    for number in range(29):
        make_agent(f"agent-{number}")
    for state in (TaskState.QUEUED, TaskState.RETRY, TaskState.SKIPPED):
        make_task(state, agent=agent, now=now - timedelta(hours=2))
    Agent.objects.update(last_seen_at=now - timedelta(hours=1))
    with connection.cursor() as cursor:
        cursor.execute(MANY)
        cursor.execute("analyze ledger_task")
        sql, params = find_silent(now).query.sql_with_params()
        cursor.execute(f"explain {sql}", params)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    used = set(re.findall(r"Scan (?:using|on) (task_\w+)", plan))
    assert used == {"task_queue", "task_retries"}, plan
    assert find_silent(now).count() == 30
