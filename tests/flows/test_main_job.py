"""The main job with nothing left out: HTTP, real agents' behaviour, a real beat and a real worker."""

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection
from tenfour import Client

from ledger.models import ClockRun, Event, Instruction
from tests.serving import ROOT, Tenfour
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clockwork(tenfour_server: Tenfour) -> Iterator[None]:
    """A Celery beat that ticks every second, and a worker, on the test database."""
    database = urlsplit(os.environ["DATABASE_URL"])._replace(
        path=f"/{connection.settings_dict['NAME']}"
    )
    redis = urlsplit(os.environ["REDIS_URL"])._replace(path="/9")
    env = os.environ | {
        "DATABASE_URL": urlunsplit(database),
        "REDIS_URL": urlunsplit(redis),
        "TENFOUR_IDLE_CHECK_SECONDS": "1",
        "TENFOUR_INSTRUCTION_MIN_AGE": "0",
        "C_FORCE_ROOT": "1",
    }
    celery = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "config"]
    schedule = os.path.join(os.environ["TENFOUR_DATA"], "beat-test.db")
    commands = [
        [
            *celery,
            "worker",
            "-P",
            "threads",
            "-c",
            "2",
            "-l",
            "WARNING",
            "--without-gossip",
            "--without-mingle",
        ],
        [*celery, "beat", "-l", "WARNING", "--pidfile=", "-s", schedule],
    ]
    processes = [subprocess.Popen(command, cwd=ROOT, env=env) for command in commands]
    try:
        yield
    finally:
        for process in processes[::-1]:
            process.terminate()
        for process in processes:
            process.wait(timeout=PATIENCE_S)


def test_a_deaf_agent_is_told_four_times_and_then_given_up(
    clockwork: None, tenfour_server: Tenfour, producer: Client, agent_client: Client
) -> None:
    """S0.12, S0.20 by the real clock; an agent that acks is left alone meanwhile."""
    ignored = producer.instructions.send("coder", "Check")
    with tenfour_server.client("agent", "steady") as steady:
        heard = producer.instructions.send("steady", "Check", expect={"type": "done"})
        texts = []

        def given_up() -> bool:
            texts.extend(row.text for row in agent_client.instructions.pull().data)
            if steady.instructions.pull().data:
                assert steady.signal("done", {}) == (heard.id,)
            return Instruction.objects.filter(pk=ignored.id, state="failed").exists()

        wait_until(given_up)
    assert texts == ["Check", "Check", "**IMPORTANT:** Check", "**URGENT:** Check"]
    assert producer.instructions.get(heard.id).state == "acknowledged"
    assert Instruction.objects.get(pk=heard.id).deliveries == 1
    told = Event.objects.filter(kind="instruction.failed").get()
    assert (told.actor_type, told.actor_name) == ("system", "idle_check")
    assert ClockRun.objects.filter(name="idle_check").exists()
