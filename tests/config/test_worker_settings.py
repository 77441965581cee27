"""A worker loads nothing that only pages and the API need."""

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
