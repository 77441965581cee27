"""The settings page, and that it says what the docs say."""

import re
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.test import Client
from pytest_django import Settings

from dashboard.settings.reference import GROUPS, LIMITS, MECHANISMS

DOCS = Path(__file__, "../../../../docs/settings.md").resolve().read_text()

pytestmark = pytest.mark.django_db


def text(client: Client) -> str:
    page = client.get("/settings/")
    assert page.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


def test_the_limits_stand_there_under_their_names(browser: Client, settings: Settings) -> None:
    """S1.2, with the values that hold here."""
    settings.TENFOUR = django_settings.TENFOUR | {
        "TASK_MAX_ATTEMPTS": 5,
        "INSTRUCTION_MAX_RETRIES": 0,
    }
    told = text(browser)
    assert "MAX_RETRIES 5 attempts of a plan&#x27;s task TENFOUR_TASK_MAX_ATTEMPTS" in told
    assert "RETRY_DELAY 0 seconds before a plan&#x27;s task is tried again" in told
    assert "ESCALATION_THRESHOLD 5 failures after which a person is asked" in told
    assert "instruction max_retries 3 0 1 delivery failed" in told
    assert "task max_attempts 3 5 5 attempts escalated, or failed with a dead letter" in told


def test_it_shows_every_setting_and_no_secret(browser: Client) -> None:
    told = text(browser)
    names = [each.name for group in GROUPS for each in group.settings]
    assert sorted(names) == sorted(django_settings.TENFOUR)
    for name in names:
        assert f"TENFOUR_{name} " in told
    assert django_settings.SECRET_KEY not in told
    assert django_settings.DATABASES["default"]["PASSWORD"] not in told.split()
    assert Client().get("/settings/").status_code == 302


def test_the_docs_say_the_same() -> None:
    for group in GROUPS:
        section = DOCS.partition(f"\n## {group.title}\n")[2].partition("\n## ")[0]
        for each in group.settings:
            assert f"| `TENFOUR_{each.name}` | {each.default} | {each.says} |" in section
    for limit in LIMITS:
        setting = f"`TENFOUR_{limit.setting}`" if limit.setting else "in the plan"
        assert f"| `{limit.name}` | {setting} | {limit.default} | {limit.says} |" in DOCS
    for each in MECHANISMS:
        setting = f"`TENFOUR_{each.setting}`" if each.setting else ""
        cells = (each.name, f"`{each.word}`", setting, each.default, each.told(each.default))
        assert f"| {' | '.join(map(str, cells))} | {each.then} |" in DOCS
