"""Measure what one operation over HTTP costs: processor time, journaled bytes and stored bytes.

The operations of a task are measured with PgBouncer before PostgreSQL, too. Unlike a rate, these
depend little on what else the machine does, so that docs/scaling.md can calculate with them.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.cluster import LOOPBACK, run_pgbouncer, search_path, set_role_options
from bench.figures import Figure, Say, Scale, at_most, ratios
from bench.http import (
    ROWS_PER_CPU_SECOND,
    WARM_UP_S,
    LoadTarget,
    prepare_tenfour,
    require_wrk,
    run_web_processes,
)
from bench.servers import Sandbox
from bench.sessions import PER_SESSION, list_requests, run_session_worker

ENQUEUE, WORK = "enqueue a task", "claim a task and report it done"
NOTHING = "claim and get nothing"
POOLED = "pooled, "
# So many that few ask twice within 5 seconds: each call of an idle agent is then stored.
IDLE_AGENTS = 10_000
TICKS = os.sysconf("SC_CLK_TCK")
# what is read of a process: its parent, and the ticks of itself and of the children that ended
PARENT, TIMES = 1, slice(11, 15)
UNITS = {
    "processor time of the web server": "ms",
    "processor time of PostgreSQL": "ms",
    "write-ahead log": "KB",
    "growth of the database": "KB",
}


@dataclass(frozen=True)
class Usage:
    """The use of the two servers so far: seconds of processors, and bytes."""

    web_s: float
    postgres_s: float
    logged: int
    stored: int


@dataclass(frozen=True)
class Cost:
    """The cost of one operation: milliseconds of processors, and kilobytes."""

    web_ms: float
    postgres_ms: float
    logged_kb: float
    stored_kb: float

    def __str__(self) -> str:
        return f"{self.web_ms:.2f} + {self.postgres_ms:.2f} ms, {self.logged_kb:.1f} KB"


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    """Load a web server with each operation in turn, and one that is connected through PgBouncer."""
    require_wrk()
    rows = ROWS_PER_CPU_SECOND * (os.cpu_count() or 1) * (scale.rounds * scale.seconds + WARM_UP_S)
    url, acks, agents = prepare_tenfour(sandbox, rows)
    tokens = dict(reversed(line.split()) for line in agents)  # type: ignore[misc]
    sessions = run_session_worker(sandbox, url, "create", rows // PER_SESSION)
    (idle,) = sandbox.seed(url, ("idle_tokens", {"count": IDLE_AGENTS}))
    with ExitStack() as stack:
        conn = stack.enter_context(psycopg.connect(url, autocommit=True))
        address, web = stack.enter_context(
            run_web_processes(sandbox, "config.wsgi:application", url)
        )
        operations = [
            *list_operations("", address, web, rows, tokens, agents, idle),
            Operation(1, web, LoadTarget("acknowledge an instruction", address, "acks.lua", acks)),
            Operation(
                2,
                web,
                LoadTarget("pull an instruction and ack it", address, "pulls.lua", agents, False),
            ),
            Operation(
                1,
                web,
                LoadTarget("store a message", address, "acks.lua", list_requests(sessions, tokens)),
            ),
        ]
        if shutil.which("pgbouncer", path=search_path()):
            set_role_options(url)
            pooled = run_pgbouncer(stack, make_open_folder(sandbox), url, LOOPBACK)
            address, web = stack.enter_context(
                run_web_processes(sandbox, "config.wsgi:application", pooled)
            )
            operations += list_operations(POOLED, address, web, rows, tokens, agents, idle)
        costs = measure_costs(sandbox, scale, say, conn, operations)
    figures = [
        Figure(f"{name}: {what}", [astuple(cost)[place] for cost in rounds], unit=unit)
        for name, rounds in costs.items()
        for place, (what, unit) in enumerate(UNITS.items())
    ]
    return figures + (compare_layouts(costs) if POOLED + ENQUEUE in costs else [])


@dataclass(frozen=True)
class Operation:
    """A load, the number of its requests that make one operation, and the web server's process."""

    requests: int
    web: int
    target: LoadTarget


def list_operations(
    layout: str,
    address: str,
    web: int,
    rows: int,
    tokens: dict[str, str],
    agents: list[str],
    idle: list[str],
) -> list[Operation]:
    """Return the operations of a task in one layout."""
    claims = [f"{secret} /v1/claims {{}}" for secret in idle] * (rows // len(idle) + 1)
    return [
        Operation(
            1, web, LoadTarget(layout + ENQUEUE, address, "acks.lua", list_tasks(tokens, rows))
        ),
        Operation(2, web, LoadTarget(layout + WORK, address, "claims.lua", agents, False)),
        Operation(1, web, LoadTarget(layout + NOTHING, address, "acks.lua", claims)),
    ]


def make_open_folder(sandbox: Sandbox) -> Path:
    folder = sandbox.folder / "pgbouncer"
    folder.mkdir()
    folder.chmod(0o755)  # it runs without privileges
    return folder


def measure_costs(
    sandbox: Sandbox,
    scale: Scale,
    say: Say,
    conn: psycopg.Connection[Any],
    operations: list[Operation],
) -> dict[str, list[Cost]]:
    for each in operations:
        each.target.load(WARM_UP_S, sandbox.folder)
    costs: dict[str, list[Cost]] = {each.target.name: [] for each in operations}
    for number in range(scale.rounds):
        for each in operations:
            before = measure_usage(conn, each.web)
            each.target.measure(scale.seconds, sandbox.folder)
            after = measure_usage(conn, each.web)
            count = each.target.rounds[-1]["requests"] / each.requests
            costs[each.target.name].append(per_operation(before, after, count))
        say(
            f"round {number + 1}: "
            + ", ".join(f"{name}: {found[-1]}" for name, found in costs.items())
        )
    return costs


def compare_layouts(costs: dict[str, list[Cost]]) -> list[Figure]:
    """Return how much more of PostgreSQL's time a task takes through PgBouncer."""

    def sum_times(*names: str) -> list[float]:
        rounds = zip(*(costs[name] for name in names), strict=True)
        return [sum(cost.postgres_ms for cost in each) for each in rounds]

    what = "processor time of PostgreSQL, pooled / direct"
    tasks = ratios(sum_times(POOLED + ENQUEUE, POOLED + WORK), sum_times(ENQUEUE, WORK))
    empty = ratios(sum_times(POOLED + NOTHING), sum_times(NOTHING))
    return [
        Figure(f"a whole task: {what}", tasks, target=at_most(1.15)),
        Figure(f"a claim that finds nothing: {what}", empty, target=at_most(1.3)),
    ]


def list_tasks(tokens: dict[str, str], count: int) -> list[str]:
    """Return the lines of the load: agents that enqueue tasks for themselves in turn."""
    body = '{"agent":"%s","type":"code","title":"Split the report","payload":{"n":%d}}'
    agents = sorted(tokens)
    return [
        f"{tokens[agent]} /v1/tasks {body % (agent, n)}"
        for n in range(count)
        for agent in [agents[n % len(agents)]]
    ]


def per_operation(before: Usage, after: Usage, count: float) -> Cost:
    return Cost(
        web_ms=(after.web_s - before.web_s) * 1000 / count,
        postgres_ms=(after.postgres_s - before.postgres_s) * 1000 / count,
        logged_kb=(after.logged - before.logged) / 1000 / count,
        stored_kb=(after.stored - before.stored) / 1000 / count,
    )


def measure_usage(conn: psycopg.Connection, web: int) -> Usage:
    """Read what both servers have used since they started."""
    statement = """select pg_backend_pid(), pg_current_wal_insert_lsn() - '0/0',
        pg_database_size(current_database())"""
    row = conn.execute(statement).fetchone()
    assert row is not None
    backend, logged, stored = row
    postmaster = int(read_process(backend)[PARENT])
    return Usage(processor_time(web), processor_time(postmaster), int(logged), int(stored))


def processor_time(pid: int) -> float:
    """Return the seconds that a process, its descendants, and those that ended have used."""
    parents = {each: int(fields[PARENT]) for each, fields in read_processes()}
    family = {pid}
    for _ in parents:  # at most as deep as there are processes
        more = {each for each, parent in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    times = [read_process(each)[TIMES] for each in family]
    return sum(int(ticks) for each in times for ticks in each) / TICKS


def read_processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := read_process(int(folder.name))):
            yield int(folder.name), fields


def read_process(pid: int) -> list[str]:
    """Return the fields of a process after its name, which may hold spaces; empty if it ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(") ")[2].split()
