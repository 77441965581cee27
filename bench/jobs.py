"""Does tasks when told to: reads "WHAT COUNT" from stdin, answers with the seconds it took."""

import os
import sys
import time
from collections.abc import Callable

import django
import psycopg

from bench.floor import sql as floor


def heed(agent_name: str) -> dict[str, Callable[[int], None]]:
    """Heed's own verbs, as a Python caller uses them."""
    django.setup()

    from ledger import tasks
    from ledger.journal import SYSTEM
    from ledger.models import Agent
    from ledger.tasks import Spec
    from ledger.tokens import Known
    from retries import claims, reports

    agent = Agent.objects.select_related("project").get(name=agent_name)
    caller = Known(SYSTEM, agent=agent)

    def enqueue(count: int) -> None:
        for number in range(count):
            tasks.enqueue(agent, "bench", {"n": number})

    def enqueue_500(count: int) -> None:
        for _ in range(count // 500):
            tasks.enqueue_many([(agent, Spec(type="bench", payload={"n": 1}))] * 500)

    def do(count: int) -> None:
        for _ in range(count):
            rows = claims.claim(caller).rows
            reports.succeeded(rows[0]["attempt_id"], {"ok": 1})

    def claim(count: int) -> None:
        for _ in range(count):
            assert claims.claim(caller).rows

    return {"enqueue": enqueue, "enqueue 500": enqueue_500, "do": do, "claim": claim}


def bare(_: str) -> dict[str, Callable[[int], None]]:
    """The floor: the same moves in hand-written SQL on the smallest tables."""
    conn = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=0)

    def enqueue(count: int) -> None:
        for _ in range(count):
            conn.execute(floor.ENQUEUE, [1])

    def enqueue_500(count: int) -> None:
        for _ in range(count // 500):
            conn.execute(floor.ENQUEUE, [500])

    def do(count: int) -> None:
        for _ in range(count):
            row = conn.execute(floor.CLAIM).fetchone()
            assert row
            conn.execute(floor.DONE, row)

    return {"enqueue": enqueue, "enqueue 500": enqueue_500, "do": do}


def main(whose: str, agent: str) -> None:
    work = {"heed": heed, "floor": bare}[whose](agent)
    print("ready", flush=True)
    for line in sys.stdin:
        what, _, count = line.strip().rpartition(" ")
        start = time.perf_counter()
        work[what](int(count))
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
