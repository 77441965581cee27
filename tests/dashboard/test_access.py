"""Who may see pages and act on them."""

import re
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from dashboard.frame.access import PAGES as DECLARED
from dashboard.frame.access import describe_permission
from dashboard.urls import urlpatterns
from ledger.authorization.permissions import ENTER
from ledger.models import Agent, Event
from retries.models import Escalation
from tests.dashboard.conftest import PART
from tests.dashboard.seen import html
from tests.factories import pull, send, tick

ID = "01a1fe8a-1bbf-798b-b797-e0023d4c4b40"
PAGES = [
    "/instructions/",
    f"/instructions/{ID}/",
    "/search/",
    "/tasks/",
    f"/tasks/{ID}/",
    "/dead-letters/",
    f"/dead-letters/{ID}/",
]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.django_db
def test_strangers_are_sent_to_sign_in_and_come_back(path: str) -> None:
    response = Client().get(path, {"q": "a b"})
    assert (response.status_code, response["Location"]) == (
        302,
        f"/sign-in/?next={path}%3Fq%3Da%2Bb",
    )


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.django_db
def test_a_part_is_refused_so_that_no_form_lands_in_the_page(path: str) -> None:
    response = Client().get(path, headers=PART)
    assert (response.status_code, response.content) == (401, b"You are signed out.")


@pytest.mark.parametrize("flags", [{}, {"is_staff": True, "is_active": False}])
@pytest.mark.django_db
def test_only_active_staff_may_enter(flags: dict[str, bool]) -> None:
    client = Client()
    client.force_login(User.objects.create_user("visitor", **flags))
    assert client.get("/instructions/").status_code == 302


ARGUMENTS = {"slug": "abort", "str": "03-01", "uuid": ID, "int": 1}
# what asks for no permission, so that people can sign in and out
OPEN = {"sign_in", "sign_out", "join"}


def call(client: Client, name: str, **headers: str) -> HttpResponse:
    """Request the URL pattern with this name: by GET, or by POST if it takes no other."""
    pattern = next(each for each in urlpatterns if each.name == name)
    kinds = re.findall(r"<(\w+):(\w+)>", str(pattern.pattern))
    path = reverse(f"dashboard:{name}", kwargs={key: ARGUMENTS[kind] for kind, key in kinds})
    response = client.get(path, headers=headers)
    return client.post(path, headers=headers) if response.status_code == 405 else response


def test_every_page_and_action_names_its_permission(db: None) -> None:
    assert {str(each.name) for each in urlpatterns} - OPEN == set(DECLARED)
    rows = Permission.objects.values_list("content_type__app_label", "codename", "name")
    known = {f"{app}.{codename}": name for app, codename, name in rows}
    for verb in {each.permission for each in DECLARED.values()} - {ENTER}:
        assert describe_permission(verb) == known[verb]


def test_each_page_and_action_needs_its_permission(db: None) -> None:
    """Without it staff are told which one is missing; with it, and no other, they get in."""
    user = User.objects.create_user("eve", is_staff=True)
    client = Client()
    client.force_login(user)
    for name, declared in DECLARED.items():
        verb = declared.permission
        user.user_permissions.clear()
        if verb == ENTER:
            assert call(client, name).status_code not in (401, 403), name
            continue
        missing = describe_permission(verb)
        told = call(client, name)
        assert told.status_code == 403, name
        assert f"Your account does not have the permission “{missing}”" in html(told, 403)
        script = call(client, name, **PART)
        assert (script.status_code, script["Content-Type"][:10]) == (403, "text/plain")
        assert missing in script.content.decode() and "<" not in script.content.decode()
        app, _, codename = verb.partition(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )
        assert call(client, name).status_code not in (401, 403), name
    assert not Event.objects.exists()


def test_the_sidebar_shows_what_may_be_opened(db: None) -> None:
    user = User.objects.create_user("eve", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    client = Client()
    client.force_login(user)
    page = client.get("/tasks/")
    labels = [entry.place.label for entry in page.context["shell"].entries]
    assert (page.status_code, labels) == (200, ["Tasks", "Settings"])


def test_pages_are_read_only_and_never_stored(browser: Client) -> None:
    assert browser.post("/instructions/").status_code == 405
    response = browser.get("/instructions/")
    assert "no-store" in response["Cache-Control"]
    assert response["Vary"].count("HX-Request") == 1


def test_head_gets_what_get_would_without_the_page(
    browser: Client, agent: Agent, now: datetime
) -> None:
    start = now - timedelta(minutes=1)
    id = send(agent, max_retries=0, on_failed="escalate", now=start)
    pull(agent, now=start)
    tick(now)
    question = Escalation.objects.get(instruction=id)
    lists = ["/", "/instructions/", "/agents/", "/activity/", "/escalations/"]
    single = [f"/instructions/{id}/", f"/agents/{agent.pk}/", f"/escalations/{question.pk}/"]
    for path in [*lists, *single, "/instructions/new/"]:
        response = browser.head(path)
        assert (path, response.status_code, response.content) == (path, 200, b"")
    assert browser.head("/search/", {"q": str(id)})["Location"] == f"/instructions/{id}/"
    assert Client().head("/").status_code == 302


def test_an_unknown_address_is_told_in_words(browser: Client) -> None:
    response = browser.get("/nowhere/<b>")
    assert response.status_code == 404
    assert "There is no page at <code>/nowhere/&lt;b&gt;</code>" in response.content.decode()
