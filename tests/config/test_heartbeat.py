"""A worker or a clock that stalls is noticed, and one that has no Redis is left alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from config.heartbeat import STALE_S
from config.local.embedded import free_port
from tests.celery_processes import CLOCK, WORKER, run_celery
from tests.serving import ROOT
from tests.waiting import PATIENCE_S, wait_until


def probe(file: Path, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "config.heartbeat"],
        cwd=ROOT,
        env=os.environ | {"TENFOUR_HEARTBEAT_FILE": str(file)} | env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stderr


def make_old(file: Path) -> None:
    long_ago = file.stat().st_mtime - STALE_S - 10_000
    os.utime(file, (long_ago, long_ago))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("argv", [WORKER, CLOCK], ids=["worker", "clock"])
def test_a_process_that_stalls_fails_its_probe_until_it_works_again(
    argv: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "heartbeat"
    assert probe(file)[0] == 1
    with run_celery(*argv, TENFOUR_HEARTBEAT_FILE=str(file)) as process:
        wait_until(file.exists)
        assert probe(file) == (0, "")
        process.send_signal(signal.SIGSTOP)
        try:
            make_old(file)
            code, said = probe(file)
            assert code == 1 and "was last touched" in said
        finally:
            process.send_signal(signal.SIGCONT)
        wait_until(lambda: probe(file)[0] == 0)


def test_a_restart_does_not_help_where_redis_is_away(tmp_path: Path) -> None:
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    file = tmp_path / "heartbeat"
    file.touch()
    make_old(file)
    assert probe(file, REDIS_URL=nowhere) == (0, "")
    assert probe(file)[0] == 1
