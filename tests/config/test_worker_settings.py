"""A worker loads nothing that only pages and the API need, and keeps its connections itself."""

import os
import subprocess
import sys

import pytest

from tests.source_tree import ROOT

WEB = ("allauth", "apprise", "django.contrib.admin", "django_htmx", "ninja")
LOADED = f"""
import sys
from config.celery import app

app.loader.import_default_modules()
assert "retries.jobs.run_entry" in app.tasks
print(*[name for name in {WEB} if name in sys.modules])
"""


@pytest.mark.parametrize("given", [{}, {"DJANGO_SETTINGS_MODULE": "config.settings"}])
def test_a_worker_leaves_out_what_answers_requests(given: dict[str, str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    run = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, env=env | given, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.split()) == (0, []), run.stderr


RETRIES = """
import django

django.setup()

from django.db import connection
from psycopg_pool.base import AttemptWithBackoff

connection.ensure_connection()
attempt, at = AttemptWithBackoff(timeout=300), 0.0
while at < 60:
    attempt.update_delay(at)
    print(at, attempt.delay)
    at += attempt.delay
"""


def test_a_worker_soon_notices_that_the_database_is_back() -> None:
    """It asks again after a quarter of the time that the database has been away."""
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "config.worker_settings"}
    run = subprocess.run(
        [sys.executable, "-c", RETRIES], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    for line in run.stdout.splitlines():
        away, delay = map(float, line.split())
        assert delay < 0.3 + 0.3 * away
