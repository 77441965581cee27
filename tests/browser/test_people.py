"""People in a browser: from an invitation to the last browser, and single sign-on."""

from collections.abc import Callable
from datetime import timedelta

import httpx2
import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone
from oidc_provider_mock import User as Identity
from oidc_provider_mock import run_server_in_thread
from playwright.sync_api import Page, ViewportSize, expect
from pytest_django import Settings

from ledger.authorization.roles import Role
from ledger.models import Agent, Invitation, Membership, Preference, Token
from tests.browser.conftest import PASSWORD as MARAS
from tests.browser.conftest import Visitor, assert_whole, assert_whole_as_it_is
from tests.factories import make_token

HOSTILE = "<script>document.title='owned'</script> " + "x" * 60
PASSWORD = "correct-horse-battery"
DESK: ViewportSize = {"width": 1440, "height": 900}


def test_from_an_invitation_to_the_last_browser(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    """A person joins, signs in, makes a token, sets a profile, and ends another browser."""
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
    page.get_by_label("Role", exact=True).select_option("admin")
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#invitation-link").text_content() or ""
    assert_whole_as_it_is(page, part="#link")
    guest = visit()
    page = guest.open("/join/" + link.partition("/join/")[2])
    assert_whole_as_it_is(page, part="html")
    page.set_viewport_size(DESK)
    page.get_by_label("Username").fill("lena")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.get_by_role("button", name="Create account and join").click()
    expect(page.locator("#toasts")).to_contain_text("You are a member of default now")
    page.get_by_role("button", name="Sign out").click()
    sign_in(page)

    page.goto(f"{guest.url}/settings/tokens/?new=1")
    page.locator("#new-kind").select_option("agent")
    page.get_by_label("Agent for an agent’s token").fill("coder")
    page.get_by_role("button", name="Create and show the secret").click()
    secret = page.locator("#token-secret").text_content() or ""
    assert secret.startswith("tenfour_agt_")
    assert_whole_as_it_is(page)
    page = assert_whole(guest, "/settings/tokens/")
    expect(page.locator("main")).not_to_contain_text(secret)

    page = assert_whole(guest, "/settings/profile/")
    page.set_viewport_size(DESK)
    page.get_by_label("Theme").last.select_option("dark")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    with page.expect_response(lambda response: "/profile/save/" in response.url):
        page.locator("[data-theme-toggle]").click()
    expect(page.locator("html")).to_have_attribute("data-theme-saved", "system")
    stored = Preference.objects.get(user__username="lena")
    assert (stored.theme, stored.time_zone) == ("system", "Asia/Tokyo")

    second = visit().open("/")
    sign_in(second)
    page.reload()
    page.get_by_role("button", name="End your other one").click()
    expect(page.locator("#toasts")).to_contain_text("1 other browser signed out")
    second.reload()
    expect(second.get_by_role("button", name="Sign in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Profile", exact=True)).to_be_visible()


def sign_in(page: Page) -> None:
    page.get_by_label("Username").fill("lena")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview", exact=True)).to_be_visible()


def enter_with_sso(page: Page, name: str) -> None:
    page.get_by_role("link", name="Continue with Acme SSO").click()
    page.locator("input[name=sub]").first.fill(name)
    page.locator("button[type=submit], input[type=submit]").first.click()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_single_sign_on(visit: Callable[..., Visitor], coder: Agent, settings: Settings) -> None:
    with run_server_in_thread(user_claims=[Identity(sub="kim"), Identity(sub="pat")]) as server:
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
        enter_with_sso(page, "pat")
        expect(page.get_by_role("status")).to_contain_text("Your account has no access")
        assert_whole_as_it_is(page)
        assert not Membership.objects.exists()
        page.goto(f"{page.url.partition('/sign-in')[0]}/tasks/")
        enter_with_sso(page, "kim")
        expect(page.get_by_role("heading", name="Tasks", exact=True)).to_be_visible()
        assert Membership.objects.get().user.username == "kim"


def test_members_and_their_browsers_are_changed(
    visit: Callable[..., Visitor], coder: Agent
) -> None:
    """A role with its undo, a new link, an expired one, all browsers of one, and a removal."""
    tom = User.objects.create_user("tom", password=PASSWORD)
    member = Membership.objects.create(user=tom, project=coder.project, role=Role.VIEWER)
    boss = visit()
    page = boss.sign_in("/settings/people/")
    page.get_by_label("Role of tom").select_option("operator")  # saved at once
    expect(page.locator("#toasts")).to_contain_text("tom is now an operator")
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("tom is now a viewer")
    member.refresh_from_db()
    assert member.role == Role.VIEWER

    page.get_by_role("button", name="Create link").click()
    first = page.locator("#invitation-link").text_content()
    page.get_by_role("button", name="New link").click()
    expect(page.locator("#link")).to_contain_text("The old link no longer works.")
    assert page.locator("#invitation-link").text_content() != first
    before = timedelta(days=9)
    Invitation.objects.update(
        created_at=F("created_at") - before, expires_at=F("expires_at") - before
    )
    page.goto(f"{boss.url}/settings/people/")
    page.get_by_role("button", name="Invite again").click()
    expect(page.locator("#invitation-link")).to_be_visible()
    assert Invitation.objects.filter(expires_at__gt=timezone.now()).count() == 1

    other = visit().open("/sign-in/")
    other.get_by_label("Username").fill("tom")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("heading", name="Overview", exact=True)).to_be_visible()
    page.goto(f"{boss.url}/settings/people/")
    page.get_by_role("link", name="End all of one person").click()
    expect(page.get_by_label("Person", exact=True)).to_contain_text("tom · 1 browser")
    page.get_by_role("button", name="End all").click()
    expect(page.locator("#toasts")).to_contain_text("tom is signed out of 1 browser.")
    other.reload()
    expect(other.get_by_role("button", name="Sign in")).to_be_visible()

    page.get_by_role("button", name="Remove tom").click()
    expect(page.locator("#asked")).to_contain_text("tom no longer sees default")
    assert_whole_as_it_is(page)
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("tom is no longer a member of default.")
    assert not Membership.objects.exists() and boss.complaints == []


def test_a_token_is_rotated_and_revoked(visit: Callable[..., Visitor], coder: Agent) -> None:
    make_token("agent", agent=coder, name="laptop")
    visitor = visit()
    page = visitor.sign_in("/settings/tokens/")
    page.keyboard.press("j")
    page.keyboard.press("r")
    page.get_by_label("The old secret").select_option(index=1)
    page.get_by_role("button", name="Rotate and show the secret").click()
    expect(page.locator("#token-secret")).to_contain_text("tenfour_agt_")
    assert Token.objects.count() == 2
    page.goto(f"{visitor.url}/settings/tokens/")
    newest = Token.objects.latest("id")
    page.locator(f"#token-{newest.pk}").get_by_role("link", name="Revoke").click()
    expect(page.locator("#asked")).to_contain_text("coder stops unless it has another token.")
    assert_whole_as_it_is(page)
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("is revoked. Calls with it are refused.")
    newest.refresh_from_db()
    assert newest.revoked_at and visitor.complaints == []


def test_a_person_changes_the_password(visit: Callable[..., Visitor], coder: Agent) -> None:
    visitor = visit()
    page = visitor.sign_in("/settings/profile/")
    for old, said in (("wrong", "Check the fields below"), (MARAS, "Password changed")):
        page.get_by_label("Old password").fill(old)
        page.get_by_label("New password", exact=True).fill(PASSWORD)
        page.get_by_label("New password again").fill(PASSWORD)
        page.get_by_role("button", name="Change password").click()
        expect(page.locator("body")).to_contain_text(said)
    assert User.objects.get(username="mara").check_password(PASSWORD)
    page.reload()  # still signed in here
    expect(page.get_by_role("heading", name="Profile", exact=True)).to_be_visible()
