"""Measure what the journal's partitions cost a move, and its length a page.

A move inserts its event into the journal with a year of partitions, and then the same move into one
table with the same rows, in turn. The pages are those of a project whose journal has a million
events and five.
"""

import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import psycopg

from bench import volume
from bench.figures import Figure, Say, Scale, at_most, summarize
from bench.page_comparison import start_visitor
from bench.pages import OPERATOR
from bench.servers import Sandbox
from config.local.places import PROJECT

EVENTS, MORE = 1_000_000, 5
INSTRUCTIONS, TASKS, AGENTS = 20_000, 20_000, 60
MOVES, WARM_UP = 2_000, 200
MAX_MOVE, MAX_PAGE = 1.05, 1.3
PAGES = volume.PAGES | {
    "activity, one agent": "/activity/?q=agent:agent-1",
    "audit": "/settings/audit/",
}
MOVE = """with moved as (
    update ledger_instruction set updated_at = now() where id = %(id)s
    returning id, agent_id, project_id, state, old.state as from_state
)
insert into ledger_event (at, project_id, kind, subject_type, subject_id, agent_id, from_state,
    to_state, actor_type, actor_id, actor_name, data)
select now(), project_id, 'instruction.delivered', 'instruction', id, agent_id, from_state, state,
    'token', 'bench', 'bench', jsonb_build_object('deliveries', 1)
from moved"""
MOVES_INTO = {"months": MOVE, "plain": MOVE.replace("ledger_event", "plain_event")}
# the same journal in one table
PLAIN = (
    "create table plain_event (like ledger_event including all)",
    "create trigger append_only before update or delete on plain_event"
    " for each row execute function ledger_event_guard()",
    "insert into plain_event select * from ledger_event",
    "vacuum analyze plain_event",
)


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    count = EVENTS // 20 if scale.quick else EVENTS
    urls = [seed_journal(sandbox, f"tenfour_journal_{n}", count * n) for n in (MORE, 1)]
    figures = compare_moves(urls[1], scale, say)
    with ExitStack() as stack:
        sides = [
            stack.enter_context(start_visitor(sandbox.env(url), PROJECT, OPERATOR)) for url in urls
        ]
        for page, path in PAGES.items():
            for side in sides:
                side.paths[page] = path
        large, small = sides
        for page in sorted({*large.paths} & {*small.paths}):
            name = f"{page}: p95 with {MORE} times the events / with one"
            figures.append(
                volume.compare(name, (large, page), (small, page), MAX_PAGE, scale.rounds)
            )
            say(f"{figures[-1].name}: {figures[-1].median:.2f}")
    return figures


def seed_journal(sandbox: Sandbox, name: str, events: int) -> str:
    """Create a database with a year of events and return its URL."""
    url = sandbox.create_migrated(name)
    sandbox.seed(
        url,
        ("journal_partitions", {}),
        ("agents", {"count": AGENTS}),
        ("instruction_month", {"count": INSTRUCTIONS}),
        ("volume", {"count": TASKS}),
        ("plans", {"count": 2, "tasks": 12}),
        ("journal_year", {"count": events}),
        ("operator", {"name": OPERATOR}),
    )
    rebuild = [sys.executable, "manage.py", "rebuild_activity"]
    subprocess.run(rebuild, env=sandbox.env(url), cwd=PROJECT, check=True, capture_output=True)
    sandbox.seed(url, ("vacuum", {}))
    return url


def compare_moves(url: str, scale: Scale, say: Say) -> list[Figure]:
    figures = []
    with psycopg.connect(url, autocommit=True) as conn:
        for statement in PLAIN:
            conn.execute(statement)
        for durable in ("on", "off"):
            conn.execute(f"set synchronous_commit = {durable}")
            time_moves(conn, WARM_UP)
            rounds = [time_moves(conn, MOVES) for _ in range(scale.rounds)]
            ours, theirs = ([each[name] for each in rounds] for name in ("months", "plain"))
            figure = Figure(
                f"move with partitions / without, synchronous_commit {durable}",
                [a / b for a, b in zip(ours, theirs, strict=True)],
                target=at_most(MAX_MOVE),
                detail={"months_ms": summarize(ours), "plain_ms": summarize(theirs)},
            )
            say(f"{figure.name}: {figure.median:.3f}")
            figures.append(figure)
    return figures


def time_moves(conn: "psycopg.Connection[Any]", count: int) -> dict[str, float]:
    """Return the median time of a move into each journal, in milliseconds, taken in turn."""
    rows = conn.execute(
        "select id from ledger_instruction order by content_sha256 limit %s", [2 * count]
    ).fetchall()
    times: dict[str, list[float]] = {name: [] for name in MOVES_INTO}
    for number, (id,) in enumerate(rows):
        # each side goes first in every other pair
        name = ("months", "plain", "plain", "months")[number % 4]
        start = time.perf_counter()
        conn.execute(MOVES_INTO[name], {"id": id}, prepare=True)
        times[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(each) for name, each in times.items()}
