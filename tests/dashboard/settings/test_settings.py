"""The Settings page and its agreement with docs/settings.md."""

import json
import re
import subprocess
import sys

import pytest
from django.conf import settings as django_settings
from django.test import Client, override_settings
from django.utils import timezone
from pytest_django import Settings

from config.setting_table import SETTINGS, write_tables
from dashboard.settings.limits import LIMITS, MECHANISMS
from dashboard.settings.reference import GROUPS
from ledger.models import ClockRun

BASE_DIR = django_settings.BASE_DIR
DOCS = (BASE_DIR / "docs" / "settings.md").read_text()

pytestmark = pytest.mark.django_db


def text(client: Client) -> str:
    page = client.get("/settings/")
    assert page.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


def test_limits_are_shown_under_their_names(browser: Client, settings: Settings) -> None:
    """S1.2, with the current values."""
    settings.TENFOUR = django_settings.TENFOUR | {
        "TASK_MAX_ATTEMPTS": 5,
        "INSTRUCTION_MAX_RETRIES": 0,
    }
    shown = text(browser)
    assert "MAX_RETRIES 5 maximum attempts for a task in a plan TENFOUR_TASK_MAX_ATTEMPTS" in shown
    assert "RETRY_DELAY 0 seconds before a task in a plan is retried" in shown
    assert "ESCALATION_THRESHOLD 5 failures before Tenfour escalates to a person" in shown
    assert "instruction max_retries Default 3 0 Total runs: 1 delivery Outcome: failed" in shown
    assert "(Deployment)" in shown and ".md" not in shown
    assert "task max_attempts Default 3 5 Total runs: 5 attempts Outcome: escalated, or" in shown


def test_retention_says_what_it_did_last(browser: Client, settings: Settings) -> None:
    kept = "Everything is kept, except journal months that are older than 400 days."
    assert kept in text(browser)
    settings.TENFOUR = django_settings.TENFOUR | {"EVENT_DAYS": 0}
    assert "Everything is kept." in text(browser)
    settings.TENFOUR = django_settings.TENFOUR | {"TASK_DAYS": 30, "ARCHIVE": "off"}
    assert "It has not run yet." in text(browser)
    run = ClockRun.objects.create(
        name="retention", last_run_at=timezone.now(), did={"tasks": 120, "sessions": 1, "plans": 0}
    )
    shown = text(browser)
    assert "The last run deleted 120 tasks and 1 session." in shown
    assert "Nothing is archived." in shown
    ClockRun.objects.filter(pk=run.pk).update(did={"error": "The archive can't be written: <b>."})
    assert (
        "The archive can&#x27;t be written: &lt;b&gt;."
        in browser.get("/settings/").content.decode()
    )
    # the journal's months are deleted even where nothing else is
    settings.TENFOUR = django_settings.TENFOUR | {"TASK_DAYS": 0}
    ClockRun.objects.filter(pk=run.pk).update(
        name="journal", did={"error": "The journal keeps a past month."}
    )
    assert "The journal keeps a past month." in text(browser)


def test_every_setting_is_shown_and_no_secret(browser: Client) -> None:
    shown = text(browser)
    names = [each.name for group in GROUPS for each in group.settings]
    assert sorted(names) == sorted(django_settings.TENFOUR)
    for name in names:
        assert f"TENFOUR_{name} " in shown
    assert django_settings.SECRET_KEY not in shown
    assert django_settings.DATABASES["default"]["PASSWORD"] not in shown.split()
    assert Client().get("/settings/").status_code == 302


def test_without_an_environment_every_setting_has_its_default() -> None:
    """A default is written as it would be in the environment, within its bounds."""
    code = "import json; from config.settings import TENFOUR; print(json.dumps(TENFOUR))"
    bare = {
        "DATABASE_URL": "postgres://x:x@127.0.0.1:1/x",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "TENFOUR_SECRET_KEY": "x" * 40,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BASE_DIR, env=bare, capture_output=True, text=True
    )
    with override_settings(TENFOUR=json.loads(done.stdout)):
        assert [each for group in GROUPS for each in group.settings if each.is_changed] == []


def test_docs_have_the_tables_of_the_settings() -> None:
    """`python -m config.setting_table` writes them."""
    assert write_tables(DOCS) == DOCS
    for name, setting in SETTINGS.items():
        assert setting.row in DOCS, name
    for limit in LIMITS:
        setting = f"`TENFOUR_{limit.setting}`" if limit.setting else "in the plan"
        assert f"| `{limit.name}` | {setting} | {limit.default} | {limit.description} |" in DOCS
    for each in MECHANISMS:
        setting = f"`TENFOUR_{each.setting}`" if each.setting else ""
        cells = (each.name, f"`{each.limit}`", setting, each.default, each.count_runs(each.default))
        assert f"| {' | '.join(map(str, cells))} | {each.outcome} |" in DOCS
