"""Fail tasks, poll for their retries at the given times, and print the waits as JSON."""

import json
import sys
import time

import django


def main(agent_name: str, count: int, delays_ms: list[int]) -> None:
    django.setup()

    from django.utils import timezone

    from ledger import tasks
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent
    from ledger.tasks import Backoff
    from ledger.tokens import TrustedCaller
    from retries import claims, in_process

    agent = Agent.objects.select_related("project").get(name=agent_name)
    caller = TrustedCaller(SYSTEM, agent=agent)

    def measure_wait(delay_ms: int) -> float:
        """Return the milliseconds from the failure report to the retry's claim."""
        tasks.enqueue(agent, "bench", backoff=Backoff(base_delay_ms=delay_ms, jitter=False))
        first = claims.claim(caller).rows[0]
        in_process.report_failure(first["attempt_id"], "it broke", stamp=Stamp(SYSTEM))
        start = time.perf_counter()
        while not (response := claims.claim(caller)).rows:
            due = response.next_due_at
            assert due
            time.sleep(max(0.001, (due - timezone.now()).total_seconds()))
        waited_ms = (time.perf_counter() - start) * 1000
        in_process.report_success(response.rows[0]["attempt_id"], stamp=Stamp(SYSTEM))
        return waited_ms

    measure_wait(1)  # warm up
    print(json.dumps({delay: [measure_wait(delay) for _ in range(count)] for delay in delays_ms}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), [int(each) for each in sys.argv[3:]])
