"""Hosts whose clocks are wrong: PostgreSQL's time decides, and the difference is named (OPS-3)."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tenfour import Client

from config.monitoring.host_clocks import check_host_clocks, measure_hosts
from ledger.models import Attempt, ClockRun, Failure, Task
from tests.celery_processes import CLOCK, WORKER, run_celery
from tests.config.web_processes import HEALTH, run_server
from tests.serving import Tenfour
from tests.shifted_clock import shifted
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

LEASE_S = 10
# a measurement of PostgreSQL's time may be wrong by half a round trip
SLACK = timedelta(seconds=1)


def test_the_library_shifts_the_real_time_alone() -> None:
    code = "import time; print(time.time(), time.monotonic()); time.sleep(0.01)"

    def read(env: dict[str, str]) -> list[float]:
        argv = [sys.executable, "-c", code]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
        return [float(each) for each in done.stdout.split()]

    real, steady = read({})
    ahead, later = read(shifted(3600))
    assert 3600 <= ahead - real < 3700 and 0 <= later - steady < 100


@contextmanager
def clockwork(log: Path, *workers: int, beat: int) -> Iterator[None]:
    """Run a clock and workers whose hosts' clocks are that many seconds ahead."""
    with log.open("wb") as output, ExitStack() as processes:
        argvs = [(["-n", f"worker{n}", *WORKER[1:]], ahead) for n, ahead in enumerate(workers)]
        for options, ahead in argvs:
            variables = shifted(ahead) | {"TENFOUR_LOG_LEVEL": "INFO"}
            processes.enter_context(run_celery("worker", *options, output=output, **variables))
        processes.enter_context(run_celery(*CLOCK, output=output, **shifted(beat)))
        yield


@pytest.mark.parametrize(
    ("workers", "beat"), [([60], 0), ([120], 120), ([-3600, 0], 0), ([0], -3600)]
)
def test_a_dead_agents_lease_lasts_its_time_and_ends(
    workers: list[int], beat: int, tmp_path: Path, tenfour_server: Tenfour, agent_client: Client
) -> None:
    log, farthest = tmp_path / "log", max(workers, key=abs)
    with clockwork(log, *workers, beat=beat):
        wait_until(ClockRun.objects.filter(name="expire_leases").exists, log.read_text)
        with tenfour_server.client("orchestrator") as producer:
            task = producer.tasks.enqueue("coder", "code")
        asked_at = time.monotonic()
        [_] = agent_client.tasks.claim(lease_s=LEASE_S)
        wait_until(Task.objects.exclude(state="running").exists, log.read_text)
        assert time.monotonic() - asked_at >= LEASE_S
        wait_until(lambda: round(measure_hosts()["worker"]) == farthest, log.read_text)
        assert (check_host_clocks() == "ok") == (farthest == 0)
    assert Failure.objects.get(task=task.id).code == "lease_expired"
    assert "Discarding" not in log.read_text()  # as Celery says that it drops a job
    assert ("this host's clock is" in log.read_text()) == (farthest != 0)


@pytest.mark.parametrize(
    ("ahead", "said"), [(60, "60 s ahead of"), (120, "120 s ahead of"), (-3600, "3600 s behind")]
)
def test_a_web_process_gives_leases_by_postgresqls_time(
    ahead: int, said: str, tenfour_server: Tenfour
) -> None:
    with (
        run_server(workers=1, TENFOUR_METRICS_ALLOW="127.0.0.1", **shifted(ahead)) as served,
        tenfour_server.client("orchestrator") as producer,
        replace(tenfour_server, url="http://{}:{}".format(*served.address)).client(
            "agent", "coder"
        ) as coder,
    ):
        producer.tasks.enqueue("coder", "code")
        began_at = datetime.now(UTC)
        attempt = next(coder.attempts(lease_s=LEASE_S))
        granted_at = Attempt.objects.get().lease_expires_at - timedelta(seconds=LEASE_S)
        assert began_at - SLACK <= granted_at <= datetime.now(UTC) + SLACK
        ready = served.ask(HEALTH.replace(b"/healthz", b"/readyz")).decode()
        assert f"web: this host's clock is {said} PostgreSQL's" in ready
        assert "HTTP/1.1 200" in ready and "degraded" in ready
        metrics = served.ask(HEALTH.replace(b"/healthz", b"/metrics")).decode()
        [value] = re.findall(r'tenfour_host_clock_ahead_seconds{process="web"} (\S+)', metrics)
        assert round(float(value)) == ahead
        with attempt:
            attempt.result = {}
        assert attempt.decision and attempt.decision.decision == "done"
