"""The idle check in a real Celery worker, beside the same rows moved by one bare statement."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from bench.figures import Figure, Say, Scale, at_most, ratios, summary
from bench.servers import Ground, started, until
from config.local.supervisor import celery_worker

Connection = psycopg.Connection[Any]

AGENTS = 1000
ROWS = 100_000
KEEP = "create table awaiting as table ledger_instruction"
REFILL = (
    "alter table ledger_event disable trigger ledger_event_no_truncate",
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


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    url = ground.migrated("tenfour_idle")
    ground.fill(
        url, ("agents", {"count": AGENTS}), ("instructions", {"count": ROWS, "state": "delivered"})
    )
    bare: list[float] = []
    tenfour: list[float] = []
    with psycopg.connect(url, autocommit=True) as conn, worker(ground, url) as pid:
        conn.execute(KEEP)
        for _ in range(scale.rounds):
            bare.append(seconds_of_bare(conn))
            tenfour.append(seconds_of_tenfour(ground, url, conn))
            say(f"bare {bare[-1]:.2f} s, idle check {tenfour[-1]:.2f} s")
        peak = peak_mb(pid)
    seconds = {
        "tenfour_s": summary(tenfour),
        "bare_s": summary(bare),
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
        Figure("peak memory of the worker", [peak], unit="MB", target=at_most(150)),
    ]


@contextmanager
def worker(ground: Ground, url: str) -> Iterator[int]:
    """A Celery worker as `make up` runs it; gives its process id."""
    command = celery_worker()
    env = ground.env(url) | {"TENFOUR_DB_POOL": "1"}
    with started(replace(command, env=env)) as pid:
        yield pid


def refill(conn: Connection) -> None:
    for statement in REFILL:
        conn.execute(statement)


def seconds_of_bare(conn: Connection) -> float:
    refill(conn)
    start = time.perf_counter()
    moved = conn.execute(BARE).rowcount
    took = time.perf_counter() - start
    assert moved == ROWS, moved
    return took


def seconds_of_tenfour(ground: Ground, url: str, conn: Connection) -> float:
    """How long the worker says it took, having been rung as the clock does."""
    refill(conn)
    ground.fill(url, ("ring", {"entry": "idle_check"}))
    until(lambda: finished(conn) is not None, "the idle check", seconds=120)
    took_ms, moved = finished(conn) or (0, 0)
    assert moved == ROWS, moved
    return took_ms / 1000


def finished(conn: Connection) -> tuple[int, int] | None:
    """Milliseconds and requeued rows of the last run, if it is over."""
    found: tuple[int, int] | None = conn.execute(
        "select took_ms, (did ->> 'requeued')::int from ledger_clockrun where took_ms is not null"
    ).fetchone()
    return found


def peak_mb(pid: int) -> float:
    """The largest memory that a process has had resident so far."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(status["VmHWM"].split()[0]) / 1024
