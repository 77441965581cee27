"""Log lines: one JSON object each where a machine reads them."""

import json
import os
import subprocess
import sys
from datetime import datetime

from config.local.places import PROJECT

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
