"""Fails tasks and claims them again, asking when it is told to; prints the waits as JSON."""

import json
import sys
import time

import django

from ledger.journal import SYSTEM, Stamp


def main(agent_name: str, times: int, delays_ms: list[int]) -> None:
    django.setup()

    from django.utils import timezone

    from ledger import tasks
    from ledger.models import Agent
    from ledger.tasks import Backoff
    from ledger.tokens import TrustedCaller
    from retries import claims, in_process

    agent = Agent.objects.select_related("project").get(name=agent_name)
    caller = TrustedCaller(SYSTEM, agent=agent)

    def wait(delay_ms: int) -> float:
        """Milliseconds from the report of a failure to the claim of the retry."""
        tasks.enqueue(agent, "bench", backoff=Backoff(base_delay_ms=delay_ms, jitter=False))
        first = claims.claim(caller).rows[0]
        in_process.report_failure(first["attempt_id"], "it broke", stamp=Stamp(SYSTEM))
        start = time.perf_counter()
        while not (found := claims.claim(caller)).rows:
            due = found.next_due_at
            assert due
            time.sleep(max(0.001, (due - timezone.now()).total_seconds()))
        took = (time.perf_counter() - start) * 1000
        in_process.report_success(found.rows[0]["attempt_id"], stamp=Stamp(SYSTEM))
        return took

    wait(1)  # warms up
    print(json.dumps({delay: [wait(delay) for _ in range(times)] for delay in delays_ms}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(each) for each in sys.argv[3:]])
