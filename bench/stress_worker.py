"""Claim and finish tasks and sometimes expire leases, until killed by the stress suite."""

import random
import sys
import time

import django


def main(agent_name: str) -> None:
    django.setup()

    from django.utils import timezone

    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent
    from ledger.tokens import TrustedCaller
    from retries import claims, in_process
    from retries.attempts import leases, live_attempt

    caller = TrustedCaller(
        SYSTEM, agent=Agent.objects.select_related("project").get(name=agent_name)
    )
    while True:
        rows = claims.claim(caller).rows
        # Sweeps overlap at random, because concurrent sweeps must not interfere.
        if not rows or random.random() < 0.01:
            leases.expire(now=timezone.now())
        if not rows:
            time.sleep(0.1)
            continue
        if random.random() < 0.1:
            time.sleep(0.02)  # so that some workers stop in the middle of a task
        try:
            in_process.report_success(rows[0]["attempt_id"], {"ok": 1}, stamp=Stamp(SYSTEM))
        except live_attempt.LeaseLost:
            continue


if __name__ == "__main__":
    main(*sys.argv[1:])
