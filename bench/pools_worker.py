"""Claim and finish the tasks of the suite `pools`: `ROUNDS DEEP`."""

import sys
import time

import django

BLOCK = 25
FEW = 2_000  # tasks that wait for each agent, in its own queue or in all its pools


def main(rounds: str, deep: str) -> None:
    django.setup()

    from django.db import connection

    from bench.pools import AGENTS
    from ledger import agents, tasks
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent, Project, Task
    from ledger.pools import membership
    from ledger.tokens import TrustedCaller
    from retries import claims, in_process

    stamp = Stamp(SYSTEM)
    project = Project.objects.get_or_create(name="default")[0]

    def fill(queue: Agent, count: int) -> None:
        """Put `count` copies of one task into a queue."""
        first = tasks.enqueue(queue, "code", {"action": "Do it"})
        names = [f.column for f in Task._meta.concrete_fields if f.column != "id"]
        columns = ", ".join(f'"{name}"' for name in names)
        with connection.cursor() as cursor:
            cursor.execute(
                f"insert into ledger_task ({columns}) select {columns} from ledger_task, "
                "generate_series(2, %s) where id = %s",
                [count, first],
            )

    def make_agent(n: int, pools: int, count: int) -> TrustedCaller:
        agent = agents.register(f"agent-{n}", project=project, stamp=stamp)
        for place in range(pools):
            pool = membership.create(
                f"pool-{n}-{place}", members=[agent], project=project, stamp=stamp
            )
            fill(pool, count // pools)
        if not pools:
            fill(agent, count)
        agent.refresh_from_db()
        return TrustedCaller(SYSTEM, agent=agent)

    def time_claims(caller: TrustedCaller) -> float:
        """Return the milliseconds of a claim, among `BLOCK` tasks that run."""
        took, attempts = 0.0, []
        for _ in range(BLOCK):
            start = time.perf_counter()
            rows = claims.claim(caller).rows
            took += time.perf_counter() - start
            attempts.append(rows[0]["attempt_id"])
        for attempt in attempts:
            in_process.report_success(attempt, {"ok": 1}, stamp=Stamp(SYSTEM))
        return took * 1000 / BLOCK

    last = len(AGENTS) - 1
    callers = [
        make_agent(n, pools, int(deep) if n == last else max(FEW, 20 * pools))
        for n, pools in enumerate(AGENTS.values())
    ]
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze ledger_task")
    for caller in callers:
        time_claims(caller)  # plans and caches
    took: list[list[float]] = [[] for _ in callers]
    for n in range(int(rounds)):
        order = range(len(callers))
        for place in order if n % 2 else reversed(order):
            took[place].append(time_claims(callers[place]))
    for times in took:
        print(*times)


if __name__ == "__main__":
    main(*sys.argv[1:])
