"""`tenfour events --follow`: everything, in order, once, also while the server is away."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tenfour import Client
from tenfour.api import calls

from tests.client.conftest import Run
from tests.client.faulty import CUT, DROPPED, FaultyLine, problem
from tests.client.worlds import BIDI
from tests.serving import Tenfour, environment, serve
from tests.waiting import PATIENCE_S


@pytest.fixture
def env(tenfour_server: Tenfour) -> dict[str, str]:
    return {"TENFOUR_URL": tenfour_server.url, "TENFOUR_TOKEN": tenfour_server.token("operator")}


@contextmanager
def following(*args: str, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Run `tenfour events --follow`; interrupt it at the end, as Ctrl-C does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tenfour", "events", "--follow", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(env),
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "Traceback" not in err


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline()


def test_it_outlasts_faults_and_filters_the_stream(
    env: dict[str, str], line: FaultyLine, producer: Client, agent_client: Client
) -> None:
    old = producer.instructions.send("coder", "one").id
    args = ("--json", "--kind", "instruction.queued", "--limit", "1")
    with following(*args, env=env | {"TENFOUR_URL": line.url}) as process:
        first = json.loads(read_line(process))
        assert (first["subject"], first["type"]) == (old, "instruction.queued")
        unavailable = problem(503, "temporarily_unavailable", Retry_After="0")
        line.faults.extend([DROPPED, CUT, unavailable, unavailable, unavailable])
        agent_client.instructions.pull()
        ids = [producer.instructions.send("coder", f"{BIDI} {n}").id for n in range(3)]
        events = [json.loads(read_line(process)) for _ in ids]
        assert [event["subject"] for event in events] == ids
        assert {event["type"] for event in events} == {"instruction.queued"}


def test_it_outlasts_a_restart_of_the_server(
    env: dict[str, str], tenfour_server: Tenfour, producer: Client, agent_client: Client
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        server = serve(bound.fileno())
        try:
            wait_for(url)
            with following("--limit", "1", env=env | {"TENFOUR_URL": url}) as process:
                assert "\t" in read_line(process)
                server.kill()
                server.wait(timeout=PATIENCE_S)
                while_away = producer.instructions.send("coder", "while it is away").id
                server = serve(bound.fileno())
                assert while_away in read_line(process)
                afterwards = producer.instructions.send("coder", "afterwards").id
                assert afterwards in read_line(process)
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE_S)


def wait_for(url: str) -> None:
    with Client(url, "none", timeout=PATIENCE_S) as client:
        client.perform(calls.health())


@pytest.mark.parametrize("args", [["events", "--follow"], ["tasks"], ["event", "list", "--json"]])
def test_a_reader_that_leaves_ends_it_quietly(
    run: Run, env: dict[str, str], producer: Client, agent_client: Client, args: list[str]
) -> None:
    producer.tasks.enqueue("coder", "code")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "tenfour", *args],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(env),
        timeout=PATIENCE_S,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_it_takes_no_times_and_needs_a_server_at_the_start(run: Run, env: dict[str, str]) -> None:
    wrong = run("events", "--follow", "--since", "2026-11-22T12:00:00Z", env=env)
    assert wrong.status == 2 and "--follow goes with neither" in wrong.err
    away = run("events", "--follow", env=env | {"TENFOUR_URL": "http://127.0.0.1:1"})
    assert (away.status, away.out) == (69, "")
