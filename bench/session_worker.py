"""Create, feed and process sessions in a separate process: `python -m bench.session_worker MODE`."""

import json
import os
import sys
import time
from collections import defaultdict
from itertools import pairwise
from typing import Any

import django
import psycopg

# The same rows as a batch with the tracker `todo`, in one transaction without any check.
BARE = (
    """with h as (
        insert into ledger_sessionbatch (session_id, tracker, first_order, last_order,
            message_count, outcome, responses, calls, started_at, ended_at)
        values (%(session)s, 'todo', 1, 32, 32, 'success', 1, 8, now(), now()) returning id
    ), t as (
        insert into ledger_sessiontask (session_id, "order", description, progress, state,
            created_at, updated_at)
        select %(session)s, n, 'Step ' || n, '["To-do list #1"]', 'running', now(), now()
        from generate_series(1, 3) n returning id, "order"
    )
    update ledger_message m set state = 'success', batch_id = (select id from h),
        session_task_id = (select id from t where t."order" = m."order" %% 3 + 1)
    where m.session_id = %(session)s and m.state = 'pending'""",
    """update ledger_session set pending_count = 0, success_count = 32, task_count = 3,
        task_running_count = 3, version = version + 1, last_outcome = 'success',
        updated_at = now()
    where id = %(session)s""",
    """insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id,
        actor_type, actor_id, actor_name, data)
    select now(), project_id, 'session.task_created', 'session', id, agent_id, 'system', 'bench',
        'bench', jsonb_build_object('order', n, 'description', 'Step ' || n, 'state', 'running')
    from ledger_session, generate_series(1, 4) n where id = %(session)s""",
)
ITEMS = [{"content": f"Step {n}", "activeForm": "", "status": "in_progress"} for n in range(1, 4)]


def create(count: int) -> list[str]:
    """Create sessions for all agents in turn; return their ids with the names of the agents."""
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent
    from ledger.sessions import storing

    agents = list(Agent.objects.select_related("project").order_by("name"))
    made = []
    for number in range(count):
        agent = agents[number % len(agents)]
        session, _ = storing.create_session(agent, stamp=Stamp(SYSTEM))
        made.append(f"{session.id} {agent.name}")
    return made


def feed(sessions: int, messages: int) -> dict[str, Any]:
    """Store messages one by one in all sessions in turn; return how many timers were set."""
    from ledger.journal import SYSTEM
    from ledger.models import Project
    from ledger.sessions import storing
    from ledger.sessions.message_parts import Call, Text
    from ledger.sessions.storing import NewMessage
    from ledger.tokens import TrustedCaller
    from retries.sessions import buffering

    timers: dict[str, list[float]] = defaultdict(list)
    send = buffering.send_job

    def count_timer(name: str, event: Any, *, countdown: float = 0) -> bool:
        if event.skip_latest_check:
            timers[event.session_id].append(time.monotonic())
        return send(name, event, countdown=countdown)

    buffering.send_job = count_timer
    ids = [line.split()[0] for line in create(sessions)]
    caller = TrustedCaller(SYSTEM, project_id=Project.objects.get().pk)
    began = time.monotonic()
    for number in range(messages):
        for id in ids:
            part = (
                Call("t", "TodoWrite", {"todos": ITEMS}) if number == 5 else Text(f"Line {number}")
            )
            message = NewMessage("assistant", [part])
            buffering.announce(storing.store_messages(id, [message], caller=caller))  # type: ignore[arg-type]
    gaps = [after - before for times in timers.values() for before, after in pairwise(times)]
    return {
        "seconds": time.monotonic() - began,
        "timers": sum(map(len, timers.values())),
        "least_gap": min(gaps, default=1e9),
    }


def compare(count: int) -> list[tuple[float, float]]:
    """Return the milliseconds of batches of 32, ours and bare, in turn."""
    from ledger.journal import SYSTEM
    from ledger.models import Session
    from ledger.sessions import storing
    from ledger.sessions.message_parts import Call, Text
    from ledger.sessions.storing import NewMessage
    from ledger.tokens import TrustedCaller
    from retries.sessions.processing import process_session

    texts = [NewMessage("assistant", [Text(f"Line {n}")]) for n in range(31)]
    texts.insert(1, NewMessage("assistant", [Call("t", "TodoWrite", {"todos": ITEMS})]))

    def prepare() -> Any:
        id = create(1)[0].split()[0]
        session = Session.objects.get(pk=id)
        caller = TrustedCaller(SYSTEM, project_id=session.project_id)
        storing.store_messages(session.id, texts, caller=caller)
        return session.id

    rounds = []
    with psycopg.connect(os.environ["DATABASE_URL"]) as bare:
        for _ in range(count):
            ours, other = prepare(), prepare()
            began = time.perf_counter()
            processed = process_session(ours)
            took = time.perf_counter() - began
            assert processed == 32 and Session.objects.get(pk=ours).task_count == 3
            began = time.perf_counter()
            for statement in BARE:
                bare.execute(statement, {"session": other}, prepare=True)
            bare.commit()
            rounds.append((took * 1000, (time.perf_counter() - began) * 1000))
    return rounds


if __name__ == "__main__":
    django.setup()
    modes = {"create": create, "feed": feed, "compare": compare}
    print(json.dumps(modes[sys.argv[1]](*map(int, sys.argv[2:]))))  # type: ignore[operator]
