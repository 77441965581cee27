"""Seed a Tenfour database with bulk data, in a separate process: `python -m bench.seed STEPS`."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.db import connection

from bench.seed_budgets import budgeted_tasks
from bench.seed_details import seed_details
from bench.seed_journal import YEAR, lay_out_year

# Instruction `g` goes to agent `g % agents`, so each agent's share is spread over the table.
INSTRUCTIONS = """
insert into ledger_instruction (project_id, agent_id, content, content_sha256, tracked, state,
    retry_count, max_retries, deliveries, on_failed, position, sent_by_type, sent_by_id,
    sent_by_name, queued_at, delivered_at, acknowledged_at, acknowledged_by, outcome, updated_at)
select a.project_id, a.id, 'Look at thing ' || g, sha256(('Look at thing ' || g)::bytea), true,
    %(state)s, %(retries)s, 3, 1, 'record', nextval('ledger_instruction_position'), 'token',
    'bench', 'bench', now(), case when %(state)s <> 'queued' then now() - interval '1 hour' end,
    case when %(state)s = 'acknowledged' then now() end,
    case when %(state)s = 'acknowledged' then '{}'::jsonb end,
    case when %(state)s = 'acknowledged' then 'done' end, now()
from generate_series(%(first)s::int, %(last)s::int) g
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = g %% a.of
"""
EVENTS = """
insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id, to_state,
    actor_type)
select queued_at, project_id, 'instruction.queued', 'instruction', id, agent_id, 'queued', 'token'
from ledger_instruction
"""
# One month of a project: most instructions are acknowledged at once, some after a reminder, some
# never; every thousandth is pending. Each has five events.
INSTRUCTION_MONTH = """
insert into ledger_instruction (id, project_id, agent_id, content, content_sha256, tracked, state,
    retry_count, max_retries, deliveries, on_failed, position, sent_by_type, sent_by_id,
    sent_by_name, queued_at, delivered_at, acknowledged_at, failed_at, cancelled_at,
    acknowledged_by, outcome, updated_at)
select uuidv7(at - now()), a.project_id, a.id, 'Thing ' || g || ': ' || repeat(md5(g::text), 4),
    sha256(g::text::bytea), true, state, retries, 3, retries + 1, 'record',
    nextval('ledger_instruction_position'), 'token', 'bench', 'bench', at, at + interval '1 s',
    case when state = 'acknowledged' then at + interval '1 s' * exp(g %% 5) end,
    case when state = 'failed' then at + interval '3 min' end,
    case when state = 'cancelled' then at + interval '1 min' end,
    case when state = 'acknowledged' then '{"actor": "token", "name": "bench"}'::jsonb end,
    case when state = 'acknowledged' then 'done' end, at + interval '3 min'
from (
    select g, now() - interval '30 days' * (1 - g::float / %(count)s) - interval '5 min' as at,
        case when g %% 1000 = 0 then 'delivered' when g %% 50 = 1 then 'failed'
            when g %% 100 = 2 then 'cancelled' else 'acknowledged' end as state,
        case when g %% 50 = 1 then 3 when g %% 10 = 3 then 1 when g %% 30 = 4 then 2
            else 0 end as retries
    from generate_series(1, %(count)s::int) g
) x
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = x.g %% a.of
"""
FIVE_EVENTS = """
insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id, to_state,
    actor_type, actor_name)
select queued_at + interval '1 s' * k, project_id, 'instruction.' || (array['queued', 'delivered',
    'requeued', 'delivered', 'acknowledged'])[k], 'instruction', id, agent_id, 'queued', 'token',
    'bench'
from ledger_instruction, generate_series(1, 5) k
"""
# Tasks go to all agents in turn, or all to the first agent, so that one queue holds the table.
TASKS = """
insert into ledger_task (project_id, agent_id, title, type, state, payload, max_attempts,
    attempt_limit, attempts, retry_count, on_exhausted, base_delay_ms, max_delay_ms,
    exponential_base, jitter, lease_s, timeout_s, idempotent, due_at, created_by_type,
    created_by_name, created_at, updated_at)
select a.project_id, a.id, 'Thing ' || g, 'bench', %(state)s, '{}', 3, 3, %(attempts)s,
    %(attempts)s, 'dead_letter', 100, 30000, 2, true, 300, 3600, true,
    now() + %(due)s::interval + interval '1 ms' * g, 'token', 'bench', now(), now()
from generate_series(1, %(count)s::int) g
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = case when %(all)s then g %% a.of else 0 end
"""
# One in ten is replayed or dismissed; each has its final failure.
DEAD_LETTERS = (
    """
insert into ledger_task (id, project_id, agent_id, title, type, state, payload, max_attempts,
    attempt_limit, attempts, retry_count, on_exhausted, base_delay_ms, max_delay_ms,
    exponential_base, jitter, lease_s, timeout_s, idempotent, error, created_by_type,
    created_by_name, created_at, updated_at, completed_at)
select uuidv7(interval '1 second' * (g - %(count)s)), a.project_id, a.id, 'Thing ' || g, 'bench',
    'failed', '{}', 3, 3, 3, 3, 'dead_letter', 100, 30000, 2, true, 300, 3600, true,
    'thing ' || g || ' is broken', 'token', 'bench', now(), now(), now()
from generate_series(1, %(count)s::int) g
join (select *, row_number() over (order by name) - 1 as n, count(*) over () as of
      from ledger_agent) a on a.n = g %% a.of
""",
    """
insert into ledger_attempt (id, task_id, agent_id, number, outcome, started_at, ended_at, lease_s,
    lease_expires_at, deadline_at)
select uuidv7(), id, agent_id, 3, 'failure', now(), now(), 300, now(), now() from ledger_task
""",
    """
insert into ledger_failure (attempt_id, task_id, at, type, message, telling_lines)
select id, task_id, now(), 'execution_error', 'broken', 'broken' from ledger_attempt
""",
    """
insert into ledger_deadletter (project_id, agent_id, task_id, type, payload, error, reason,
    retry_count, failed_at, closed_at, closed_as)
select project_id, agent_id, id, type, payload, error, 'max_retries_exceeded', 3, now(),
    case when n %% 10 = 0 then now() end,
    case n %% 20 when 0 then 'replayed' when 10 then 'dismissed' end
from (select *, row_number() over (order by id) as n from ledger_task) t order by id
""",
)
# Run after DEAD_LETTERS: the failures share one pattern, and most tasks are done after an answer
# with a fix. The last escalations are open.
ESCALATIONS = (
    """
update ledger_task set state = 'done', completed_at = now(), attempts = 4, attempt_limit = 4
where id not in (select id from ledger_task order by id desc limit %(open)s)
""",
    """
update ledger_task set state = 'escalated', completed_at = null where state = 'failed'
""",
    "delete from ledger_deadletter",
    """
update ledger_attempt a set started_at = t.updated_at - interval '2 hours',
    ended_at = t.updated_at - interval '1 hour'
from ledger_task t where t.id = a.task_id
""",
    "update ledger_failure set at = now() - interval '1 hour'",
    """
insert into ledger_attempt (id, task_id, agent_id, number, outcome, started_at, ended_at, lease_s,
    lease_expires_at, deadline_at)
select uuidv7(), id, agent_id, 4, 'success', now(), now(), 300, now(), now() from ledger_task
where state = 'done'
""",
    """
insert into retries_failurepattern (project_id, fingerprint, template, example, first_seen,
    last_seen, state_at, updated_at)
select id, 'broken', 'broken', 'broken', now(), now(), now(), now() from ledger_project
""",
    """
insert into retries_grouped (failure_id, pattern_id, agent_id, at)
select f.id, p.id, t.agent_id, f.at from ledger_failure f join ledger_task t on t.id = f.task_id,
    retries_failurepattern p
""",
    """
insert into retries_escalation (id, project_id, agent_id, task_id, state, reason, raised_by_type,
    raised_by_name, attempts, attempt_limit, retry_count, opened_at, updated_at, closed_at, action,
    fix, answered_by_type, answered_by_name, channel)
select uuidv7(interval '1 second' * (row_number() over (order by id) - 20000)), project_id,
    agent_id, id, case state when 'done' then 'resolved' else 'open' end, 'max_retries_exceeded',
    'system', 'tenfour', 3, 3, 3, now() - interval '50 minutes', now(),
    case state when 'done' then now() - interval '30 minutes' end,
    case state when 'done' then 'fix' end,
    case state when 'done' then 'Look at thing ' || right(id::text, 1) else '' end, 'user', 'mara',
    'page'
from ledger_task
""",
)
AGENTS = """
insert into ledger_agent (project_id, name)
select id, 'agent-' || lpad(g::text, 5, '0') from ledger_project, generate_series(1, %(count)s) g
"""


def execute(statement: str, **params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def agents(count: int) -> None:
    execute(AGENTS, count=count)


def tokens(count: int) -> dict[str, str]:
    """Issue tokens for the first `count` agents; return the secrets by agent name."""
    from ledger import tokens
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent

    found = Agent.objects.select_related("project").order_by("name")[:count]
    return {
        agent.name: tokens.issue("agent", project=agent.project, agent=agent, stamp=Stamp(SYSTEM))[
            1
        ]
        for agent in found
    }


def idle_tokens(count: int) -> list[str]:
    """Register agents that get no work; return a secret for each."""
    from ledger import tokens
    from ledger.access.scopes import PRESETS
    from ledger.models import Agent, Project, Token
    from ledger.models.token import TokenKind

    project, secrets = Project.objects.earliest("id"), []
    names = [f"idle-{number:05}" for number in range(count)]
    Agent.objects.bulk_create(Agent(project=project, name=name) for name in names)
    found = []
    for agent in Agent.objects.filter(name__in=names):
        secrets.append(tokens.new_secret(TokenKind.AGENT))
        found.append(
            Token(
                kind=TokenKind.AGENT,
                project=project,
                agent=agent,
                name=agent.name,
                prefix=secrets[-1][:16],
                digest=tokens.digest_of(secrets[-1]),
                scopes=sorted(PRESETS[TokenKind.AGENT]),
            )
        )
    Token.objects.bulk_create(found)
    return secrets


def project_token(kind: str) -> str:
    """Issue a token of a kind without an agent for the first agent's project; return its secret."""
    from ledger import tokens
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent

    project = Agent.objects.select_related("project").earliest("name").project
    return tokens.issue(kind, project=project, stamp=Stamp(SYSTEM))[1]


def instructions(count: int, state: str, *, first: int = 1, retries: int = 0) -> None:
    execute(INSTRUCTIONS, first=first, last=first + count - 1, state=state, retries=retries)


def instructions_with_events(count: int, state: str) -> None:
    """Insert instructions with one event each."""
    with deferred_indexes("ledger_event"), deferred_indexes("ledger_instruction"):
        instructions(count, state)
        events()


def instruction_month(count: int) -> None:
    """Insert instructions over the last 30 days with five events each."""
    with deferred_indexes("ledger_event"), deferred_indexes("ledger_instruction"):
        execute(INSTRUCTION_MONTH, count=count)
        execute(FIVE_EVENTS)


def journal_partitions() -> None:
    lay_out_year(execute)


def journal_year(count: int) -> None:
    """Insert events over the last year."""
    with deferred_indexes("ledger_event"):
        execute(YEAR, count=count)


def tasks(queued: int = 0, waiting: int = 0, due: int = 0) -> None:
    """Insert queued tasks, waiting retries, and due retries for one agent."""
    with deferred_indexes("ledger_task"):
        execute(TASKS, all=False, count=queued, state="queued", attempts=0, due=None)
        execute(TASKS, all=False, count=waiting, state="retry", attempts=1, due="1 day")
        execute(TASKS, all=False, count=due, state="retry", attempts=1, due="-1 day")


def volume(count: int, headlines: int = 0) -> None:
    """Insert tasks with their attempts, failures, escalations, dead letters and events."""
    from bench.seed_volume import seed_volume  # its statements need Django's apps

    seed_volume(execute, deferred_indexes, count=count, headlines=headlines)


def details() -> None:
    """Insert sessions, a standing instruction, and an operation after tasks and instructions."""
    seed_details(execute)


def queued_tasks(count: int) -> None:
    """Insert queued tasks for all agents."""
    execute(TASKS, all=True, count=count, state="queued", attempts=0, due=None)


def dead_letters(count: int) -> None:
    """Insert failed tasks with their dead letters."""
    tables = ("ledger_task", "ledger_attempt", "ledger_failure", "ledger_deadletter")
    for table, statement in zip(tables, DEAD_LETTERS, strict=True):
        with deferred_indexes(table):
            execute(statement, count=count)


def escalations(open: int) -> None:
    """Replace the dead letters with escalations; all but `open` of them are answered."""
    from retries.failures.failure_counts import add_up_counts

    for statement in ESCALATIONS:
        execute(statement, open=open)
    add_up_counts()


def stress_tasks(count: int) -> None:
    """Enqueue tasks with short leases and many attempts, as a producer does."""
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent
    from ledger.tasks import Spec, enqueue_many

    agent = Agent.objects.select_related("project").get(name="agent-00001")
    spec = Spec(type="bench", payload={"n": 1}, lease_s=5, max_attempts=100)
    for first in range(0, count, 500):
        enqueue_many([(agent, spec)] * min(500, count - first), stamp=Stamp(SYSTEM))


def exclusive_tasks(count: int) -> None:
    """Add a plan of `count` tasks whose files overlap, and two plans of 1,000 without overlaps."""
    import random

    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent, Plan
    from ledger.tasks import Spec, enqueue_many

    at = random.Random(7)

    def files_of(n: int) -> list[str]:
        if at.random() < 0.001:
            return ["**"]
        if at.random() < 0.02:
            return [f"src/{at.randrange(8)}/"]
        return [f"src/{at.randrange(8)}/{at.randrange(5)}.py" for _ in range(1 + n % 3)]

    plans = (
        ("01-01", True, count, files_of),
        ("01-02", False, 1_000, lambda n: [f"src/{n}.py"]),
        ("01-03", True, 1_000, lambda n: [f"src/{n}.py"]),
    )
    stamp = Stamp(SYSTEM)
    for place, (ref, exclusive, size, files) in enumerate(plans, 1):
        agent = Agent.objects.select_related("project").get(name=f"agent-{place:05}")
        plan = Plan.objects.create(
            project=agent.project,
            ref=ref,
            source={"tasks": []},
            content_hash=ref,
            exclusive_files=exclusive,
            created_by_type="system",
            created_by_name="bench",
            created_at=stamp.at,
            updated_at=stamp.at,
        )
        for first in range(0, size, 500):
            specs = [
                Spec(
                    type="b", payload={"files": files(n)}, plan_id=plan.pk, ref=f"{ref}:{n}", run=1
                )
                for n in range(first, min(size, first + 500))
            ]
            enqueue_many([(agent, spec) for spec in specs], stamp=stamp)


def audit() -> list[str]:
    """Return the ledger audit's findings."""
    from ledger.access.audit import audit

    return [str(finding) for finding in audit()]


def plans(count: int, tasks: int) -> None:
    """Import plans of `tasks` tasks each, in chains of three."""
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Plan, Project
    from ledger.planfile import canonical
    from retries.plans.importing import import_plan

    project = Project.objects.get(name="default")
    first = Plan.objects.count() + 1
    for number in range(first, first + count):
        plan_tasks = [
            {"agent": f"agent-{n % 7 + 1:05}", **({"needs": f"task-{n}"} if n % 3 else {})}
            for n in range(tasks)
        ]
        file = canonical({"ref": f"01-{number}", "title": f"Plan {number}", "tasks": plan_tasks})
        import_plan(project, file, stamp=Stamp(SYSTEM))


def operator(name: str) -> None:
    """Create an operator who may sign in."""
    from django.contrib.auth.models import User

    User.objects.create_user(name, is_staff=True, is_superuser=True)


def session_cookie(name: str) -> tuple[str, str]:
    """Sign an operator in; return the name and the value of the session's cookie."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.get(username=name))
    cookie = settings.SESSION_COOKIE_NAME
    return cookie, client.cookies[cookie].value


def events() -> None:
    """Insert one event for each instruction."""
    execute(EVENTS)


@contextmanager
def deferred_indexes(table: str) -> Iterator[None]:
    """Drop a table's indexes and recreate them at the end, which is faster than row by row."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select indexrelid::regclass::text,"
            " replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') from pg_index"
            " where indrelid = %s::regclass"
            " and not exists (select from pg_constraint where conindid = indexrelid)",
            [table],
        )
        found = dict(cursor.fetchall())
        for name in found:
            cursor.execute(f"drop index {name}")
        yield
        for definition in found.values():
            cursor.execute(definition)


def vacuum() -> None:
    execute("vacuum analyze")


def new_words() -> None:
    """Write the words of all new rows, as the clock does."""
    from django.utils import timezone

    from retries.journal_readers.new_words import write_words

    while write_words(now=timezone.now())["batches"]:
        pass


def run_clock_entry(entry: str) -> None:
    """Send a clock entry's job to the worker, as the clock does."""
    from config.celery import app

    due = app.conf.beat_schedule[entry]
    app.send_task(due["task"], kwargs=due["kwargs"])


def main(argv: list[str]) -> None:
    """Run the steps given as JSON, [[name, {arguments}], …]; print each result on a line."""
    django.setup()
    execute("set statement_timeout = 0")  # pages have a minute; a million rows may take longer
    for name, arguments in json.loads(argv[0]):
        print(json.dumps(STEPS[name](**arguments)))


STEPS: dict[str, Callable[..., Any]] = {
    "journal_partitions": journal_partitions,
    "journal_year": journal_year,
    "agents": agents,
    "tokens": tokens,
    "idle_tokens": idle_tokens,
    "project_token": project_token,
    "instructions": instructions,
    "events": events,
    "instructions_with_events": instructions_with_events,
    "instruction_month": instruction_month,
    "plans": plans,
    "operator": operator,
    "session_cookie": session_cookie,
    "vacuum": vacuum,
    "new_words": new_words,
    "tasks": tasks,
    "dead_letters": dead_letters,
    "escalations": escalations,
    "queued_tasks": queued_tasks,
    "volume": volume,
    "details": details,
    "stress_tasks": stress_tasks,
    "exclusive_tasks": exclusive_tasks,
    "budgeted_tasks": budgeted_tasks,
    "audit": audit,
    "run_clock_entry": run_clock_entry,
}

if __name__ == "__main__":
    main(sys.argv[1:])
