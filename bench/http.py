"""Compare HTTP requests to Tenfour with the floor endpoint on the same server and settings."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from bench.figures import Figure, Say, Scale, at_least, ratios, summarize
from bench.floor import sql as floor_sql
from bench.page_comparison import check_out
from bench.servers import MissingDependency, Sandbox, install_packages, run_program, wait_until
from config.local.commands import Command
from config.local.embedded import free_port
from config.local.places import PROJECT

HERE = Path(__file__).resolve().parent
CONNECTIONS = 16
AGENTS = 50
WARM_UP_S = 2
ROWS_PER_CPU_SECOND = 3000  # more than one processor serves
AGAINST = ", other revision"
PEER_PACKAGES = ["fastapi", "asyncpg", "uvicorn", "uvloop", "httptools"]


@dataclass
class LoadTarget:
    """A server under load, its wrk script, and the requests that remain."""

    name: str
    url: str
    script: str
    lines: list[str]
    uses_line_once: bool = True
    rounds: list[dict[str, float]] = field(default_factory=list)

    def load(self, seconds: int, folder: Path) -> dict[str, float]:
        """Run wrk against the server; remove the lines it used, unless they only hold tokens."""
        lines_file = folder / "lines"
        lines_file.write_text("\n".join(self.lines) + "\n")
        counts = run_wrk(self.url, self.script, lines_file, seconds)
        if counts["refused"] or counts["lost"]:
            raise RuntimeError(f"{self.name}: some requests failed: {counts}")
        if self.uses_line_once:  # some requests were still in flight at the end
            del self.lines[: int(counts["requests"]) + CONNECTIONS]
        return counts

    def measure(self, seconds: int, folder: Path) -> None:
        self.rounds.append(self.load(seconds, folder))

    @property
    def rates(self) -> list[float]:
        return [each["requests"] / each["seconds"] for each in self.rounds]

    def as_json(self) -> dict[str, Any]:
        spread = {
            name: summarize([each[name] for each in self.rounds]) for name in ("p50_ms", "p99_ms")
        }
        return {"requests_per_s": summarize(self.rates), **spread}


def require_wrk() -> None:
    """Raise MissingDependency if the load can't be made on this machine."""
    if not shutil.which("wrk"):
        raise MissingDependency("wrk is not installed. Install the package 'wrk'.")


def run_wrk(url: str, script: str, lines: Path, seconds: int) -> dict[str, float]:
    env = os.environ | {"BENCH_LINES": str(lines), "BENCH_LUA": str(HERE)}
    argv = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(HERE / script), url]
    completed = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=seconds + 60)
    if completed.returncode:
        raise RuntimeError(f"wrk failed: {completed.stderr or completed.stdout}")
    counts: dict[str, float] = json.loads(completed.stdout.strip().splitlines()[-1])
    return counts


# ---- servers


@contextmanager
def run_web_server(
    sandbox: Sandbox, application: str, database_url: str, *, folder: Path = PROJECT
) -> Iterator[str]:
    """Serve an application of a folder as `make up` does."""
    with run_web_processes(sandbox, application, database_url, folder=folder) as (url, _):
        yield url


@contextmanager
def run_web_processes(
    sandbox: Sandbox, application: str, database_url: str, *, folder: Path = PROJECT
) -> Iterator[tuple[str, int]]:
    """Serve an application; yield its URL and the ID of the process that has the others."""
    port = free_port()
    argv = [sys.executable, "-m", "config.web_server", application]
    env = sandbox.env(database_url) | {"TENFOUR_BIND": f"127.0.0.1:{port}"}
    env["PYTHONPATH"] = str(folder)
    with run_program(Command(argv, cwd=folder, env=env)) as pid:
        wait_until(lambda: is_listening(port), application)
        yield f"http://127.0.0.1:{port}", pid


@contextmanager
def run_uvicorn(sandbox: Sandbox, python: Path, database_url: str) -> Iterator[str]:
    port = free_port()
    argv = [str(python), "-m", "uvicorn", "bench.floor.peer:app", "--host", "127.0.0.1"]
    argv += ["--port", str(port), "--workers", "2", "--no-access-log", "--log-level", "error"]
    with run_program(Command(argv, env=sandbox.env(database_url))):
        wait_until(lambda: is_listening(port), "uvicorn")
        yield f"http://127.0.0.1:{port}"


def is_listening(port: int) -> bool:
    """Return whether the port answers HTTP, with any status."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


# ---- requests


def prepare_floor(sandbox: Sandbox, name: str, rows: int) -> tuple[str, list[str]]:
    """Create the floor's database; return its URL and one request per row."""
    url = sandbox.create(name)
    secrets = [f"bench-token-{n}" for n in range(AGENTS)]
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(floor_sql.SCHEMA)
        conn.execute(floor_sql.TOKENS, [secrets])
        conn.execute(floor_sql.FILL, [rows])
        conn.execute(floor_sql.FILL_HISTORY)
        conn.execute("vacuum analyze")
    body = '{"id":%d,"outcome":"done"}'
    return url, [f"{secrets[n % AGENTS]} /ack {body % n}" for n in range(1, rows + 1)]


def prepare_tenfour(sandbox: Sandbox, rows: int) -> tuple[str, list[str], list[str]]:
    """Create Tenfour's database; return its URL, one ack per delivered row, and all tokens."""
    url = sandbox.create_migrated("tenfour_http")
    tokens: dict[str, str] = sandbox.seed(
        url,
        ("agents", {"count": AGENTS}),
        ("tokens", {"count": AGENTS}),
        ("instructions", {"count": rows, "state": "delivered"}),
        ("instructions", {"count": rows // 2, "state": "queued", "first": rows + 1}),
        ("queued_tasks", {"count": rows // 2}),
        ("events", {}),
        ("vacuum", {}),
    )[1]
    with psycopg.connect(url) as conn:
        delivered = conn.execute(
            "select i.id, a.name from ledger_instruction i join ledger_agent a on a.id = i.agent_id"
            " where i.state = 'delivered' order by i.id"
        ).fetchall()
    body = '{"outcome":"done"}'
    acks = [f"{tokens[name]} /v1/instructions/{id}/ack {body}" for id, name in delivered]
    return url, acks, [f"{secret} {name}" for name, secret in tokens.items()]


def install_peer(sandbox: Sandbox, say: Say) -> Path | None:
    """Return a Python with FastAPI and asyncpg, or None if they cannot be installed."""
    try:
        return install_packages(sandbox, "peer", PEER_PACKAGES)
    except MissingDependency as missing:
        say(f"FastAPI + asyncpg skipped: {missing}")
        return None


# ---- the measurement


def run(sandbox: Sandbox, scale: Scale, say: Say) -> list[Figure]:
    require_wrk()
    with ExitStack() as stack:
        targets = start_targets(sandbox, scale, say, stack.enter_context)
        for target in targets:
            target.load(WARM_UP_S, sandbox.folder)
        for number in range(scale.rounds):
            # Rotate the order: each target finds the disk busy with its predecessor's writes.
            first = number % len(targets)
            for target in targets[first:] + targets[:first]:
                target.measure(scale.seconds, sandbox.folder)
            say(", ".join(f"{target.name} {target.rates[-1]:,.0f}/s" for target in targets))
    by_name = {target.name: target for target in targets}
    compared = [
        Figure(f"{name} / {scale.against}", ratios(target.rates, other.rates))
        for name, target in by_name.items()
        if (other := by_name.get(f"{name}{AGAINST}"))
    ]
    return build_figures(by_name) + compared


def start_targets(
    sandbox: Sandbox, scale: Scale, say: Say, enter: Callable[[AbstractContextManager[str]], str]
) -> list[LoadTarget]:
    """Start all servers and return the targets to load in turn."""
    rows = ROWS_PER_CPU_SECOND * (os.cpu_count() or 1) * (scale.rounds * scale.seconds + WARM_UP_S)
    rows *= 2 if scale.against else 1
    python = install_peer(sandbox, say)
    floor_url, floor = prepare_floor(sandbox, "floor_http", 2 * rows)
    tenfour_url, acks, agents = prepare_tenfour(sandbox, rows)
    bare = enter(run_web_server(sandbox, "bench.floor.wsgi:application", floor_url))
    tenfour = enter(run_web_server(sandbox, "config.wsgi:application", tenfour_url))
    targets = [
        LoadTarget("floor", bare, "acks.lua", floor[:rows]),
        LoadTarget("tenfour ack", tenfour, "acks.lua", acks),
        LoadTarget("tenfour pull + ack", tenfour, "pulls.lua", agents, uses_line_once=False),
        LoadTarget("tenfour claim + result", tenfour, "claims.lua", agents, uses_line_once=False),
    ]
    if scale.against:
        folder = check_out(sandbox, scale.against)
        url = enter(run_web_server(sandbox, "config.wsgi:application", tenfour_url, folder=folder))
        targets += [
            replace(target, name=f"{target.name}{AGAINST}", url=url, rounds=[])
            for target in targets[1:]
        ]
        targets[1].lines, targets[4].lines = acks[: len(acks) // 2], acks[len(acks) // 2 :]
    if python:
        peer = enter(run_uvicorn(sandbox, python, floor_url))
        targets.append(LoadTarget("FastAPI + asyncpg", peer, "acks.lua", floor[rows:]))
    return targets


def build_figures(targets: dict[str, LoadTarget]) -> list[Figure]:
    floor, ack, pull = targets["floor"], targets["tenfour ack"], targets["tenfour pull + ack"]
    work = targets["tenfour claim + result"]
    figures = [
        Figure(
            "ack over HTTP / floor endpoint",
            ratios(ack.rates, floor.rates),
            target=at_least(0.8),
            detail={"tenfour": ack.as_json(), "floor": floor.as_json()},
        ),
        Figure(
            "pull one and ack it / two floor calls",
            ratios(pull.rates, floor.rates),
            target=at_least(0.6),
            detail={"tenfour": pull.as_json()},
        ),
        Figure(
            "claim one and report it done / two floor calls",
            ratios(work.rates, floor.rates),
            target=at_least(0.7),
            detail={"tenfour": work.as_json()},
        ),
    ]
    if peer := targets.get("FastAPI + asyncpg"):
        figures += [
            Figure(
                "FastAPI + asyncpg in three statements / floor endpoint",
                ratios(peer.rates, floor.rates),
                detail={"peer": peer.as_json()},
            ),
            Figure(
                "ack over HTTP / FastAPI + asyncpg",
                ratios(ack.rates, peer.rates),
                target=at_least(0.8),
            ),
        ]
    return figures
