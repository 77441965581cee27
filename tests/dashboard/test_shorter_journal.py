"""The journal may be kept for a shorter time than the rows that it tells about."""

from datetime import datetime
from itertools import chain
from uuid import UUID

import pytest
from django.contrib import admin
from django.test import Client

from ledger.journal_storage import deletion as journal_deletion
from ledger.models import Agent, Event
from tests.access_world import World, make_world
from tests.dashboard.test_roles import NEEDS, call, list_forms, path_of, sign_in
from tests.factories import make_token
from tests.ledger.api.test_access import list_calls, send


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    """Return one of everything, about which the journal has no events anymore."""
    found = make_world(agent, now)
    journal_deletion.delete_project_events(agent.project_id, after=UUID(int=0))
    assert not Event.objects.filter(project_id=agent.project_id).exists()
    return found


def test_every_page_and_action_works_without_the_journal(world: World) -> None:
    """By default a month of the journal is deleted after 400 days, and most rows never."""
    browser, forms = sign_in("root", is_staff=True, is_superuser=True), list_forms(world.ids)
    names = chain.from_iterable(NEEDS.values())
    codes = {name: call(browser, path_of(world, name), forms.get(name, {})) for name in names}
    assert {name: found for name, found in codes.items() if max(found) >= 500} == {}


def test_every_page_of_the_admin_opens_without_the_journal(
    world: World, admin_client: Client
) -> None:
    wrong = {}
    for model in admin.site._registry:
        row = model._default_manager.order_by("pk").first()
        label = f"{model._meta.app_label}/{model._meta.model_name}"
        for rest in ("", f"{row.pk}/change/", f"{row.pk}/history/") if row else ("",):
            path = f"/admin/{label}/{rest}"
            if (status := admin_client.get(path).status_code) >= 500:
                wrong[path] = status
    assert wrong == {}


def test_every_operation_of_the_api_works_without_the_journal(world: World) -> None:
    secret, own = (
        make_token("operator", manages_tokens=True),
        make_token("agent", agent=world.agent),
    )
    answers = {
        (each.name, kind): send(token, each)
        for each in list_calls(world.ids)
        for kind, token in (("operator", secret), ("agent", own))
    }
    assert {name: found for name, found in answers.items() if found.status >= 500} == {}
