"""Requests that no page sends: every address answers in words, never with an error of the server."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from dashboard.urls import urlpatterns
from ledger.authorization.roles import Role
from ledger.models import Agent, Membership, Project, SavedView, Token
from retries.models import NotificationRule
from tests.access_world import World, make_world
from tests.dashboard.conftest import PART
from tests.dashboard.notifications.deliveries import make_channel, make_notification_rule
from tests.dashboard.seen import html
from tests.dashboard.test_roles import list_forms, path_of, sign_in, text_of
from tests.elsewhere import blocked
from tests.waiting import PATIENCE_S

# the fields and parameters that views read, but not those that name a project
NAME = re.compile(
    r"""(?:get|getlist|read_number|read_time|text)\(\s*"([a-z_0-9]+)"|"(\w+)" in \w"""
)
OF_PROJECTS = {"project", "in"}
GARBAGE = (
    *(
        "",
        "\0",
        "a\0b",
        "\U0001f4a5\u202e\u200b",
        "x" * 5_000,
        "9" * 20,
        "-1",
        "²",
        "NaN",
        "[]",
        "1_0",
    ),
    *("ffffffff-ffff-ffff-ffff-ffffffffffff", "22:00+05:00", "0001-01-01T00:00:00+23:59", "T22"),
    *("0001-01-01T00:00", "9999-12-31T23:59:59-23:59", "10000-01-01", "older:99999w -a: x:y"),
    *("//[", "//a\u2100b/", "https://a.example:99999999/", "%s{}{{", "a,b", "~", "escalation,zzz"),
)
ROUNDS = 2
# what starts a trial of the network, or ends the walk's own session
LEFT_OUT = {"sign_out"}


@pytest.fixture
def world(agent: Agent, now: datetime) -> World:
    return make_world(agent, now)


def read_names() -> list[str]:
    """Return the names of all fields and parameters in the source of the pages."""
    folder = Path(django_settings.BASE_DIR) / "dashboard"
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        found |= {first or second for first, second in NAME.findall(path.read_text())}
    return sorted(found - OF_PROJECTS)


def pick(name: str, at: int) -> str:
    """Return the garbage for a field in a round; each round gives each field another one."""
    return GARBAGE[(crc32(name.encode()) + at) % len(GARBAGE)]


def list_garbage(names: list[str], form: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield methods with data: all fields at once, and a right form with one wrong field."""
    for at in range(ROUNDS):
        everything = {name: pick(name, at * 7) for name in names}
        yield "get", everything
        yield "post", everything
        yield "post", everything | form
        for name in form:
            yield "post", form | {name: pick(name, at * 7)}
    for name in form:
        yield "post", {key: value for key, value in form.items() if key != name}
        yield "post", form | {name: [form[name], "", form[name]]}


def list_right_forms(ids: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return forms that are taken, by the names of their URLs."""
    quiet = {"quiet_from": "22:00", "quiet_until": "07:00", "timezone": "UTC", "cap": "10"}
    rule = {"conditions": "plan", "channel": str(ids["channel_id"])} | quiet
    one = str(ids["escalation_id"])
    forms = list_forms(ids) | {
        "notification_channel": {"kind": "webhook", "name": "mine", "url": "https://127.0.0.1/"},
        "plan_import": {"project": "default", "text": "- Add it", "agent": "coder", "ref": "x"},
        "escalation_snooze": {"until": "own", "own": "2026-11-22T13:20", "zone": "Asia/Tokyo"},
        "deliveries_redeliver": {"to": str(ids["channel_id"]), "from": "2026-11-22T13:20"},
        "escalations_answer_all": {"action": "retry", "id": one, "shown": one},
        "connect_token": {"agent": "mine"},
        "rule_new": {"event": "signal", "content": "x"},
        "plan_act": {"confirmed": "yes", "counters": "carry", "carry_over": "2026-11-22T13:20"},
    }
    names = ("rule", "rule_preview", "rule_check", "example")
    return forms | {f"notification_{name}": rule for name in names}


def test_no_garbage_is_an_error_of_the_server(world: World) -> None:
    """A member and a superuser take turns: what they see is found in different ways."""
    member = sign_in(Role.ADMIN, world.project)
    clients = cycle((member, sign_in("root", is_staff=True, is_superuser=True)))
    names, forms, wrong = read_names(), list_right_forms(world.ids), set()
    for name in [str(each.name) for each in urlpatterns]:
        if name in LEFT_OUT:
            continue
        path = {"sign_in": "/sign-in/", "join": "/join/x/"}.get(name) or path_of(world, name)
        for method, data in list_garbage(names, forms.get(name, {})):
            client = next(clients)
            client.raise_request_exception = False
            with transaction.atomic():
                response = getattr(client, method)(path, data)
                text = text_of(response)
                transaction.set_rollback(True)
            if response.status_code >= 500 or (response.status_code >= 400 and not text.strip()):
                wrong.add((name, method, response.status_code))
    assert wrong == set()


def test_utf_8_and_ascii_are_named_or_not(browser: Client) -> None:
    for name in ("utf-8", "UTF-8", "us-ascii"):
        kind = f"application/x-www-form-urlencoded; charset={name}"
        saved = browser.generic("POST", "/views/tasks/save/", "name=%C3%A9&q=state%3Aretry", kind)
        assert saved.status_code == 302, name
    assert list(SavedView.objects.values_list("name", flat=True)) == ["é"]


def test_a_body_that_is_cut_off_is_refused_in_words(browser: Client) -> None:
    cut = b'--x\r\nContent-Disposition: form-data; name="name"\r\n'
    for data, kind in ((cut, "multipart/form-data; boundary="), (b"&".join([b"a=b"] * 2_000), "")):
        kind = kind or "application/x-www-form-urlencoded"
        refused = browser.generic("POST", "/settings/tokens/new/", data, kind)
        assert refused.status_code == 400, kind
        assert "Nothing was changed" in refused.content.decode()


# ---- the addresses of forms


def list_forms_with_pages(ids: dict[str, Any]) -> dict[str, str]:
    """Return the forms that are answered with a page, by their addresses, and where that page is."""
    settings, session = "/settings", f"/sessions/{ids['session_id']}/"
    return {
        f"{settings}/tokens/new/": f"{settings}/tokens/",
        f"{settings}/tokens/{ids['token_id']}/rotate/": f"{settings}/tokens/",
        f"{settings}/people/invitations/": f"{settings}/people/",
        f"{settings}/people/invitations/{ids['invitation_id']}/again/": f"{settings}/people/",
        f"{settings}/profile/password/": f"{settings}/profile/",
        f"{settings}/notifications/rules/": f"{settings}/notifications/",
        f"{settings}/notifications/rules/check/": f"{settings}/notifications/",
        f"{settings}/notifications/rules/example/": f"{settings}/notifications/",
        f"{settings}/notifications/channels/": f"{settings}/notifications/",
        f"{settings}/notifications/channels/{ids['channel_id']}/rotate/": f"{settings}/notifications/",
        f"{settings}/notifications/quiet-hours/": f"{settings}/notifications/",
        f"{session}flush/": session,
        f"{session}to-dos/4/task/": session,
        "/operations/new/task.skip/": "/tasks/",
    }


def test_the_links_of_an_answered_form_lead_to_its_page(browser: Client, world: World) -> None:
    """Such an answer has links that begin with "?", polls itself, and may be reloaded."""
    for address, page in list_forms_with_pages(world.ids).items():
        sent = browser.get(f"{address}?make=4")
        query = "?make=4" if "operations" not in address else ""
        assert (sent.status_code, sent["Location"]) == (302, page + query), address
        assert browser.get(sent["Location"]).status_code == 200, address
        assert browser.put(address).status_code == 405, address
    made = browser.post("/settings/tokens/new/", {"kind": "reader", "project": "default"})
    links = re.findall(r'href="(\?[^"#]*)', made.content.decode())
    assert links
    for link in links:
        found = browser.get(f"/settings/tokens/new/{link}".replace("&amp;", "&"), follow=True)
        assert found.status_code == 200, link


def test_a_to_do_that_is_refused_stays_open_at_a_poll(browser: Client, world: World) -> None:
    path = f"/sessions/{world.ids['session_id']}/to-dos/4/task/?make=4"
    refused = browser.post(path, {"title": "x", "agent": "nobody"})
    assert refused.status_code == 422
    asked = re.search(r'hx-get="([^"]+)"', refused.content.decode())
    assert asked and path.split("?")[0] in asked[1]
    polled = browser.get(asked[1].replace("&amp;", "&"), follow=True, headers=PART)
    assert 'id="task-form"' in polled.content.decode()


def test_other_methods_get_a_sentence(browser: Client, agent: Agent) -> None:
    for response in (browser.get(f"/agents/{agent.pk}/pause/"), browser.post("/tasks/")):
        assert response.status_code == 405 and response["Allow"]
        assert "Nothing was changed" in response.content.decode()


@pytest.mark.parametrize("way", ["tasks", "[]", "²", "home", "\0", "//[", "dashboard:tasks"])
def test_the_way_back_from_signing_in_is_a_path(browser: Client, way: str) -> None:
    assert browser.get("/sign-in/", {"next": way})["Location"] == "/"


# ---- a session that ends in the middle


@pytest.mark.parametrize(
    ("page", "target"),
    [
        ("http://testserver/settings/tokens/?new=1", "/settings/tokens/%3Fnew%3D1"),
        ("http://testserver", "/"),
        ("https://evil.example/tasks/", "/settings/tokens/new/"),
        ("//[", "/settings/tokens/new/"),
        ("", "/settings/tokens/new/"),
    ],
)
def test_a_form_that_comes_too_late_says_so(db: None, page: str, target: str) -> None:
    """After signing in a person is on the page of the form, and knows that it was not sent."""
    client = Client()
    late = client.post("/settings/tokens/new/", {"kind": "reader"}, headers={"Referer": page})
    assert (late.status_code, late["Location"]) == (302, f"/sign-in/?next={target}")
    told = html(client.get(late["Location"]))
    assert "You were signed out, so the form was not sent and nothing was changed." in told
    assert not Token.objects.exists()


# ---- people who act at once


@pytest.fixture
def admin(transactional_db: None) -> Client:
    project = Project.objects.get_or_create(name="default")[0]
    return sign_in(Role.ADMIN, project)


def test_a_rule_that_someone_deletes_meanwhile_is_refused_in_words(
    admin: Client, now: datetime, elsewhere: Callable[..., Future[Any]]
) -> None:
    project = Project.objects.get(name="default")
    channel = make_channel("ops", project=project, kind="person", now=now)
    rule = make_notification_rule(channel, project=project, now=now)
    path = f"/settings/notifications/rules/{rule.pk}/off/"
    with transaction.atomic():
        NotificationRule.objects.filter(pk=rule.pk).delete()
        late = elsewhere(lambda: admin.post(path))
        with blocked(late):
            pass
    response = late.result(PATIENCE_S)
    assert response.status_code == 404
    assert "There is no notification rule" in html(response, 404)


def test_a_token_of_a_form_that_is_sent_twice_at_once_is_made_once(
    admin: Client, elsewhere: Callable[..., Future[Any]]
) -> None:
    project, id = Project.objects.get(name="default"), uuid4()
    with transaction.atomic():
        first = admin.post(f"/agents/connect/{id}/", {"agent": "mine"})
        late = elsewhere(lambda: admin.post(f"/agents/connect/{id}/", {"agent": "mine"}))
        with blocked(late):
            pass
    assert first.status_code == late.result(PATIENCE_S).status_code == 200
    assert Token.objects.filter(project=project, agent__name="mine").count() == 1


def test_two_admins_who_change_each_other_wait_in_one_order(
    admin: Client, elsewhere: Callable[..., Future[Any]]
) -> None:
    """The one that waits holds no row of the project, so they can't deadlock."""
    project = Project.objects.get(name="default")
    first = Membership.objects.get(project=project)
    other = User.objects.create_user("tom")
    second = Membership.objects.create(
        user=other, project=project, role=Role.ADMIN, added_by="mara"
    )
    assert first.pk < second.pk
    with transaction.atomic():
        Membership.objects.select_for_update().get(pk=first.pk)
        late = elsewhere(lambda: admin.post(f"/settings/people/members/{second.pk}/viewer/"))
        with blocked(late):
            Membership.objects.select_for_update(nowait=True).get(pk=second.pk)
            User.objects.select_for_update(nowait=True).get(pk=other.pk)
            Project.objects.select_for_update(nowait=True).get(pk=project.pk)
    assert late.result(PATIENCE_S).status_code == 302
    second.refresh_from_db()
    assert second.role == Role.VIEWER
