"""Kill, stall and fill an instance under load, and compare it with a record of what it acknowledged.

Agents and producers call over HTTP and repeat what fails. Each write that was acknowledged is
remembered outside the instance. Afterwards nothing may be lost, doubled or illegal.
"""

import random
import time
from collections.abc import Iterable

import psycopg

from bench.chaos_faults import (
    KILLS,
    OTHER,
    SINGLE,
    WHOLE,
    Fault,
    Instance,
    fill_disk,
    mount_small_disk,
)
from bench.chaos_traffic import Probe, Record, run_traffic
from bench.figures import Figure, Say, Scale, at_least, at_most
from bench.servers import Sandbox, wait_until
from bench.stress import VIOLATIONS

REQUESTS = 100_000
KILL_COUNT = 60
AGENTS = 4
WORKERS = 8
DISK_MB = 1500
REST_S = 3.0  # after each fault, so that outages are told apart
SINGLE_LIMIT_S = 5.0
WHOLE_LIMIT_S = 15.0
RECOVERY_S = 120
LOG_LENGTH = 20_000  # characters of the instance's log that are printed if it does not recover
WITHOUT_DISK = "without the full disk, because only root can mount one to fill"


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Attack one instance until enough requests and kills are counted; check its ledger."""
    requests, kills = (3_000, len(KILLS)) if scale.quick else (REQUESTS, KILL_COUNT)
    sandbox.folder.chmod(0o711)  # the embedded servers run without root's rights
    with mount_small_disk(sandbox.folder / "chaos", DISK_MB) as can_fill:
        if not can_fill:
            say(WITHOUT_DISK)
        instance = Instance(sandbox.folder / "chaos" / "data")
        instance.start()
        try:
            return attack(instance, requests, kills, can_fill, say)
        except TimeoutError:
            say(instance.log.read_text(errors="replace")[-LOG_LENGTH:])
            raise
        finally:
            instance.end()


def attack(instance: Instance, requests: int, kills: int, can_fill: bool, say: Say) -> list[Figure]:
    names = [f"chaos-{n}" for n in range(AGENTS)]
    producer = instance.make_token("--kind", "orchestrator")
    agents = {name: instance.make_token("--kind", "agent", "--agent", name) for name in names}
    outages: dict[str, list[float]] = {}
    with run_traffic(instance.port, producer, agents, WORKERS) as (record, probe):
        for name, fault in choose_faults(kills, can_fill):
            outages.setdefault(name, []).append(measure_outage(instance, probe, name, fault))
            say(f"{name}: {outages[name][-1]:.1f} s; {record.answered} requests")
        wait_until(lambda: record.answered >= requests, "the traffic", seconds=3600)
    wait_until(instance.is_ready, "the instance", seconds=RECOVERY_S)
    wait_until(lambda: no_expired_lease(instance), "the sweep of leases", seconds=RECOVERY_S)
    lost, doubled, illegal = check(instance, record)
    for line in (*lost[:5], *doubled[:5], *illegal[:5]):
        say(line)
    say(f"answers: {dict(record.requests)}")
    longest = {name: max(times) for name, times in outages.items()}
    for name in sorted(longest, key=lambda name: -longest[name]):
        say(f"longest outage of {name}: {longest[name]:.2f} s")
    killed = {name: times for name, times in outages.items() if name in KILLS}
    single = [time for name in SINGLE for time in killed.get(name, [])]
    whole = [time for name in WHOLE for time in killed.get(name, [])]
    return [
        Figure("chaos: requests", [record.answered], "", at_least(requests)),
        Figure("chaos: kills", [sum(map(len, killed.values()))], "", at_least(kills)),
        Figure("chaos: kinds of fault", [len(outages)], "", note="" if can_fill else WITHOUT_DISK),
        Figure("chaos: lost", [len(lost)], "", at_most(0)),
        Figure("chaos: doubled", [len(doubled)], "", at_most(0)),
        Figure("chaos: illegal", [len(illegal)], "", at_most(0)),
        Figure(
            "chaos: longest outage of one part",
            [max(single, default=0)],
            "s",
            at_most(SINGLE_LIMIT_S),
        ),
        Figure(
            "chaos: longest outage of all parts",
            [max(whole, default=0)],
            "s",
            at_most(WHOLE_LIMIT_S),
        ),
    ]


def choose_faults(kills: int, can_fill: bool) -> list[tuple[str, Fault]]:
    """Return every kind of fault in random order, the kills as often as asked for."""
    kinds = list(KILLS.items())
    chosen = [kinds[n % len(kinds)] for n in range(kills)]
    chosen += OTHER.items()
    if can_fill:
        chosen.append(("full disk", fill_disk))
    random.shuffle(chosen)
    return chosen


def measure_outage(instance: Instance, probe: Probe, name: str, fault: Fault) -> float:
    """Cause a fault; return the longest time in which no write and no sweep succeeded."""
    begin = time.monotonic()
    [[database_time]] = retry_query(instance, "select clock_timestamp()")
    fault(instance)
    wait_until(lambda: probe.successes[-1:] > [begin], f"a write after {name}", seconds=RECOVERY_S)
    wait_until(
        lambda: has_swept(instance, database_time), f"a sweep after {name}", seconds=RECOVERY_S
    )
    swept = time.monotonic()
    time.sleep(REST_S)
    return max(probe.longest_gap(begin, time.monotonic()), swept - begin)


def retry_query(
    instance: Instance, statement: str, *parameters: object
) -> list[tuple[object, ...]]:
    """Run a query as soon as the database answers."""
    end = time.monotonic() + RECOVERY_S
    while True:
        try:
            return instance.query(statement, *parameters)
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def has_swept(instance: Instance, since: object) -> bool:
    """Return whether beat and worker have run the sweep of backoffs, which runs every second."""
    query = "select 1 from ledger_clockrun where name = 'backoff' and last_run_at > %s"
    future = "and last_run_at <= clock_timestamp() + interval '1 minute'"
    return bool(retry_query(instance, f"{query} {future}", since))


def no_expired_lease(instance: Instance) -> bool:
    query = """select 1 from ledger_attempt
        where ended_at is null and lease_expires_at < now() limit 1"""
    return not retry_query(instance, query)


# ---- afterwards


def check(instance: Instance, record: Record) -> tuple[list[str], list[str], list[str]]:
    """Return what was lost, doubled, and illegal, one line for each."""
    lost = [
        *missing(instance, "ledger_task", record.tasks.values()),
        *missing(instance, "ledger_instruction", record.instructions.values()),
        *missing(instance, "ledger_instruction", record.acknowledged, "state = 'acknowledged'"),
        *missing(instance, "ledger_attempt", record.finished, "outcome = 'success'"),
        *missing(instance, "ledger_task", record.finished.values(), "state = 'done'"),
    ]
    doubled = [
        f"{count} tasks are called {title}"
        for title, count in instance.query(
            "select title, count(*) from ledger_task group by title having count(*) > 1"
        )
    ]
    doubled += [
        f"{count} instructions say {content}"
        for content, count in instance.query(
            """select content, count(*) from ledger_instruction
            group by content having count(*) > 1"""
        )
    ]
    doubled += [
        f"task {id} has {count} successes"
        for id, count in instance.query(
            """select task_id, count(*) from ledger_attempt where outcome = 'success'
            group by task_id having count(*) > 1"""
        )
    ]
    doubled += [
        f"attempt {id} was given to {sorted(workers)}"
        for id, workers in record.claims.items()
        if len(workers) > 1
    ]
    [[overlaps]] = instance.query(VIOLATIONS["overlapping attempts"])
    doubled += [f"{overlaps} attempts overlap"] if overlaps else []
    audit = instance.manage("audit_ledger")
    illegal = [*record.wrong, *(audit.stdout.splitlines() if audit.returncode else [])]
    return lost, doubled, illegal


def missing(
    instance: Instance, table: str, ids: Iterable[str], condition: str = "true"
) -> list[str]:
    """Return a line for each acknowledged ID without a row that fulfills the condition."""
    rows = instance.query(
        f"""select id from unnest(%s::uuid[]) as acknowledged(id)
        where not exists (select 1 from {table} t where t.id = acknowledged.id and {condition})""",
        list(ids),
    )
    return [f"{table} {id} is not there with {condition}" for (id,) in rows]
