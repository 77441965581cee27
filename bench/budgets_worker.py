"""Claim and report tasks of the suite `budgets`: `time ROUNDS`, or `work AGENT COUNT`."""

import statistics
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

    def time_one(name: str) -> tuple[float, float]:
        """Return the milliseconds of a claim and of a report."""
        caller = callers[name]
        start = time.perf_counter()
        attempt = claims.claim(caller).rows[0]["attempt_id"]
        claimed = time.perf_counter()
        finishing.finish_attempt(attempt, said, caller=caller)
        reported = time.perf_counter()
        return (claimed - start) * 1000, (reported - claimed) * 1000

    def work(name: str, count: int) -> None:
        caller = caller_of(name)
        for _ in range(count):
            attempt = claims.claim(caller).rows[0]["attempt_id"]
            finishing.finish_attempt(attempt, said, caller=caller)

    if verb == "work":
        work(options[0], int(options[1]))
        return
    names = ["agent-00001", "budgeted"]
    took: dict[str, list[list[float]]] = {}
    callers = {name: caller_of(name) for name in names}
    for _ in range(int(options[0])):
        # One after the other, so that both meet the same load of the machine.
        block: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for n in range(BLOCK):
            for name in names if n % 2 else names[::-1]:
                block[name].append(time_one(name))
        for name in names:
            pairs = zip(*block[name], strict=True)
            took.setdefault(name, []).append([statistics.median(each) for each in pairs])
    for name in names:
        for values in zip(*took[name], strict=True):
            print(*values)


if __name__ == "__main__":
    main(*sys.argv[1:])
