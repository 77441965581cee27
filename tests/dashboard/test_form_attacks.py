"""Forms that ask for more than they may: a way out of the site, rights, and formulas."""

import re
from urllib.parse import urljoin, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.lists.export import guard
from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import Agent, Invitation, Membership, Project, Token
from ledger.people.invitations import invite
from tests.factories import make_project

SITE = "http://testserver/"
WAYS_OUT = (
    "//evil.example",
    "///evil.example",
    "https://evil.example/",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    " //evil.example",
    "http:evil.example",
    "javascript:alert(1)",
    "data:text/html,x",
)


@pytest.fixture
def eve(agent: Agent) -> User:
    """Return the admin of the project."""
    user = User.objects.create_user("eve", password="tenfour-tenfour")
    Membership.objects.create(user=user, project=agent.project, role=Role.ADMIN, added_by="mara")
    return user


@pytest.fixture
def client(eve: User) -> Client:
    client = Client()
    client.force_login(eve)
    return client


@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_form_leads_out_of_the_site(client: Client, agent: Agent, way: str) -> None:
    form = {"next": way, "username": "eve", "password": "tenfour-tenfour", "reason": "x"}
    forms = (
        (Client(), "/sign-in/"),
        (client, "/sign-in/"),
        (client, f"/agents/{agent.pk}/pause/"),
        (client, "/settings/people/browsers/end-others/"),
        (client, "/operations/new/task.skip/"),
        (client, "/views/tasks/save/"),
    )
    for browser, path in forms:
        response = browser.post(path, form | {"q": "state:retry", "name": "Mine"})
        assert response.status_code == 302, path
        target = re.sub(r"[\t\r\n]", "", response["Location"]).replace("\\", "/").strip()
        assert urlsplit(urljoin(SITE, target)).netloc == "testserver", (path, target)


def test_a_form_sets_no_field_that_it_does_not_show(
    client: Client, eve: User, project: Project
) -> None:
    rights = {"is_staff": "on", "is_superuser": "on", "user": "1", "user_id": "1", "pk": "1"}
    client.post("/settings/profile/save/", rights | {"theme": "dark", "time_zone": "UTC"})
    _, secret = invite(project, Role.VIEWER, stamp=Stamp(SYSTEM))
    account = {"username": "lena", "password1": "horse-battery-9", "password2": "horse-battery-9"}
    Client().post(f"/join/{secret}/", rights | account | {"role": "admin", "email": "x@y.example"})
    assert Membership.objects.get(user__username="lena").role == Role.VIEWER
    assert not User.objects.filter(is_staff=True).exists()
    assert not User.objects.filter(is_superuser=True).exists()
    assert User.objects.get(username="lena").email == ""

    elsewhere = make_project("elsewhere")
    for path, form in (
        ("/settings/people/invitations/", {"role": "admin"}),
        ("/settings/tokens/new/", {"kind": "operator"}),
    ):
        for name in ("project", "in"):
            assert client.post(path, form | {name: "elsewhere"}).status_code == 404, (path, name)
        more = {"project_id": str(elsewhere.pk), "scopes": "tokens:write"}
        assert client.post(path, form | more).status_code == 200, path  # in the own project
    more = {"kind": "agent", "agent": "coder", "manages_tokens": "yes", "scopes": "tokens:write"}
    assert client.post("/settings/tokens/new/", more).status_code == 200
    assert not Token.objects.filter(project=elsewhere).exists()
    assert not Token.objects.filter(scopes__contains=["tokens:write"]).exists()
    assert not Invitation.objects.filter(project=elsewhere).exists()


@pytest.mark.parametrize("first", "=+-@\t\r\n＝＋－＠")
def test_no_cell_of_an_export_is_a_formula(first: str) -> None:
    """A spreadsheet set to Japanese or Chinese reads the wide signs as the narrow ones."""
    assert guard(f"{first}1+1") == f"'{first}1+1"
