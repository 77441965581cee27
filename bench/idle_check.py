"""Compare the idle check in a Celery worker with one bare statement that moves the same rows."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios, summarize
from bench.servers import Sandbox, run_program, wait_until
from config.local.supervisor import celery_worker

Connection = psycopg.Connection[Any]

AGENTS = 1000
ROWS = 100_000
SAVE_ROWS = "create table awaiting as table ledger_instruction"
RESTORE = (
    # a trigger on TRUNCATE is each partition's own
    """do $$ declare part regclass; begin
        for part in select relid from pg_partition_tree('ledger_event') loop
            execute format('alter table %s disable trigger ledger_event_no_truncate', part);
        end loop;
    end $$""",
    "truncate ledger_instruction, ledger_event, ledger_clockrun cascade",
    "insert into ledger_instruction select * from awaiting",
    "vacuum analyze ledger_instruction",
)
BARE = """
with moved as (
    update ledger_instruction
    set state = 'queued', retry_count = retry_count + 1, updated_at = now()
    where state = 'delivered' and tracked and delivered_at <= now() - interval '30 seconds'
    returning id, agent_id, project_id, retry_count
)
insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id, from_state,
    to_state, actor_type, actor_id, actor_name, data)
select now(), project_id, 'instruction.requeued', 'instruction', id, agent_id, 'delivered',
    'queued', 'system', 'bench', 'bench', jsonb_build_object('retry_count', retry_count)
from moved
"""


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    url = sandbox.create_migrated("tenfour_idle")
    sandbox.seed(
        url, ("agents", {"count": AGENTS}), ("instructions", {"count": ROWS, "state": "delivered"})
    )
    bare: list[float] = []
    tenfour: list[float] = []
    with psycopg.connect(url, autocommit=True) as conn, run_worker(sandbox, url) as pid:
        conn.execute(SAVE_ROWS)
        for _ in range(scale.rounds):
            bare.append(time_bare(conn))
            tenfour.append(time_tenfour(sandbox, url, conn))
            say(f"bare {bare[-1]:.2f} s, idle check {tenfour[-1]:.2f} s")
        peak = measure_peak_mb(pid)
    seconds = {
        "tenfour_s": summarize(tenfour),
        "bare_s": summarize(bare),
        "rows": ROWS,
        "agents": AGENTS,
    }
    return [
        Figure(
            "idle check of 100,000 / bare UPDATE + INSERT",
            ratios(tenfour, bare),
            target=at_most(3),
            detail=seconds,
        ),
        Figure("worker peak memory", [peak], unit="MB", target=at_most(150)),
    ]


@contextmanager
def run_worker(sandbox: Sandbox, url: str) -> Iterator[int]:
    """Run a Celery worker as `make up` does; yield its process ID."""
    command = celery_worker()
    env = sandbox.env(url)
    with run_program(replace(command, env=env)) as pid:
        yield pid


def restore_rows(conn: Connection) -> None:
    for statement in RESTORE:
        conn.execute(statement)


def time_bare(conn: Connection) -> float:
    restore_rows(conn)
    start = time.perf_counter()
    moved = conn.execute(BARE).rowcount
    seconds = time.perf_counter() - start
    assert moved == ROWS, moved
    return seconds


def time_tenfour(sandbox: Sandbox, url: str, conn: Connection) -> float:
    """Trigger the check as the clock does; return the seconds that the worker records."""
    restore_rows(conn)
    sandbox.seed(url, ("run_clock_entry", {"entry": "idle_check"}))
    wait_until(lambda: fetch_last_run(conn) is not None, "the idle check", seconds=120)
    took_ms, moved = fetch_last_run(conn) or (0, 0)
    assert moved == ROWS, moved
    return took_ms / 1000


def fetch_last_run(conn: Connection) -> tuple[int, int] | None:
    """Return the milliseconds and requeued rows of the last run, or None until it finishes."""
    run: tuple[int, int] | None = conn.execute(
        "select took_ms, (did ->> 'requeued')::int from ledger_clockrun where took_ms is not null"
    ).fetchone()
    return run


def measure_peak_mb(pid: int) -> float:
    """Return the process's peak resident memory in megabytes."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(status["VmHWM"].split()[0]) / 1024
