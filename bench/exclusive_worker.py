"""Claim and finish the tasks of the suite `exclusive`: `work SECONDS`, or `time ROUNDS`."""

import sys
import time

import django

BLOCK = 25

OVERLAPS = """select count(*) as n from ledger_task t join ledger_task u
    on u.plan_id = t.plan_id and u.state = 'running' and u.id <> t.id
        and ledger_files_overlap(t.payload -> 'files', u.payload -> 'files')
where t.id = %(task)s and t.state = 'running'"""


def main(verb: str, most: str = "0") -> None:
    django.setup()

    from django.db import OperationalError

    from ledger.database import sql
    from ledger.journal import SYSTEM, Stamp
    from ledger.models import Agent, Task
    from ledger.tokens import TrustedCaller
    from retries import claims, in_process

    def caller_of(name: str) -> TrustedCaller:
        agent = Agent.objects.select_related("project").get(name=name)
        return TrustedCaller(SYSTEM, agent=agent)

    def work() -> None:
        caller, done, overlaps, empty = caller_of("agent-00001"), 0, 0, 0
        waiting = Task.objects.filter(agent=caller.agent, state="queued")
        until = time.monotonic() + float(most)
        while time.monotonic() < until:
            try:
                rows = claims.claim(caller).rows
            except OperationalError:  # it waited too long for the claims of others
                rows = []
            if not rows:
                if not waiting.exists():
                    break
                empty += 1
                time.sleep(0.005)
                continue
            overlaps += sql.run(OVERLAPS, task=rows[0]["id"])[0]["n"]
            in_process.report_success(rows[0]["attempt_id"], {"ok": 1}, stamp=Stamp(SYSTEM))
            done += 1
        print(done, overlaps, empty)

    def time_claims(name: str) -> float:
        """Return the milliseconds of a claim, among `BLOCK` tasks that run."""
        caller, took, attempts = caller_of(name), 0.0, []
        for _ in range(BLOCK):
            start = time.perf_counter()
            rows = claims.claim(caller).rows
            took += time.perf_counter() - start
            attempts.append(rows[0]["attempt_id"])
        for attempt in attempts:
            in_process.report_success(attempt, {"ok": 1}, stamp=Stamp(SYSTEM))
        return took * 1000 / BLOCK

    if verb == "work":
        work()
        return
    names, took = ["agent-00002", "agent-00003"], {}
    for n in range(int(most)):
        for name in names if n % 2 else names[::-1]:
            took.setdefault(name, []).append(time_claims(name))
    for name in names:
        print(*took[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
