"""Does tasks when told to: reads "WHAT COUNT" from stdin, answers with the seconds it took.

Of what is looked at one by one it answers with the seconds within which 95 of 100 were done.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import django
import psycopg

from bench.floor import sql as floor
from ledger.journal import SYSTEM, Stamp

Work = Callable[[int], float | None]

PER_S = 2_500  # tasks that come and go, where many do


def tenfour(agent_name: str) -> dict[str, Work]:
    """Tenfour's own verbs, as a Python caller uses them."""
    django.setup()

    from django.utils import timezone

    from ledger import journal, moves, sql, tasks
    from ledger.journal import Kind
    from ledger.models import Agent
    from ledger.states import Outcome, TaskState
    from ledger.tasks import Spec
    from ledger.tokens import TrustedCaller
    from retries import breaker, claims, in_process

    agent = Agent.objects.select_related("project").get(name=agent_name)
    caller = TrustedCaller(SYSTEM, agent=agent)

    def enqueue(count: int) -> None:
        for number in range(count):
            tasks.enqueue(agent, "bench", {"n": number})

    many = [(agent, Spec(type="bench", payload={"n": number})) for number in range(500)]

    def enqueue_500(count: int) -> None:
        for _ in range(count // 500):
            tasks.enqueue_many(many, stamp=Stamp(SYSTEM))

    def do(count: int) -> None:
        for _ in range(count):
            rows = claims.claim(caller).rows
            in_process.report_success(rows[0]["attempt_id"], {"ok": 1}, stamp=Stamp(SYSTEM))

    def claim(count: int) -> None:
        for _ in range(count):
            assert claims.claim(caller).rows

    finish = f"""with {TrustedCaller.cte}, moved as ({
        moves.task_to(
            TaskState.DONE,
            where="t.id = any(%(ids)s)",
            sets="result = '1'",
            columns=moves.EVENT_COLUMNS,
        )
    }), closed as (
        update ledger_attempt set outcome = '{Outcome.SUCCESS}', ended_at = %(now)s
        where id in (select former_attempt from moved)
    ), told as ({journal.insert("moved", kind=f"'{Kind.TASK_COMPLETED}'", subject="task")})
    select id from moved"""

    def churn(count: int) -> None:
        """As many come as go, so the queue stays as deep; at a steady rate where it can be kept."""
        start = time.perf_counter()
        for number in range(count // 500):
            enqueue_500(500)
            for _ in range(10):
                ids = [row["id"] for row in claims.claim(caller, limit=50).rows]
                sql.run(finish, ids=ids, now=timezone.now(), **caller.params)
            time.sleep(max(0, start + 500 * (number + 1) / PER_S - time.perf_counter()))

    conn = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=0)

    def move(count: int) -> float:
        return p95(count, lambda: claims.claim(caller).rows)

    def same_rows(count: int) -> float:
        return p95(count, lambda: conn.execute(floor.SAME_ROWS, [agent.pk]).fetchall())

    def gate(count: int) -> float:
        return p95(count, lambda: breaker.check_gate(agent.pk, now=timezone.now()))

    return {
        "enqueue": enqueue,
        "enqueue 500": enqueue_500,
        "do": do,
        "claim": claim,
        "churn": churn,
        "move": move,
        "same rows": same_rows,
        "gate": gate,
    }


def p95(count: int, work: Callable[[], Any]) -> float:
    """The seconds within which 95 of 100 were done; each must come to something."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        assert work()
        took.append(time.perf_counter() - start)
    return sorted(took)[count * 95 // 100]


def bare(_: str) -> dict[str, Work]:
    """The floor: the same moves in hand-written SQL on the smallest tables."""
    conn = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    worker = str(os.getpid())
    keys = (f"{worker}-{number}" for number in itertools.count())

    def enqueue(count: int) -> None:
        for number in range(count):
            conn.execute(floor.ENQUEUE, [next(keys), json.dumps({"n": number})])

    def enqueue_500(count: int) -> None:
        for _ in range(count // 500):
            many = [(next(keys), json.dumps({"n": 1})) for _ in range(500)]
            conn.execute(floor.ENQUEUE_MANY, [list(column) for column in zip(*many, strict=True)])

    def do(count: int) -> None:
        for _ in range(count):
            row = conn.execute(floor.CLAIM, {"queue": "default", "worker": worker}).fetchone()
            assert row
            conn.execute(floor.DONE, {"id": row[0], "worker": worker})

    return {"enqueue": enqueue, "enqueue 500": enqueue_500, "do": do}


def main(whose: str, agent: str) -> None:
    work = {"tenfour": tenfour, "floor": bare}[whose](agent)
    print("ready", flush=True)
    for line in sys.stdin:
        what, _, count = line.strip().rpartition(" ")
        start = time.perf_counter()
        found = work[what](int(count))
        print(time.perf_counter() - start if found is None else found, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
