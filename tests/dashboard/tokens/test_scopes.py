"""Scopes that a person chooses for a new token."""

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from ledger.access.scopes import READING
from ledger.models import Project, Token
from tests.dashboard.seen import html, words

pytestmark = pytest.mark.django_db
URL = "/settings/tokens/"


def test_a_person_chooses_scopes(browser: Client, project: Project) -> None:
    form = {"kind": "reader", "scope": ["tasks:read", "metrics:read"], "project": project.name}
    assert browser.post(f"{URL}new/", form).status_code == 200
    assert Token.objects.get().scopes == ["metrics:read", "tasks:read"]
    assert "metrics:read, tasks:read" in words(browser.get(URL))


def test_without_a_choice_a_token_has_its_kinds_scopes(browser: Client, project: Project) -> None:
    browser.post(f"{URL}new/", {"kind": "reader", "project": project.name})
    assert set(Token.objects.get().scopes) == READING


def test_a_scope_of_another_kind_stays_in_the_form(browser: Client, project: Project) -> None:
    form = {"kind": "reader", "scope": ["tasks:write"], "project": project.name}
    refused = browser.post(f"{URL}new/", form)
    assert refused.status_code == 422 and not Token.objects.exists()
    page = html(refused, 422)
    assert "can't have 'tasks:write'" in page and 'value="tasks:write" checked' in page


def test_the_command_takes_scopes(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "--kind", "reader", "--scopes", "tasks:read, events:read")
    assert Token.objects.get().scopes == ["events:read", "tasks:read"]
    with pytest.raises(CommandError, match="can't have 'plans:write'"):
        call_command("token", "--kind", "reader", "--scopes", "plans:write")
