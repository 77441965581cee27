"""Signing in with a real OpenID Connect provider, in a thread of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from django.contrib.auth.models import User
from django.test import Client
from oidc_provider_mock import User as Identity
from oidc_provider_mock import run_server_in_thread
from pytest_django import Settings

from ledger.authorization.roles import Role
from ledger.journal import SYSTEM, Stamp
from ledger.models import Event, Membership, Project, SignIn
from ledger.people.invitations import invite
from tests.dashboard.seen import html
from tests.factories import make_project

pytestmark = [
    pytest.mark.django_db,
    # the provider's own, which it answers with 500 here
    pytest.mark.filterwarnings("ignore::DeprecationWarning:authlib"),
    pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning"),
]


@dataclass(frozen=True)
class Provider:
    url: str

    def put(self, sub: str, **claims: Any) -> None:
        """Set what the provider says about an identity."""
        response = httpx2.put(f"{self.url}/users/{sub}", json=claims)
        assert response.status_code < 300, response.text


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    with run_server_in_thread(user_claims=[Identity(sub="x")]) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def provider(provider_url: str, settings: Settings) -> Provider:
    settings.TENFOUR = settings.TENFOUR | {
        "OIDC_ISSUER": provider_url,
        "OIDC_NAME": "Acme SSO",
        "OIDC_GROUPS": "sre=default:admin,staff=default:viewer",
    }
    app = {
        "provider_id": "sso",
        "name": "Acme SSO",
        "client_id": "tenfour",
        "secret": "s" * 32,
        "settings": {"server_url": provider_url},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}
    }
    return Provider(provider_url)


def go(client: Client, sub: str, next: str = "/tasks/") -> Any:
    """Sign in at the provider as the identity `sub`, and return the answer to the callback."""
    start = client.get("/sign-in/sso/", {"next": next})
    assert start.status_code == 302, start.content
    assert "code_challenge_method=S256" in start["Location"]
    back = httpx2.post(start["Location"], data={"sub": sub}, follow_redirects=False)
    assert back.status_code in (302, 303), back.text
    return client.get(back.headers["Location"].partition("testserver")[2])


def test_it_is_off_without_an_issuer(client: Client) -> None:
    assert "Continue with" not in html(client.get("/sign-in/"))
    assert client.get("/sign-in/sso/").status_code == 404
    assert client.get("/sign-in/sso/callback/").status_code == 404


def test_groups_give_roles_and_take_them_back(provider: Provider, project: Project) -> None:
    provider.put("kim", preferred_username="kim", name="Kim", groups=["sre", "staff", "else"])
    client = Client()
    assert "Continue with <bdi>Acme SSO</bdi>" in html(client.get("/sign-in/"))
    assert go(client, "kim")["Location"] == "/tasks/"
    assert client.get("/tasks/").status_code == 200
    row = Membership.objects.get()
    assert (row.user.username, row.role, row.group) == ("kim", "admin", "sre")
    assert SignIn.objects.get().method == "single_sign_on"
    assert not row.user.has_usable_password() and not row.user.is_staff
    provider.put("kim", preferred_username="kim", groups=["staff"])
    go(Client(), "kim")
    assert Membership.objects.get().role == "viewer"
    assert client.get("/settings/tokens/").status_code == 403
    provider.put("kim", preferred_username="kim")
    refused = go(Client(), "kim")
    assert refused["Location"] == "/sign-in/"
    assert not Membership.objects.exists() and client.get("/tasks/").status_code == 302
    kinds = Event.objects.filter(subject_type="member").order_by("id")
    assert list(kinds.values_list("kind", flat=True)) == [
        "member.added",
        "member.changed",
        "member.removed",
    ]


def test_no_address_and_no_name_leads_into_an_account(
    provider: Provider, project: Project, mara: User
) -> None:
    """Not even a verified address: identities are known by their own id."""
    User.objects.update(email="mara@example.com")
    provider.put(
        "evil",
        preferred_username="mara",
        email="mara@example.com",
        email_verified=True,
        groups=["staff"],
    )
    client = Client()
    assert go(client, "evil")["Location"] == "/tasks/"
    made = User.objects.get(pk=client.session["_auth_user_id"])
    assert made != mara and not made.is_superuser and made.username != "mara"
    assert client.get("/admin/").status_code == 302


def test_a_stranger_gets_no_account_without_an_invitation(
    provider: Provider, project: Project
) -> None:
    provider.put("lee", preferred_username="lee", email="lee@example.com", email_verified=False)
    assert go(Client(), "lee")["Location"] == "/sign-in/"
    assert go(Client(), "lee", "/join/wrong/")["Location"] == "/sign-in/"
    assert not User.objects.exists()
    _, secret = invite(make_project(), Role.OPERATOR, email="lee@example.com", stamp=Stamp(SYSTEM))
    client = Client()
    path = f"/join/{secret}/"
    assert go(client, "lee", path)["Location"] == path
    assert client.post(path).status_code == 403  # the provider does not vouch for the address
    _, secret = invite(project, Role.OPERATOR, stamp=Stamp(SYSTEM))
    assert client.post(f"/join/{secret}/")["Location"] == "/?project=default"
    assert Membership.objects.get().user.username == "lee"


def test_forged_and_repeated_answers_are_refused_and_attempts_limited(
    provider: Provider, project: Project
) -> None:
    client = Client()
    forged = client.get("/sign-in/sso/callback/", {"code": "x", "state": "y"})
    assert forged["Location"] == "/sign-in/" and "_auth_user_id" not in client.session
    outside = client.get("/sign-in/sso/", {"next": "https://evil.example/"})
    assert "evil" not in outside["Location"]
    answers = [client.get("/sign-in/sso/")["Location"] for _ in range(40)]
    assert answers[-1] == "/sign-in/" and "authorize" in answers[0]
