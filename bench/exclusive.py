"""Claim tasks whose files overlap with eight workers, and time a claim with and without it."""

import statistics
import subprocess
import sys
import time

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from bench.stress import fetch_count
from config.local.places import PROJECT

WORKERS = 8
# A claim looks at a hundred tasks that wait, and eight workers run some beside them.
MOST_OVERTAKEN = 200
CLAIMS = 100_000
ROUNDS = 40
# The workers stop after this time, with what is left of the tasks.
WORK_S, QUICK_WORK_S = 900, 60
TIMEOUT_S = 3600

# how many later tasks started before a task did, or before the workers stopped
OVERTAKEN = """select greatest(max(started - place), (
        select count(*) from ledger_task l where l.plan_id = ranked.plan_id and l.attempts > 0
            and l.id > (select n.id from ledger_task n
                where n.plan_id = ranked.plan_id and n.attempts = 0 order by n.id limit 1)))
from (
    select t.plan_id, row_number() over (order by a.id nulls last) as started,
        row_number() over (order by t.id) as place, a.id
    from ledger_task t left join ledger_attempt a on a.task_id = t.id and a.number = 1
    join ledger_plan p on p.id = t.plan_id where p.ref = '01-01') ranked
where id is not null group by plan_id"""


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Count the tasks that ran at once although their files overlap; time a claim."""
    count = CLAIMS // 20 if scale.quick else CLAIMS
    url = sandbox.create_migrated("tenfour_exclusive")
    sandbox.seed(url, ("agents", {"count": 3}), ("exclusive_tasks", {"count": count}))
    rounds = ROUNDS // 4 if scale.quick else ROUNDS
    env = sandbox.env(url)
    argv = [sys.executable, "-m", "bench.exclusive_worker"]
    timed = subprocess.run(
        [*argv, "time", str(rounds)], env=env, cwd=PROJECT, check=True, capture_output=True
    )
    usual, exclusive = (list(map(float, each.split())) for each in timed.stdout.splitlines())
    start = time.monotonic()
    seconds = QUICK_WORK_S if scale.quick else WORK_S
    workers = [
        subprocess.Popen(
            [*argv, "work", str(seconds)], env=env, cwd=PROJECT, stdout=subprocess.PIPE
        )
        for _ in range(WORKERS)
    ]
    outputs = [worker.communicate(timeout=TIMEOUT_S)[0].split() for worker in workers]
    took = time.monotonic() - start
    claims, overlaps, empty = (sum(map(int, each)) for each in zip(*outputs, strict=True))
    say(f"{claims:,} claims by {WORKERS} workers in {took:.0f} s, {empty:,} empty ones")
    overtaken = fetch_count(url, OVERTAKEN)
    ratios = [b / a for a, b in zip(usual, exclusive, strict=True)]
    say(f"a claim: {statistics.median(usual):.2f} ms, exclusive {statistics.median(exclusive):.2f}")
    left = count - claims
    if left:
        say(f"the time was over with {left:,} tasks left")
    return [
        Figure("files: tasks at once that overlap", [float(overlaps)], unit="", target=at_most(0)),
        Figure(f"files: of {count:,} tasks, not claimed in time", [float(left)], unit=""),
        Figure(
            "files: later tasks that overtook one",
            [float(overtaken)],
            unit="",
            target=at_most(MOST_OVERTAKEN),
        ),
        Figure(f"files: {claims:,} claims, {WORKERS} workers", [claims / took], unit="/s"),
        Figure("files: claim with / without", ratios, target=at_most(1.15)),
    ]
