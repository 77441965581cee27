"""Kill workers at random and check that each task finishes once, under one lease at a time."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import psycopg

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Sandbox
from config.local.places import PROJECT

AGENT = "agent-00001"
WORKERS = 16
TASKS = 20_000
KILL_EVERY_S = 2
STALL_EVERY_S = 5
STALL_S = 7  # longer than a lease, so that the worker reports too late
TIMEOUT_S = 600

# Queries that count violations.
VIOLATIONS = {
    "unfinished tasks": """select count(*) from ledger_task
        where state not in ('done', 'failed', 'skipped', 'aborted')""",
    "tasks without exactly one success": """select count(*) from ledger_task t
        where (select count(*) from ledger_attempt a
            where a.task_id = t.id and a.outcome = 'success') <> 1""",
    "overlapping attempts": """select count(*) from ledger_attempt a
        join ledger_attempt b on b.task_id = a.task_id and b.number > a.number
        where a.ended_at is null or b.started_at < a.ended_at""",
}


@dataclass
class WorkerPool:
    """Workers that are killed, stalled, and replaced while they run."""

    sandbox: Sandbox
    url: str
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    resume_at: dict[int, float] = field(default_factory=dict)
    killed: int = 0
    stalled: int = 0

    def start_missing(self) -> None:
        argv = [sys.executable, "-m", "bench.stress_worker", AGENT]
        env = self.sandbox.env(self.url)
        while len(self.workers) < WORKERS:
            self.workers.append(subprocess.Popen(argv, env=env, cwd=PROJECT))

    def kill_one(self) -> None:
        victim = self.workers.pop(random.randrange(len(self.workers)))
        self.resume_at.pop(victim.pid, None)
        victim.kill()
        victim.wait()
        self.killed += 1
        self.start_missing()

    def stall_one(self, now: float) -> None:
        running = [each for each in self.workers if each.pid not in self.resume_at]
        if running:
            victim = random.choice(running)
            victim.send_signal(signal.SIGSTOP)
            self.resume_at[victim.pid] = now + STALL_S
            self.stalled += 1

    def resume_due(self, now: float) -> None:
        for each in self.workers:
            if self.resume_at.get(each.pid, now + 1) <= now:
                each.send_signal(signal.SIGCONT)
                del self.resume_at[each.pid]

    def kill_all(self) -> None:
        for each in self.workers:
            each.kill()
        for each in self.workers:
            each.wait()


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Run the tasks while workers are killed and stalled; count violations afterward."""
    count = TASKS // 10 if scale.quick else TASKS
    url = sandbox.create_migrated("tenfour_stress")
    sandbox.seed(url, ("agents", {"count": 2}), ("stress_tasks", {"count": count}))
    pool = WorkerPool(sandbox, url)
    start = time.monotonic()
    try:
        run_until_finished(pool, count, say)
    finally:
        pool.kill_all()
    seconds = time.monotonic() - start
    (findings,) = sandbox.seed(url, ("audit", {}))
    for finding in findings[:10]:
        say(finding)
    violations = {what: [float(fetch_count(url, sql))] for what, sql in VIOLATIONS.items()}
    expired = fetch_count(url, "select count(*) from ledger_failure")
    interruptions = {"workers killed": pool.killed, "workers stalled": pool.stalled}
    say(f"{count:,} tasks in {seconds:.0f} s, {interruptions}, {expired} leases expired")
    return [
        *(
            Figure(f"stress: {what}", found, unit="", target=at_most(0))
            for what, found in violations.items()
        ),
        Figure("stress: audit findings", [float(len(findings))], unit="", target=at_most(0)),
        Figure(f"stress: {count:,} tasks, {WORKERS} workers", [count / seconds], unit="/s"),
        *(
            Figure(f"stress: {what}", [float(number)], unit="")
            for what, number in interruptions.items()
        ),
    ]


def fetch_count(url: str, sql: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(sql.encode()).fetchone()
    assert row
    return int(row[0])


def run_until_finished(pool: WorkerPool, count: int, say: Say) -> None:
    """Kill, stall, and resume workers until every task has finished."""
    start = time.monotonic()
    killed_at = stalled_at = reported_at = start
    pool.start_missing()
    while (now := time.monotonic()) - start < TIMEOUT_S:
        left = fetch_count(pool.url, VIOLATIONS["unfinished tasks"])
        if not left:
            return
        pool.resume_due(now)
        # Leave workers alone at the end, so that the last tasks can finish.
        if left > count // 50 and now - killed_at > KILL_EVERY_S:
            pool.kill_one()
            killed_at = now
        if left > count // 50 and now - stalled_at > STALL_EVERY_S:
            pool.stall_one(now)
            stalled_at = now
        if now - reported_at > 10:
            say(f"{left:,} left")
            reported_at = now
        time.sleep(0.2)
    raise TimeoutError(f"some tasks were unfinished after {TIMEOUT_S} s")
