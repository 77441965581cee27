"""The benchmarks in short form: one as `python -m bench --quick NAME` runs it, the others shorter still.

A figure that misses its target is no failure: other work on the machine decides that. The suites
that are not here take minutes, or need programs or data that Tenfour does not include.
"""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from bench import client, deadletters, rolling
from bench.__main__ import format_table
from bench.figures import Figure, Scale
from bench.servers import Sandbox, make_folder, run_sandbox
from tests import services
from tests.programs import require_pgbouncer, require_program
from tests.serving import ROOT
from tests.waiting import PATIENCE_S

# what a suite is allowed to take on a machine that does much else
LIMIT_S = 3 * PATIENCE_S
ROLLING_LIMIT_S = 6 * PATIENCE_S  # it waits for the start of a web server four times
SHORTEST = Scale(rounds=1, seconds=1, quick=True)
DEAD_LETTERS = 20_000
MISSED = 1  # the exit code if a figure missed its target


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """The servers of the tests, where a migrated database can be copied."""
    if not services.running:
        with run_sandbox() as sandbox:
            yield sandbox
        return
    urls = services.running.servers.urls
    with end_in_order(), make_folder() as folder, drop_new_databases(urls["DATABASE_URL"]):
        (folder / "data").mkdir()
        # Its workers must take no job of other tests.
        redis = urls["REDIS_URL"].removesuffix("/0") + "/1"
        yield Sandbox(folder, urls | {"REDIS_URL": redis}, services.MIGRATED)


@contextmanager
def end_in_order() -> Iterator[None]:
    """Let a run that is ended from outside remove processes and networks, as the command does."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("ended from outside"))
    yield
    signal.signal(signal.SIGTERM, before)


@contextmanager
def drop_new_databases(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as connection:
        query = "select datname from pg_database"
        before = connection.execute(query).fetchall()
        yield
        for [name] in set(connection.execute(query).fetchall()) - set(before):
            connection.execute(f"drop database {name} with (force)")


@pytest.mark.timeout(LIMIT_S + PATIENCE_S)
def test_the_command_measures_a_suite_and_writes_its_figures(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = run_bench("--quick", "--json", str(file), "retry_timing", limit=LIMIT_S)
    assert done.returncode in (0, MISSED) and file.exists(), done.stderr
    figures = json.loads(file.read_text())["figures"]
    assert len(figures) == 3, figures
    check_figures([(each["name"], each["rounds"]) for each in figures], done.stdout.splitlines())


def run_bench(*arguments: str, limit: float) -> "subprocess.CompletedProcess[str]":
    """Run the command and return what it printed; after the limit it ends with its servers."""
    argv = [sys.executable, "-m", "bench", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=limit)
        except BaseException:
            process.terminate()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def check_figures(figures: list[tuple[str, list[float]]], table: list[str]) -> None:
    rows = [row.split(" | ")[0].strip("| ") for row in table]
    for name, rounds in figures:
        assert name in rows, table
        assert rounds and all(math.isfinite(value) for value in rounds), name


@pytest.mark.timeout(LIMIT_S + PATIENCE_S)
def test_the_starts_of_the_client_are_measured(sandbox: Sandbox) -> None:
    figures = client.run(sandbox, SHORTEST, print)
    assert len(figures) == 5
    check_values(figures)


@pytest.mark.timeout(LIMIT_S + PATIENCE_S)
def test_the_pages_of_dead_letters_are_measured(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadletters, "DEAD_LETTERS", DEAD_LETTERS)
    figures = deadletters.run(sandbox, SHORTEST, print)
    assert len(figures) == 3
    check_values(figures)


def check_values(figures: list[Figure]) -> None:
    check_figures([(each.name, each.values) for each in figures], format_table(figures))


@pytest.mark.timeout(ROLLING_LIMIT_S + PATIENCE_S)
def test_no_request_fails_while_every_process_is_restarted(sandbox: Sandbox) -> None:
    """With two of each process behind nginx and PgBouncer, in network namespaces if root runs it."""
    require_program("nginx")
    require_pgbouncer()
    said: list[str] = []
    figures = rolling.run(sandbox, SHORTEST, said.append)
    values = {each.name.removeprefix("rolling restart: "): each.values for each in figures}
    assert values["processes restarted"] == [6], said
    assert values["failed requests"] == values["lost or doubled"] == [0], said
    assert values["requests"][0] > 0
