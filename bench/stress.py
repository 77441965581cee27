"""Workers killed at random: whether every task still ends once, under one lease at a time."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import psycopg

from bench.figures import Figure, Say, Scale, at_most
from bench.servers import Ground
from config.local.places import PROJECT

AGENT = "agent-00001"
WORKERS = 16
TASKS = 20_000
KILL_EVERY_S = 2
STALL_EVERY_S = 5
STALL_S = 7  # longer than a lease: who wakes up then reports too late
LONGEST_S = 600

# What must not be, and how often it is.
WRONG = {
    "tasks without an end": """select count(*) from ledger_task
        where state not in ('done', 'failed', 'skipped', 'aborted')""",
    "tasks with another number of successes than one": """select count(*) from ledger_task t
        where (select count(*) from ledger_attempt a
            where a.task_id = t.id and a.outcome = 'success') <> 1""",
    "attempts begun before the one before had ended": """select count(*) from ledger_attempt a
        join ledger_attempt b on b.task_id = a.task_id and b.number > a.number
        where a.ended_at is null or b.started_at < a.ended_at""",
}


@dataclass
class Gang:
    """The workers: killed, stalled and replaced while they work."""

    ground: Ground
    url: str
    members: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    asleep: dict[int, float] = field(default_factory=dict)
    killed: int = 0
    stalled: int = 0

    def fill(self) -> None:
        argv = [sys.executable, "-m", "bench.toiler", AGENT]
        env = self.ground.env(self.url)
        while len(self.members) < WORKERS:
            self.members.append(subprocess.Popen(argv, env=env, cwd=PROJECT))

    def kill_one(self) -> None:
        victim = self.members.pop(random.randrange(len(self.members)))
        self.asleep.pop(victim.pid, None)
        victim.kill()
        victim.wait()
        self.killed += 1
        self.fill()

    def stall_one(self, now: float) -> None:
        awake = [each for each in self.members if each.pid not in self.asleep]
        if awake:
            victim = random.choice(awake)
            victim.send_signal(signal.SIGSTOP)
            self.asleep[victim.pid] = now + STALL_S
            self.stalled += 1

    def wake(self, now: float) -> None:
        for each in self.members:
            if self.asleep.get(each.pid, now + 1) <= now:
                each.send_signal(signal.SIGCONT)
                del self.asleep[each.pid]

    def end(self) -> None:
        for each in self.members:
            each.kill()
        for each in self.members:
            each.wait()


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    """Twenty thousand tasks, sixteen workers, one of them killed every two seconds."""
    count = TASKS // 10 if scale.quick else TASKS
    url = ground.migrated("tenfour_stress")
    ground.fill(url, ("agents", {"count": 2}), ("stress_tasks", {"count": count}))
    gang = Gang(ground, url)
    start = time.monotonic()
    try:
        until_all_have_ended(gang, count, say)
    finally:
        gang.end()
    took = time.monotonic() - start
    (findings,) = ground.fill(url, ("audit", {}))
    for finding in findings[:10]:
        say(finding)
    wrong = {what: [float(counted(url, sql))] for what, sql in WRONG.items()}
    expired = counted(url, "select count(*) from ledger_failure")
    killed = {"workers killed": gang.killed, "workers stalled": gang.stalled}
    say(f"{count:,} tasks in {took:.0f} s, {killed}, {expired} leases ran out")
    return [
        *(
            Figure(f"stress: {what}", found, unit="", target=at_most(0))
            for what, found in wrong.items()
        ),
        Figure("stress: findings of the audit", [float(len(findings))], unit="", target=at_most(0)),
        Figure(f"stress: {count:,} tasks, {WORKERS} workers", [count / took], unit="/s"),
        *(Figure(f"stress: {what}", [float(number)], unit="") for what, number in killed.items()),
    ]


def counted(url: str, sql: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(sql.encode()).fetchone()
    assert row
    return int(row[0])


def until_all_have_ended(gang: Gang, count: int, say: Say) -> None:
    """Kill, stall, wake and expire leases until nothing is left to do."""
    start = time.monotonic()
    killed = stalled = said = start
    gang.fill()
    while (now := time.monotonic()) - start < LONGEST_S:
        left = counted(gang.url, WRONG["tasks without an end"])
        if not left:
            return
        gang.wake(now)
        # At the end all are left alone, or the last tasks would never be done.
        if left > count // 50 and now - killed > KILL_EVERY_S:
            gang.kill_one()
            killed = now
        if left > count // 50 and now - stalled > STALL_EVERY_S:
            gang.stall_one(now)
            stalled = now
        if now - said > 10:
            say(f"{left:,} left")
            said = now
        time.sleep(0.2)
    raise TimeoutError(f"after {LONGEST_S} s there were still tasks without an end")
