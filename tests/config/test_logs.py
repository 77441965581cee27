"""Log lines: one JSON object each where a machine reads them."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from config.local.commands import Command
from config.local.embedded import free_port
from config.local.places import PROJECT
from tests.celery_processes import CLOCK, WORKER, run_celery
from tests.config.web_processes import ending
from tests.serving import database_of_tests
from tests.waiting import wait_until

LOG = """
import logging, django, structlog
django.setup()
structlog.contextvars.bind_contextvars(request_id="r-1")
logger = logging.getLogger("retries.sample")
logger.warning("first %s\\nand more", "line")
try:
    1 / 0
except ZeroDivisionError:
    logger.exception("it failed")
"""


def log(**env: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOG],
        cwd=PROJECT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"} | env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()


def test_each_line_is_a_json_object_with_level_time_logger_and_request() -> None:
    first, second = (json.loads(line) for line in log(TENFOUR_LOG_JSON="1"))
    assert first["event"] == "first line and more"
    assert (first["level"], first["logger"]) == ("warning", "retries.sample")
    assert datetime.fromisoformat(first["timestamp"]).tzinfo
    assert first["request_id"] == second["request_id"] == "r-1"
    assert "ZeroDivisionError: division by zero" in second["exception"]


def test_a_terminal_gets_plain_text() -> None:
    first, *rest = log()
    assert "first line and more" in first and not first.startswith("{")
    assert rest[-1] == "ZeroDivisionError: division by zero"


def sentences(output: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]


def list_warnings(output: Path) -> list[str]:
    return [each["event"] for each in sentences(output) if each["level"] == "warning"]


MISSPELLED = {"TENFOUR_PROT": "8000", "TENFOUR_LOG_JSON": "1"}
WARNING = "TENFOUR_PROT is not a setting of Tenfour. Did you mean TENFOUR_PORT?"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("argv", [WORKER, CLOCK], ids=["worker", "clock"])
def test_a_worker_and_a_clock_warn_once_about_a_misspelled_setting(
    argv: list[str], tmp_path: Path
) -> None:
    log, alive = tmp_path / "log", tmp_path / "alive"
    with (
        log.open("wb") as output,
        run_celery(*argv, output=output, TENFOUR_HEARTBEAT_FILE=str(alive), **MISSPELLED),
    ):
        wait_until(alive.exists, log.read_text)
        assert list_warnings(log).count(WARNING) == 1, log.read_text()


@pytest.mark.django_db(transaction=True)
def test_a_web_server_says_in_json_what_it_warns_about_and_where_it_serves(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    own = {"DATABASE_URL": database_of_tests(), "TENFOUR_PORT": str(port)}
    command = Command(
        [sys.executable, "-W", "ignore", "-m", "config.web_server"],
        env=os.environ | own | MISSPELLED,
    )
    with (
        log.open("wb") as output,
        ending(subprocess.Popen(command.argv, stdout=output, stderr=output, **command.options())),
    ):
        served = f"serving at http://127.0.0.1:{port}"
        wait_until(lambda: served in log.read_text(), log.read_text)
        assert [each["event"] for each in sentences(log)] == [WARNING, served]
        assert [line for line in log.read_text().splitlines() if not line.startswith("{")] == []
