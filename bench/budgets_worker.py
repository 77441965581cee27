"""Claim and report tasks of the suite `budgets`: `time ROUNDS`, or `work AGENT COUNT`."""

import sys
import time

import django

BLOCK = 25
USAGE = {"input_tokens": 900, "output_tokens": 100, "model": "claude-sonnet-4-5"}


def main(verb: str, *options: str) -> None:
    django.setup()

    from ledger.journal import SYSTEM
    from ledger.models import Agent
    from ledger.tokens import TrustedCaller
    from retries import claims
    from retries.attempts import finishing
    from retries.attempts.report_fields import Report

    said = Report(result={"ok": 1}, usage=USAGE)

    def caller_of(name: str) -> TrustedCaller:
        agent = Agent.objects.select_related("project").get(name=name)
        return TrustedCaller(SYSTEM, agent=agent)

    def time_block(name: str) -> tuple[float, float]:
        """Return the milliseconds of a claim and of a report."""
        caller, attempts = caller_of(name), []
        start = time.perf_counter()
        for _ in range(BLOCK):
            attempts.append(claims.claim(caller).rows[0]["attempt_id"])
        claimed = time.perf_counter()
        for attempt in attempts:
            finishing.finish_attempt(attempt, said, caller=caller)
        reported = time.perf_counter()
        return (claimed - start) * 1000 / BLOCK, (reported - claimed) * 1000 / BLOCK

    def work(name: str, count: int) -> None:
        caller = caller_of(name)
        for _ in range(count):
            attempt = claims.claim(caller).rows[0]["attempt_id"]
            finishing.finish_attempt(attempt, said, caller=caller)

    if verb == "work":
        work(options[0], int(options[1]))
        return
    names, took = ["agent-00001", "budgeted"], {}
    for n in range(int(options[0])):
        for name in names if n % 2 else names[::-1]:
            took.setdefault(name, []).append(time_block(name))
    for name in names:
        for values in zip(*took[name], strict=True):
            print(*values)


if __name__ == "__main__":
    main(*sys.argv[1:])
