"""Read "OPERATION COUNT" from stdin, run the operations, and print the seconds.

Operations that are timed one by one return their 95th percentile in seconds.
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

Operation = Callable[[int], float | None]

CHURN_PER_S = 2_500  # the target rate of enqueued and finished tasks


def build_tenfour(agent_name: str) -> dict[str, Operation]:
    """Build the operations from Tenfour's Python API."""
    django.setup()

    from django.utils import timezone

    from ledger import journal, moves, tasks
    from ledger.database import sql
    from ledger.journal import SYSTEM, Kind, Stamp
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

    def claim_and_finish(count: int) -> None:
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
    ), logged as ({journal.insert("moved", kind=f"'{Kind.TASK_COMPLETED}'", subject="task")})
    select id from moved"""

    def churn(count: int) -> None:
        """Enqueue and finish equal numbers of tasks, at a steady rate if the machine allows it."""
        start = time.perf_counter()
        for number in range(count // 500):
            enqueue_500(500)
            for _ in range(10):
                ids = [row["id"] for row in claims.claim(caller, limit=50).rows]
                sql.run(finish, ids=ids, now=timezone.now(), **caller.params)
            time.sleep(max(0, start + 500 * (number + 1) / CHURN_PER_S - time.perf_counter()))

    conn = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=0)

    def time_claim(count: int) -> float:
        return measure_p95(count, lambda: claims.claim(caller).rows)

    def time_same_rows(count: int) -> float:
        return measure_p95(count, lambda: conn.execute(floor.SAME_ROWS, [agent.pk]).fetchall())

    def time_breaker_check(count: int) -> float:
        return measure_p95(count, lambda: breaker.check_gate(agent.pk, now=timezone.now()))

    return {
        "enqueue": enqueue,
        "enqueue 500": enqueue_500,
        "claim and finish": claim_and_finish,
        "claim": claim,
        "churn": churn,
        "move": time_claim,
        "same rows": time_same_rows,
        "breaker check": time_breaker_check,
    }


def measure_p95(count: int, work: Callable[[], Any]) -> float:
    """Return the 95th percentile in seconds; each call must return a true value."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        assert work()
        took.append(time.perf_counter() - start)
    return sorted(took)[count * 95 // 100]


def build_floor(_: str) -> dict[str, Operation]:
    """Build the same operations from hand-written SQL on minimal tables."""
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

    def claim_and_finish(count: int) -> None:
        for _ in range(count):
            row = conn.execute(floor.CLAIM, {"queue": "default", "worker": worker}).fetchone()
            assert row
            conn.execute(floor.DONE, {"id": row[0], "worker": worker})

    return {"enqueue": enqueue, "enqueue 500": enqueue_500, "claim and finish": claim_and_finish}


def main(side: str, agent: str) -> None:
    operations = {"tenfour": build_tenfour, "floor": build_floor}[side](agent)
    print("ready", flush=True)
    for line in sys.stdin:
        name, _, count = line.strip().rpartition(" ")
        start = time.perf_counter()
        seconds = operations[name](int(count))
        print(time.perf_counter() - start if seconds is None else seconds, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
