"""People in a browser: an invitation from its link to a member, and single sign-on."""

from collections.abc import Callable

import httpx2
import pytest
from django.contrib.auth.models import User
from oidc_provider_mock import User as Identity
from oidc_provider_mock import run_server_in_thread
from playwright.sync_api import expect
from pytest_django import Settings

from ledger.models import Agent, Membership
from ledger.roles import Role
from tests.browser.conftest import Visitor, assert_whole, assert_whole_as_it_is
from tests.factories import make_token

HOSTILE = "<script>document.title='owned'</script> " + "x" * 60
PASSWORD = "correct-horse-battery"


def test_invite_and_join(visit: Callable[..., Visitor], coder: Agent) -> None:
    for number in range(12):
        user = User.objects.create_user(f"{HOSTILE}{number}"[:150], email=f"{'y' * 60}@example.com")
        Membership.objects.create(
            user=user, project=coder.project, role=Role.values[number % 3], added_by=HOSTILE
        )
        make_token("agent", agent=coder, name=HOSTILE[:64])
    boss = visit().signed_in()
    page = assert_whole(boss, "/settings/people/")
    page.keyboard.press("i")
    expect(page.get_by_label("Email")).to_be_focused()
    page.get_by_label("Role", exact=True).select_option("viewer")
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#invitation-link").text_content() or ""
    assert_whole_as_it_is(page)
    path = "/join/" + link.partition("/join/")[2]
    guest = visit()
    page = guest.open(path)
    assert_whole_as_it_is(page)
    page.get_by_label("Username").fill("lena")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.get_by_role("button", name="Create account and join").click()
    expect(page.locator("#toasts")).to_contain_text("You are a member of default now")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_single_sign_on(visit: Callable[..., Visitor], coder: Agent, settings: Settings) -> None:
    with run_server_in_thread(user_claims=[Identity(sub="kim")]) as server:
        url = f"http://localhost:{server.server_port}"
        httpx2.put(f"{url}/users/kim", json={"preferred_username": "kim", "groups": ["staff"]})
        settings.TENFOUR = settings.TENFOUR | {
            "OIDC_ISSUER": url,
            "OIDC_NAME": "Acme SSO",
            "OIDC_GROUPS": "staff=default:viewer",
        }
        app = {
            "provider_id": "sso",
            "name": "Acme SSO",
            "client_id": "tenfour",
            "secret": "s" * 32,
            "settings": {"server_url": url},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {
            "openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}
        }
        page = visit().open("/tasks/")
        assert_whole_as_it_is(page)
        page.get_by_role("link", name="Continue with Acme SSO").click()
        page.locator("input[name=sub]").first.fill("kim")
        page.locator("button[type=submit], input[type=submit]").first.click()
        expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()
        assert Membership.objects.get().user.username == "kim"
