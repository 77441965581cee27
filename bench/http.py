"""Acknowledging over HTTP, beside the floor endpoint on the same server with the same settings."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.figures import Figure, Say, Scale, at_least, ratios, summary
from bench.floor import sql as floor_sql
from bench.servers import Ground, Missing, python_with, started, until
from config.local.commands import Command
from config.local.embedded import free_port

HERE = Path(__file__).resolve().parent
CONNECTIONS = 16
AGENTS = 50
WARM_UP = 2
ROWS_PER_CPU_SECOND = 3000  # more than is asked of one processor
PEER = ["fastapi", "asyncpg", "uvicorn", "uvloop", "httptools"]


@dataclass
class Side:
    """One server under load: where it answers, and what is left to ask of it."""

    name: str
    url: str
    script: str
    lines: list[str]
    once: bool = True
    rounds: list[dict[str, float]] = field(default_factory=list)

    def load(self, seconds: int, folder: Path) -> dict[str, float]:
        """Load it with wrk; every line is sent once, unless they only say who asks."""
        given = folder / "lines"
        given.write_text("\n".join(self.lines) + "\n")
        counted = wrk(self.url, self.script, given, seconds)
        if counted["refused"] or counted["lost"]:
            raise RuntimeError(f"{self.name}: not every request was answered well: {counted}")
        if self.once:  # some were still under way at the end
            del self.lines[: int(counted["requests"]) + CONNECTIONS]
        return counted

    def measure(self, seconds: int, folder: Path) -> None:
        self.rounds.append(self.load(seconds, folder))

    @property
    def rates(self) -> list[float]:
        return [each["requests"] / each["seconds"] for each in self.rounds]

    def as_json(self) -> dict[str, Any]:
        spread = {
            name: summary([each[name] for each in self.rounds]) for name in ("p50_ms", "p99_ms")
        }
        return {"requests_per_s": summary(self.rates), **spread}


def wrk(url: str, script: str, lines: Path, seconds: int) -> dict[str, float]:
    env = os.environ | {"BENCH_LINES": str(lines), "BENCH_LUA": str(HERE)}
    argv = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(HERE / script), url]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode:
        raise RuntimeError(f"wrk failed: {done.stderr or done.stdout}")
    counted: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return counted


# ---- what is served


@contextmanager
def gunicorn(ground: Ground, application: str, database_url: str) -> Iterator[str]:
    """Serve an application as `make up` does."""
    port = free_port()
    argv = [sys.executable, "-m", "gunicorn", "-c", "python:config.web_server", application]
    env = ground.env(database_url) | {"TENFOUR_BIND": f"127.0.0.1:{port}"}
    with started(Command(argv, env=env)):
        until(lambda: listens(port), application)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def uvicorn(ground: Ground, python: Path, database_url: str) -> Iterator[str]:
    port = free_port()
    argv = [str(python), "-m", "uvicorn", "bench.floor.peer:app", "--host", "127.0.0.1"]
    argv += ["--port", str(port), "--workers", "2", "--no-access-log", "--log-level", "error"]
    with started(Command(argv, env=ground.env(database_url))):
        until(lambda: listens(port), "uvicorn")
        yield f"http://127.0.0.1:{port}"


def listens(port: int) -> bool:
    """Whether somebody answers, whatever they say."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


# ---- what is asked


def floor_acks(ground: Ground, rows: int) -> tuple[str, list[str]]:
    """The floor's database, and a request for every row of it."""
    url = ground.create("floor")
    secrets = [f"bench-token-{n}" for n in range(AGENTS)]
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(floor_sql.SCHEMA)
        conn.execute(floor_sql.TOKENS, [secrets])
        conn.execute(floor_sql.FILL, [rows])
        conn.execute(floor_sql.CLAIMED)
        conn.execute("vacuum analyze")
    body = '{"id":%d,"outcome":"done"}'
    return url, [f"{secrets[n % AGENTS]} /ack {body % n}" for n in range(1, rows + 1)]


def tenfour_acks(ground: Ground, rows: int) -> tuple[str, list[str], list[str]]:
    """Tenfour's database, a request for every row that awaits its ack, and who pulls the others."""
    url = ground.migrated("tenfour_http")
    tokens: dict[str, str] = ground.fill(
        url,
        ("agents", {"count": AGENTS}),
        ("tokens", {"count": AGENTS}),
        ("instructions", {"count": rows, "state": "delivered"}),
        ("instructions", {"count": rows // 2, "state": "queued", "first": rows + 1}),
        ("work", {"count": rows // 2}),
        ("events", {}),
        ("settle", {}),
    )[1]
    with psycopg.connect(url) as conn:
        found = conn.execute(
            "select i.id, a.name from ledger_instruction i join ledger_agent a on a.id = i.agent_id"
            " where i.state = 'delivered' order by i.id"
        ).fetchall()
    body = '{"outcome":"done"}'
    acks = [f"{tokens[name]} /v1/instructions/{id}/ack {body}" for id, name in found]
    return url, acks, [f"{secret} {name}" for name, secret in tokens.items()]


def peer_python(ground: Ground, say: Say) -> Path | None:
    """The Python of a new environment with FastAPI and asyncpg; None if they can't be had."""
    try:
        return python_with(ground, "peer", PEER)
    except Missing as missing:
        say(f"FastAPI + asyncpg is left out: {missing}")
        return None


# ---- the measurement


def run(ground: Ground, scale: Scale, say: Say) -> list[Figure]:
    if not shutil.which("wrk"):
        raise Missing("wrk, which loads the servers, is not here: install the package 'wrk'.")
    with ExitStack() as stack:
        sides = serve(ground, scale, say, stack.enter_context)
        for side in sides:
            side.load(WARM_UP, ground.folder)
        for number in range(scale.rounds):
            # Each begins in its turn: whoever comes next finds the disk busy with what was before.
            first = number % len(sides)
            for side in sides[first:] + sides[:first]:
                side.measure(scale.seconds, ground.folder)
            say(", ".join(f"{side.name} {side.rates[-1]:,.0f}/s" for side in sides))
    return figures({side.name: side for side in sides})


def serve(
    ground: Ground, scale: Scale, say: Say, enter: Callable[[AbstractContextManager[str]], str]
) -> list[Side]:
    """Start everything that is compared; it all stays up, and is asked in turn."""
    rows = ROWS_PER_CPU_SECOND * (os.cpu_count() or 1) * (scale.rounds * scale.seconds + WARM_UP)
    python = peer_python(ground, say)
    floor_url, floor = floor_acks(ground, 2 * rows)
    tenfour_url, acks, agents = tenfour_acks(ground, rows)
    bare = enter(gunicorn(ground, "bench.floor.wsgi:application", floor_url))
    tenfour = enter(gunicorn(ground, "config.wsgi:application", tenfour_url))
    sides = [
        Side("floor", bare, "acks.lua", floor[:rows]),
        Side("tenfour ack", tenfour, "acks.lua", acks),
        Side("tenfour pull + ack", tenfour, "pulls.lua", agents, once=False),
        Side("tenfour claim + result", tenfour, "works.lua", agents, once=False),
    ]
    if python:
        peer = enter(uvicorn(ground, python, floor_url))
        sides.append(Side("FastAPI + asyncpg", peer, "acks.lua", floor[rows:]))
    return sides


def figures(sides: dict[str, Side]) -> list[Figure]:
    floor, ack, both = sides["floor"], sides["tenfour ack"], sides["tenfour pull + ack"]
    work = sides["tenfour claim + result"]
    found = [
        Figure(
            "ack over HTTP / floor endpoint",
            ratios(ack.rates, floor.rates),
            target=at_least(0.75),
            detail={"tenfour": ack.as_json(), "floor": floor.as_json()},
        ),
        Figure(
            "pull one and ack it / two floor calls",
            ratios(both.rates, floor.rates),
            target=at_least(0.6),
            detail={"tenfour": both.as_json()},
        ),
        Figure(
            "claim one and report it done / two floor calls",
            ratios(work.rates, floor.rates),
            target=at_least(0.6),
            detail={"tenfour": work.as_json()},
        ),
    ]
    if peer := sides.get("FastAPI + asyncpg"):
        found += [
            Figure(
                "FastAPI + asyncpg in three statements / floor endpoint",
                ratios(peer.rates, floor.rates),
                detail={"peer": peer.as_json()},
            ),
            Figure("ack over HTTP / FastAPI + asyncpg", ratios(ack.rates, peer.rates)),
        ]
    return found
