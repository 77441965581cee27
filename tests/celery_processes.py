"""A Celery worker or clock of its own on the test database, for tests that kill one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.serving import ROOT, database_of_tests
from tests.waiting import PATIENCE_S

CELERY = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "config"]
OPTIONS = ["-P", "threads", "-c", "2", "-l", "WARNING", "--without-gossip", "--without-mingle"]
WORKER = ["worker", *OPTIONS]
# The scheduler of every installation, which stores nothing that a later clock would read.
CLOCK = ["beat", "-l", "WARNING", "--pidfile=", "--scheduler", "celery.beat:Scheduler"]


@contextmanager
def run_celery(
    *argv: str, output: IO[bytes] | None = None, **variables: str
) -> "Iterator[subprocess.Popen[bytes]]":
    """Run Celery with these arguments and variables; it leads a process group and ends with us."""
    env = os.environ | {"DATABASE_URL": database_of_tests(), "C_FORCE_ROOT": "1", **variables}
    process = subprocess.Popen(
        [*CELERY, *argv], cwd=ROOT, env=env, start_new_session=True, stdout=output, stderr=output
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
